public import Foundation
public import ChaparCore

/// The times before which finished data is removed.
public struct Retention: Sendable, Hashable {
    /// The time before which a notification must have ended to be removed.
    public var notifications: Date
    /// The time before which events are removed.
    public var events: Date

    /// Makes a retention.
    public init(notifications: Date, events: Date) {
        self.notifications = notifications
        self.events = events
    }
}

/// The changes of a commit, for counters.
public struct StoreChange: Sendable, Hashable {
    /// The number of deliveries that were accepted.
    public var accepted = 0
    /// The number of deliveries that ended, by final state.
    public var ended: [DeliveryState: Int] = [:]
    /// The number of resolutions that changed nothing: of final deliveries, or under a lease that was not in force.
    public var ignored = 0

    /// Makes an empty change.
    public init() {}
}

/// A notification, as the store has it.
public struct StoredNotification: Sendable {
    /// Its id.
    public var id: NotificationID
    /// The part that is stored as one value.
    public var record: NotificationRecord
    /// The sender.
    public var caller: String
    /// The scheduled time; nil for at once.
    public var dueAt: Date?
    /// The time after which nothing more is tried.
    public var expiresAt: Date
    /// The number of deliveries in each state; they add up to the recipients.
    ///
    /// States without deliveries are left out.
    public var counts: [DeliveryState: Int]

    /// The content as stored.
    public var content: [UInt8] { record.content }
    /// The time when it was accepted.
    public var acceptedAt: Date { record.acceptedAt }

    /// Makes a notification.
    public init(
        id: NotificationID,
        record: NotificationRecord,
        caller: String,
        dueAt: Date?,
        expiresAt: Date,
        counts: [DeliveryState: Int]
    ) {
        self.id = id
        self.record = record
        self.caller = caller
        self.dueAt = dueAt
        self.expiresAt = expiresAt
        self.counts = counts
    }
}

/// A delivery, as the store has it.
public struct StoredDelivery: Sendable {
    /// Its number.
    public var id: Int64
    /// The recipient.
    public var recipient: Recipient
    /// The state.
    public var state: DeliveryState
    /// The backend that has it now, or had it last.
    public var backend: String
    /// The time of the next attempt, while it waits.
    public var dueAt: Date?
    /// The time after which nothing more is tried.
    public var expiresAt: Date
    /// The attempts, a JSON array without its brackets.
    public var attemptLog: [UInt8]
    /// The time at which it came into its state, in the store's steady time; nil while it has not ended.
    public var endedAt: Date?

    /// Makes a delivery that has not ended; of another one ``endedAt`` is set.
    public init(
        id: Int64,
        recipient: Recipient,
        state: DeliveryState,
        backend: String,
        dueAt: Date?,
        expiresAt: Date,
        attemptLog: [UInt8]
    ) {
        self.id = id
        self.recipient = recipient
        self.state = state
        self.backend = backend
        self.dueAt = dueAt
        self.expiresAt = expiresAt
        self.attemptLog = attemptLog
    }
}

/// An event with its number.
public struct StoredEvent: Sendable, Hashable {
    /// Its number; larger is later.
    public var number: Int64
    /// The event as JSON.
    public var json: [UInt8]

    /// Makes an event.
    public init(number: Int64, json: [UInt8]) {
        self.number = number
        self.json = json
    }
}

/// The depth of a backend's queue.
public struct QueueDepth: Sendable, Hashable {
    /// The number of deliveries that are not final and not claimed, scheduled ones included.
    public var waiting: Int
    /// The number of deliveries that are claimed.
    public var claimed: Int
    /// The due time of the delivery that has waited longest; nil when none is due.
    public var oldestDue: Date?

    /// Makes a depth.
    public init(waiting: Int = 0, claimed: Int = 0, oldestDue: Date? = nil) {
        self.waiting = waiting
        self.claimed = claimed
        self.oldestDue = oldestDue
    }
}

/// The deliveries of one sender that wait, at all backends.
public struct SenderDepth: Sendable, Hashable {
    /// The number of deliveries that are not final and not claimed, scheduled ones included.
    public var waiting: Int
    /// The due time of the delivery that has waited longest; nil when none is due.
    public var oldestDue: Date?

    /// Makes a depth.
    public init(waiting: Int = 0, oldestDue: Date? = nil) { (self.waiting, self.oldestDue) = (waiting, oldestDue) }
}

/// A run of a gateway that did not end cleanly: it was killed, crashed, or lost power.
public struct BrokenRun: Sendable, Hashable {
    /// The process id.
    public var process: Int32
    /// The start of the run.
    public var since: Date

    /// Makes a run.
    public init(process: Int32, since: Date) { (self.process, self.since) = (process, since) }
}

/// The ability of a store to take work.
public struct StoreHealth: Sendable, Hashable {
    /// Whether new work is taken.
    public var acceptsWork: Bool
    /// Whether new work is refused since `max_waiting` deliveries wait; also true when nearly that many wait, so that
    /// most new work is refused.
    public var isQueueFull = false
    /// The reason why no new work is taken, in a sentence with the fix.
    public var detail: String?
    /// The free bytes on the store's disk, when known.
    public var freeBytes: Int64?
    /// The bytes in use in the store's files, when known.
    public var usedBytes: Int64?
    /// The dead rows of the queue that are not yet removed, in a database that removes them later.
    public var deadRows: Int64?
    /// The age of the oldest snapshot that keeps them from being removed; nil without one, or without snapshots.
    public var oldestSnapshot: Duration?
    /// The run before this one, when it did not end cleanly; nil when it did, or where that is unknown.
    public var brokenRun: BrokenRun?
    /// Whether the store has ended because its file was removed, emptied or replaced while it was open; its contents
    /// are lost.
    public var isLost = false

    /// Makes a state.
    public init(acceptsWork: Bool, detail: String? = nil, freeBytes: Int64? = nil, usedBytes: Int64? = nil) {
        self.acceptsWork = acceptsWork
        self.detail = detail
        self.freeBytes = freeBytes
        self.usedBytes = usedBytes
    }

    /// Counts the queue as full when less than a hundredth of `bound` is left, unless new work is refused for another
    /// reason.
    ///
    /// So requests with many recipients, which are refused before requests with few, are covered too, and readiness
    /// does not change with each delivery that ends.
    package mutating func note(waiting: Int, bound: Int) {
        guard acceptsWork, waiting >= bound - bound / 100 else { return }
        (isQueueFull, acceptsWork) = (true, false)
        detail = "\(waiting) deliveries wait, and max_waiting is \(bound)"
    }
}
