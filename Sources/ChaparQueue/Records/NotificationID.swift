public import Foundation
internal import ChaparCore

/// The id of an accepted notification: sortable by time, unique in a store, 13 characters in the API.
///
/// It has 41 bits of milliseconds since 2024 and 21 bits of counter. The deliveries of a notification are numbered from
/// its own number on: the first delivery has the same number as the notification.
public struct NotificationID: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The number, the primary key in a store.
    public let rawValue: Int64

    /// The highest number of an id, 2^62 - 1, which belongs to a time in 2093.
    ///
    /// The number of each delivery of a notification is an `Int64` too: the sum of an id and a count stays far from the
    /// end of that type.
    public static let highest: Int64 = (1 << 62) - 1  // Fits: a constant.

    /// Makes an id from its number, or from the nearest number that an id can have.
    public init(rawValue: Int64) { self.rawValue = min(max(0, rawValue), Self.highest) }

    private static let digits = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)  // Crockford's base 32
    private static let epoch: Int64 = 1_704_067_200_000  // 2024-01-01T00:00:00Z
    private static let bitsOfMoment = 21

    /// Makes the lowest id of a time.
    public init(firstAt time: Date) {
        let milliseconds = time.millisecondsSince1970.subtracting(clamping: Self.epoch)
        rawValue = min(max(0, milliseconds), Self.highest >> Self.bitsOfMoment) << Self.bitsOfMoment
    }

    /// The time when the id was made, to the millisecond.
    public var time: Date {
        Date(millisecondsSince1970: (rawValue >> Self.bitsOfMoment).adding(clamping: Self.epoch))
    }

    /// Returns the number of the notification's delivery at an index, of which the first is 0.
    package func delivery(at place: Int64) -> Int64 { rawValue.adding(clamping: place) }

    /// Returns the same for an `Int`.
    package func delivery(at place: Int) -> Int64 { delivery(at: Int64(clamping: place)) }

    /// Returns the index of a delivery in the notification.
    package func place(of delivery: Int64) -> Int64 { delivery.subtracting(clamping: rawValue) }

    /// Reads the API's form, in either case; nil for any other text, and for a number that no id has.
    public init?(_ text: some StringProtocol) {
        guard text.utf8.count == 13 else { return nil }
        var value: UInt64 = 0
        for byte in text.utf8 {
            let upper = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) ? byte - 32 : byte
            guard let digit = Self.digits.firstIndex(of: upper), value >> 59 == 0 else { return nil }
            value = value << 5 | UInt64(truncatingIfNeeded: digit)
        }
        guard let number = Int64(exactly: value), number <= Self.highest else { return nil }
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

    /// Compares by time.
    public static func < (left: NotificationID, right: NotificationID) -> Bool { left.rawValue < right.rawValue }
}

/// An allocator of ids that never repeat and never go back, however the clock moves.
public struct NotificationIDAllocator: Sendable {
    private var next: Int64

    /// Makes an allocator that stays above the highest number already used.
    public init(above highest: Int64) { next = highest.adding(clamping: 1) }

    /// Takes the numbers for a notification with `count` deliveries.
    public mutating func allocate(_ count: Int, at time: Date) -> NotificationID {
        let first = max(next, NotificationID(firstAt: time).rawValue)
        next = first.adding(clamping: Int64(max(1, count)))
        return NotificationID(rawValue: first)
    }
}
