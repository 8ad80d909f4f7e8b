internal import Foundation
internal import PushQueue

/// Gives out numbers of notifications that no other node gives out.
///
/// Of the 21 bits that a number has within its millisecond (``PushQueue/NotificationID``) the upper six are the node's slot, so that 64
/// nodes share a database; a node that needs more than 32,768 numbers in a millisecond takes from the next one.
struct NodeNumbers: Sendable {
    /// So many nodes may share a database.
    static let slots: Int64 = 64
    private static let bits: Int64 = 15
    private static let numbersOfSlot: Int64 = 1 << bits

    private let slot: Int64
    /// The millisecond of the last number, as the upper bits of a number.
    private var moment: Int64
    private var used: Int64 = 0

    /// Begins above the highest number in the database.
    init(slot: Int64, above highest: Int64) {
        self.slot = slot
        moment = (highest >> 21) + 1
    }

    /// Takes the numbers for a notification with `count` deliveries.
    mutating func allocate(_ count: Int, at time: Date) -> NotificationID {
        let count = Int64(max(1, count))
        let now = NotificationID(firstAt: time).rawValue >> 21
        if now > moment || used + count > Self.numbersOfSlot {
            moment = max(now, moment + (now > moment ? 0 : 1))
            used = 0
        }
        defer { used += count }
        return NotificationID(rawValue: moment << 21 | slot << Self.bits | used)
    }
}
