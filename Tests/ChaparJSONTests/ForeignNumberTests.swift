import Foundation
import Testing

@testable import ChaparJSON

@Suite("Numbers of others", .timeLimit(.minutes(1)))
struct ForeignNumberTests {
    static let extremes: [Double] = [
        0, -0.0, 1.9, -1.9, 255.5, 256, 2_147_483_648, 9_223_372_036_854_775_808, -9_223_372_036_854_775_808, 1e21,
        -1e21,
        1e308, -1e308, .infinity, -.infinity, .nan, .leastNonzeroMagnitude,
    ]

    @Test("Every number becomes a whole one within its type's range", arguments: extremes)
    func whole(number: Double) {
        func check<Integer: FixedWidthInteger>(_ type: Integer.Type) {
            let whole = Integer(clamping: number)
            if number.isNaN {
                #expect(whole == 0)
            } else if number.rounded(.towardZero) >= Double(Integer.max) {
                #expect(whole == .max)
            } else if number.rounded(.towardZero) <= Double(Integer.min) {
                #expect(whole == .min)
            } else {
                #expect(Double(whole) == number.rounded(.towardZero))
            }
        }
        check(Int.self)
        check(Int64.self)
        check(Int32.self)
        check(UInt8.self)
        check(UInt64.self)
    }

    @Test("Every number becomes a span that sums and products of a few keep", arguments: extremes)
    func spans(number: Double) {
        for span in [
            Duration.seconds(clamping: number), .milliseconds(clamping: number),
            .seconds(clamping: Int64(clamping: number)),
        ] {
            #expect(span <= Duration.longest && span >= .zero - Duration.longest)
            #expect((span * 10 + span).inMilliseconds == span.inMilliseconds * 11 || abs(number) < 3e12)
        }
        #expect(Duration.seconds(clamping: 1.5) == .milliseconds(1500))
        #expect(Duration.milliseconds(clamping: -1500.9) == .milliseconds(-1500))
    }

    @Test("Sums stop at the end of the range")
    func sums() {
        #expect(Int64.max.adding(clamping: 1) == .max && Int64.min.adding(clamping: -1) == .min)
        #expect(Int64.min.subtracting(clamping: 1) == .min && Int64.max.subtracting(clamping: -1) == .max)
        #expect(Int64(0).subtracting(clamping: .min) == .max && Int64(5).adding(clamping: -7) == -2)
        #expect(UInt8(3).subtracting(clamping: 4) == 0 && UInt8(250).adding(clamping: 10) == 255)
    }

    @Test("Products and distances stop there too, and a count that others give is one that sums of thousands bear")
    func products() {
        #expect(Int64.max.multiplied(clamping: 2) == .max && Int64.max.multiplied(clamping: -2) == .min)
        #expect(Int64.min.multiplied(clamping: -1) == .max && Int64.min.multiplied(clamping: 3) == .min)
        #expect(Int64(-4).multiplied(clamping: 5) == -20 && Int64.max.multiplied(clamping: 0) == 0)
        #expect(Int64.min.distance(clamping: .max) == .max && Int64.max.distance(clamping: .min) == .max)
        #expect(Int64(3).distance(clamping: 8) == 5 && Int64(8).distance(clamping: 3) == 5)
        #expect(Int(count: .max) == 1 << 48 && Int(count: .min) == 0 && Int(count: 7) == 7)
        #expect((0..<30_000).reduce(0) { sum, _ in sum + Int(count: .max) } == 30_000 << 48)
    }

    @Test("A span in milliseconds stays within 64 bits")
    func milliseconds() {
        #expect(
            Duration.seconds(Int64.max).inMilliseconds == .max && Duration.seconds(Int64.min).inMilliseconds == .min
        )
        #expect(Duration.milliseconds(-1500).inMilliseconds == -1500)
    }
}
