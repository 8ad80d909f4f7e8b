import Foundation
import Testing

@testable import ChaparCommands

@Suite("Times as people write them")
struct PersonTimeTests {
    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(secondsFromGMT: 0) ?? .current
        return calendar
    }()
    /// 2026-11-29T10:00:00Z.
    private static let now = Date(timeIntervalSince1970: 1_795_946_400)

    private func hours(_ text: String, _ direction: PersonTime.Direction) -> Double? {
        PersonTime.parse(text, direction, now: Self.now, calendar: Self.calendar)
            .map { $0.timeIntervalSince(Self.now) / 3_600 }
    }

    @Test("A day, a span and a time of day are on the side of now that is meant")
    func forms() {
        for (text, past, future) in [
            ("now", 0, 0), ("today", -10, -10), ("yesterday", -34, -34), ("tomorrow", 14, 14), ("2h", -2, 2),
            ("30m", -0.5, 0.5), ("7d", -168, 168), ("09:00", -1, 23), ("11:00", -23, 1),
            ("2026-11-28", -34, -34), ("2026-11-28T12:00", -22, -22), ("2026-11-29T09:00:00Z", -1, -1),
        ] as [(String, Double, Double)] {
            #expect(hours(text, .past) == past, "\(text)")
            #expect(hours(text, .future) == future, "\(text)")
        }
    }

    @Test("Other texts are no times", arguments: ["", "soon", "2026-02-30", "25:00", "-2h", "2026-11", "9999999999d"])
    func others(text: String) { #expect(hours(text, .past) == nil) }
}
