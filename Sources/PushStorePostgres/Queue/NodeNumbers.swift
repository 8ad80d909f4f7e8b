internal import Foundation
internal import PushCore
internal import PushQueue

/// Gives out numbers of notifications that no other node gives out.
///
/// All numbers of a millisecond (``PushQueue/NotificationID``) are one node's, and each node has every 64th
/// millisecond, by its slot: so 64 nodes share a database, and a notification with many deliveries has room. A node
/// that needs more numbers than its last millisecond has takes from its next one.
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

    /// Begins above the highest number in the database.
    init(slot: Int64, above highest: Int64) {
        self.slot = slot
        moment = 0
        skip(to: max(0, highest))
    }

    /// The highest number in the database; what is beyond those of ids is none.
    static func highest(_ db: isolated PostgresConnection) throws(PostgresError) -> Int64 {
        try db.run(
            """
            SELECT greatest(
                (SELECT id + count FROM chapar.notifications WHERE id <= $1 ORDER BY id DESC LIMIT 1),
                (SELECT max(id) FROM chapar.waiting WHERE id <= $1)
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

    /// Gives out only numbers above this one from now on.
    mutating func skip(to highest: Int64) {
        let first = own(upTo: min(highest, NotificationID.highest) >> Self.bits).adding(clamping: Self.slots)
        guard first > moment else { return }
        (moment, used) = (first, 0)
    }

    /// The node's last millisecond up to one.
    private func own(upTo moment: Int64) -> Int64 {
        let past = moment.subtracting(clamping: slot) % Self.slots
        return moment.subtracting(clamping: past < 0 ? past.adding(clamping: Self.slots) : past)
    }
}
