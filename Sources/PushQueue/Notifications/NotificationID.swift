public import Foundation
internal import PushCore

/// The id of an accepted notification: sorts by time, unique in a store, 13 characters in the API.
///
/// 42 bits of milliseconds since 2024 and 21 bits of counter. The deliveries of a notification have the numbers that
/// follow its own: the first delivery has the same number as the notification.
public struct NotificationID: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The number, the primary key in a store.
    public let rawValue: Int64

    /// Makes an id from its number.
    public init(rawValue: Int64) { self.rawValue = rawValue }

    private static let digits = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)  // Crockford's base 32
    private static let epoch: Int64 = 1_704_067_200_000  // 2024-01-01T00:00:00Z

    /// The lowest id of a moment.
    public init(firstAt time: Date) {
        rawValue = max(0, time.millisecondsSince1970 - Self.epoch) << 21
    }

    /// The moment the id was made, to the millisecond.
    public var time: Date { Date(millisecondsSince1970: rawValue >> 21 + Self.epoch) }

    /// Reads the API's form, in either case; nil for anything else.
    public init?(_ text: some StringProtocol) {
        guard text.utf8.count == 13 else { return nil }
        var value: UInt64 = 0
        for byte in text.utf8 {
            let upper = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) ? byte - 32 : byte
            guard let digit = Self.digits.firstIndex(of: upper), value >> 59 == 0 else { return nil }
            value = value << 5 | UInt64(truncatingIfNeeded: digit)
        }
        guard let number = Int64(exactly: value) else { return nil }
        rawValue = number
    }

    /// The API's form.
    public var description: String {
        String(unsafeUninitializedCapacity: 13) { text in
            for place in 0..<13 {
                text[place] = Self.digits[Int(rawValue >> Int64(5 * (12 - place)) & 31)]
            }
            return 13
        }
    }

    /// By time.
    public static func < (left: NotificationID, right: NotificationID) -> Bool { left.rawValue < right.rawValue }
}

/// Gives out ids that never repeat and never go back, however the clock moves.
public struct NotificationIDAllocator: Sendable {
    private var next: Int64

    /// Makes an allocator that stays above the highest number already used.
    public init(above highest: Int64) { next = highest + 1 }

    /// Takes the numbers for a notification with `count` deliveries.
    public mutating func allocate(_ count: Int, at time: Date) -> NotificationID {
        let first = max(next, NotificationID(firstAt: time).rawValue)
        next = first + Int64(max(1, count))
        return NotificationID(rawValue: first)
    }
}
