import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import Testing

@Suite("The stored form of a notification's record")
struct RecordCodingTests {
    private static let record = NotificationRecord(
        content: Array(#"{"title":"سلام"}"#.utf8),
        plans: [
            DeliveryPlan(["a", "fcm"], onUnknown: .wait, unknownWait: .seconds(7), fallbackAfter: .milliseconds(90)),
            DeliveryPlan(["fcm"]),
        ],
        acceptedAt: Date(millisecondsSince1970: 1_764_000_000_123)
    )
    /// The time of acceptance 0, and the plan "a", with which a record without content begins.
    private static let beginning: [UInt8] = [1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0x61]
    /// Fields that no program has yet: two bytes with the tag 1,000, and none with the largest tag.
    private static let unknown: [UInt8] = [0xE8, 0x07, 2, 7, 8] + largestTag + [0]
    private static let largestTag = [UInt8](repeating: 0xFF, count: 9) + [1]

    private struct Field: Equatable {
        var tag: UInt64
        var bytes: [UInt8]
    }

    private static func fields(_ record: [UInt8]) -> [Field]? {
        var fields: [Field] = []
        let isWhole = RecordCoding.read(record) { fields.append(Field(tag: $0, bytes: Array($1))) }
        return isWhole ? fields : nil
    }

    @Test("A record has the bytes that stores have on disk")
    func bytes() {
        let record = NotificationRecord(
            content: [0x7B, 0x7D],
            plans: [DeliveryPlan(["a"]), DeliveryPlan(["b", "c"], onUnknown: .stop)],
            acceptedAt: Date(millisecondsSince1970: 0x0102_0304_0506)
        )
        let plan = Array("b>c|stop".utf8)
        #expect(
            record.encoded == [1, 1, 8, 6, 5, 4, 3, 2, 1, 0, 0, 2, 1, 0x61, 2, 8] + plan + [3, 2, 0x7B, 0x7D],
            "the bytes never change: they are in databases, archives and backups"
        )
    }

    @Test("A record is read as it was written")
    func roundTrip() {
        #expect(NotificationRecord(encoded: Self.record.encoded) == Self.record)
        for milliseconds in [0, -1, 1, 1 << 52, -(1 << 52)] as [Int64] {
            var record = Self.record
            record.acceptedAt = Date(millisecondsSince1970: milliseconds)
            let read = NotificationRecord(encoded: record.encoded)
            #expect(read?.acceptedAt.millisecondsSince1970 == milliseconds)
        }
    }

    @Test("Fields that the program does not know are written back in their order, after a change of others too")
    func unknownFields() throws {
        var read = try #require(NotificationRecord(encoded: Self.record.encoded + Self.unknown))
        #expect(read.encoded == Self.record.encoded + Self.unknown)
        #expect(read != Self.record, "they are a part of the value")
        read.content = [1]
        read.plans.append(DeliveryPlan(["hms"]))
        #expect(Array(read.encoded.suffix(Self.unknown.count)) == Self.unknown)
        // Between known fields as well: their place among those is not kept, their order is.
        let mixed = [1] + [9, 1, 5] + Self.beginning.dropFirst() + [10, 0] + [3, 0] + [9, 1, 6]
        let other = try #require(NotificationRecord(encoded: mixed))
        #expect(other.encoded == Self.beginning + [3, 0] + [9, 1, 5, 10, 0, 9, 1, 6])
    }

    @Test("Lengths of one, two, three and four bytes")
    func lengths() {
        let wanted: [Int: [UInt8]] = [
            0: [0], 1: [1], 127: [0x7F], 128: [0x80, 1], 16_383: [0xFF, 0x7F], 16_384: [0x80, 0x80, 1],
            2_097_151: [0xFF, 0xFF, 0x7F], 2_097_152: [0x80, 0x80, 0x80, 1],
        ]
        for (count, length) in wanted {
            let content = [UInt8](repeating: 0x63, count: count)
            let plans = [DeliveryPlan(["a"])]
            let moment = Date(millisecondsSince1970: 0)
            let record = NotificationRecord(content: content, plans: plans, acceptedAt: moment)
            #expect(record.encoded == Self.beginning + [3] + length + content, "\(count)")
            #expect(NotificationRecord(encoded: record.encoded) == record, "\(count)")
        }
    }

    @Test("A tag has up to 64 bits, and no more")
    func tags() {
        let known: [UInt8] = Self.beginning + [3, 0]
        #expect(Self.fields([1] + Self.largestTag + [1, 7]) == [Field(tag: .max, bytes: [7])])
        #expect(NotificationRecord(encoded: known + Self.largestTag + [0])?.encoded == known + Self.largestTag + [0])
        let tooLarge = Self.largestTag.dropLast() + [2, 0]
        let tooLong = Self.largestTag.dropLast() + [0x81, 0, 0]
        for bytes in [tooLarge, tooLong] {
            #expect(Self.fields([1] + bytes) == nil)
            #expect(NotificationRecord(encoded: known + bytes) == nil)
        }
    }

    @Test("A record of another version, without a needed field or with a wrong one is none")
    func refusals() {
        let good = Self.beginning + [3, 0]
        #expect(NotificationRecord(encoded: good) != nil)
        #expect(NotificationRecord(encoded: [2] + good.dropFirst()) == nil, "a later version")
        #expect(NotificationRecord(encoded: [0] + good.dropFirst()) == nil)
        #expect(NotificationRecord(encoded: []) == nil)
        #expect(NotificationRecord(encoded: Self.beginning) == nil, "without content")
        #expect(NotificationRecord(encoded: [1] + good.dropFirst(11)) == nil, "without a time")
        #expect(NotificationRecord(encoded: Array(good.prefix(11)) + [3, 0]) == nil, "without a plan")
        let short = [1, 1, 7, 0, 0, 0, 0, 0, 0, 0] + good.dropFirst(11)
        #expect(NotificationRecord(encoded: short) == nil, "a time of seven bytes")
        for moment in [Int64.min, .max, (1 << 53) + 1, -(1 << 53) - 1] {
            var bytes: [UInt8] = [1]
            RecordCoding.append(1, number: moment, to: &bytes)
            #expect(NotificationRecord(encoded: bytes + good.dropFirst(11)) == nil, "\(moment)")
        }
        // A length beyond the end, up to the largest one.
        #expect(NotificationRecord(encoded: good + [9, 1]) == nil)
        #expect(NotificationRecord(encoded: good + [9] + Self.largestTag) == nil)
    }

    @Test("A damaged record is a value or none: each prefix, and each other value of each byte")
    func damage() {
        let bytes = Self.record.encoded + Self.unknown
        // The content is the last needed field: what ends before it is no record.
        for count in 0..<Self.record.encoded.count {
            #expect(NotificationRecord(encoded: Array(bytes.prefix(count))) == nil, "\(count)")
        }
        var unstable: [String] = []
        for place in bytes.indices {
            for value in UInt8.min...UInt8.max {
                var damaged = bytes
                damaged[place] = value
                guard let read = NotificationRecord(encoded: damaged) else { continue }
                // The value is read again as it is written; a time in the far future to about a millisecond.
                let again = NotificationRecord(encoded: read.encoded)
                if read.plans.isEmpty || again?.content != read.content || again?.plans != read.plans {
                    unstable.append("\(place) \(value)")
                }
            }
        }
        #expect(unstable.isEmpty)
    }
}
