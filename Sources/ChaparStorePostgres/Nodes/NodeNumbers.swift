internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// The numbers of notifications that only one node gives out.
///
/// All numbers of a millisecond (``ChaparQueue/NotificationID``) belong to one node, and each node has every 64th
/// millisecond, by its slot. So 64 nodes share a database, and a notification with many deliveries has room. A node
/// that needs more numbers than its last millisecond has takes them from its next one.
struct NodeNumbers: Sendable {
    /// The most nodes that may share a database.
    static let slots: Int64 = 64
    /// The most deliveries that a notification may have.
    static let largest = 1 << bits
    private static let bits = 21

    let slot: Int64
    /// The millisecond of the last number, as the upper bits of a number.
    private var moment: Int64
    private var used: Int64 = 0

    /// The highest number that it has given out, or may have.
    var last: Int64 { moment << Self.bits | min(used, Int64(Self.largest).subtracting(clamping: 1)) }

    /// Starts above the highest number in the database.
    init(slot: Int64, above highest: Int64) {
        self.slot = slot
        moment = 0
        skip(to: max(0, highest))
    }

    /// Returns the highest number in the database, without those beyond the highest id.
    static func highest(_ db: isolated PostgresConnection) throws(PostgresError) -> Int64 {
        try db.run(
            """
            SELECT greatest(
                (SELECT id + count FROM chapar.notifications WHERE id <= $1 ORDER BY id DESC LIMIT 1),
                (SELECT max(id) FROM chapar.waiting WHERE id <= $1),
                (SELECT max(id) FROM chapar.campaigns WHERE id <= $1)
            )
            """,
            [.integer(NotificationID.highest)]
        ).integer(0, 0) ?? 0
    }

    /// Whether a notification has a number of the node with a slot.
    static func isNumber(_ id: NotificationID, of slot: Int64) -> Bool {
        (id.rawValue >> bits).subtracting(clamping: slot) % slots == 0
    }

    /// Takes the numbers for a notification with `count` deliveries.
    mutating func allocate(_ count: Int, at time: Date) -> NotificationID {
        let count = Int64(max(1, count))
        let own = own(upTo: NotificationID(firstAt: time).rawValue >> Self.bits)
        if own > moment || used.adding(clamping: count) > Self.largest {
            moment = own > moment ? own : moment.adding(clamping: Self.slots)
            used = 0
        }
        defer { used = used.adding(clamping: count) }
        return NotificationID(rawValue: moment << Self.bits | used)
    }

    /// Skips all numbers up to this one.
    mutating func skip(to highest: Int64) {
        let first = own(upTo: min(highest, NotificationID.highest) >> Self.bits).adding(clamping: Self.slots)
        guard first > moment else { return }
        (moment, used) = (first, 0)
    }

    /// Returns the node's last millisecond up to this one.
    private func own(upTo moment: Int64) -> Int64 {
        let past = moment.subtracting(clamping: slot) % Self.slots
        return moment.subtracting(clamping: past < 0 ? past.adding(clamping: Self.slots) : past)
    }
}
