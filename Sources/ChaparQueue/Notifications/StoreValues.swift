public import ChaparComposition
public import Foundation
public import ChaparCore

/// The notifications of one request, which are accepted together.
public struct EnqueueBatch: Sendable {
    /// The notifications.
    public var notifications: [NewNotification]
    /// The request's idempotency key, if it had one.
    public var idempotency: IdempotencyEntry?
    /// The largest share of the store's waiting deliveries that may be this caller's: above 0, at most 1.
    ///
    /// All notifications of the batch have the same caller. With 1, nothing is reserved for other callers.
    public var share: Double
    /// The campaign that is accepted with the batch, or whose window the batch is; nil for most.
    public var campaign: CampaignWrite?

    /// Makes a batch.
    public init(_ notifications: [NewNotification], idempotency: IdempotencyEntry? = nil, share: Double = 1) {
        self.notifications = notifications
        self.idempotency = idempotency
        self.share = share
    }

    /// Decides whether a store with a limit on waiting deliveries takes the batch now: the one rule of all stores.
    ///
    /// - Parameters:
    ///   - waiting: The number of waiting deliveries of all callers.
    ///   - bound: The most deliveries that may wait (`max_waiting`).
    ///   - waitingOfCaller: Returns the number of a caller's waiting deliveries. It is called only where a share can be
    ///     full at all.
    /// - Returns: The error; nil when the batch is taken.
    package func refusal(waiting: Int, bound: Int, waitingOfCaller: (String) -> Int) -> StoreError? {
        let rows = deliveries
        guard waiting + rows <= bound else {
            return .full(
                reason: "\(waiting) deliveries wait already, and max_waiting is \(bound)",
                retryAfter: .seconds(10)
            )
        }
        let own = ownBound(of: bound)
        guard waiting + rows > own, let caller = notifications.first?.caller else { return nil }
        let waitingOfCaller = waitingOfCaller(caller)
        guard waitingOfCaller + rows > own else { return nil }
        return .shareFull(
            reason: "\(waitingOfCaller) deliveries of this caller wait already, and its share of max_waiting is \(own)",
            retryAfter: .seconds(10)
        )
    }

    /// Whether it only changes a campaign, such as to pause it, for which there is always room.
    package var isCampaignChange: Bool {
        if case .change? = campaign { notifications.isEmpty } else { false }
    }

    /// Returns the most deliveries of the caller that may wait where `bound` of all may: its ``share``, at least one.
    package func ownBound(of bound: Int) -> Int {
        share < 1 ? max(1, Int(clamping: (Double(bound) * max(0, share)).rounded(.down))) : bound
    }
}

/// A notification to accept.
///
/// The gateway makes it from a checked request; a store writes it unchanged and reads neither content nor events. All
/// its recipients are accepted together, or none.
public struct NewNotification: Sendable {
    /// Its id, from ``NotificationStore/makeID(recipients:)``.
    public var id: NotificationID
    /// The content, for a claim right after the acceptance.
    public var notification: PushNotification
    /// The part that is stored as one value: the content as it is returned by a later claim, the plans, the time of
    /// acceptance.
    public var record: NotificationRecord
    /// The recipients; never empty.
    ///
    /// The delivery at index `i` gets the number `id.rawValue + i`.
    public var recipients: [Recipient]
    /// The plan of each recipient, an index in the record's plans: at most 255, since there are few token services.
    ///
    /// Empty when all have the first.
    public var planOf: [UInt8] = []
    /// The user of each recipient's device, as the registry has it at the acceptance, by which a search finds it.
    ///
    /// Empty when no recipient is a device of a user.
    public var users: [String?] = []
    /// The sender: the API key's name, empty without one.
    public var caller: String
    /// The scheduled time, nil for at once, in the store's steady time; it follows the wall clock.
    public var dueAt: Date?
    /// The time after which nothing more is tried, in the store's steady time.
    public var expiresAt: Date
    /// The collapse id: waiting deliveries of the same ``caller`` to the same recipient at the same backend with the
    /// same id are cancelled in favour of this one.
    ///
    /// Notifications of other callers with the same id are not affected.
    public var collapseID: String?
    /// The event of the acceptance, as JSON; empty for none.
    public var event: [UInt8]
    /// Makes the event of a waiting delivery that ended, in a given state, because this notification replaced it.
    public var replacementEvent: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])?

    /// Makes a notification.
    public init(
        id: NotificationID,
        notification: PushNotification,
        record: NotificationRecord,
        recipients: [Recipient],
        planOf: [UInt8] = [],
        caller: String,
        dueAt: Date? = nil,
        expiresAt: Date,
        collapseID: String? = nil,
        event: [UInt8],
        replacementEvent: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])? = nil
    ) {
        self.id = id
        self.notification = notification
        self.record = record
        self.recipients = recipients
        self.planOf = planOf
        self.caller = caller
        self.dueAt = dueAt
        self.expiresAt = expiresAt
        self.collapseID = collapseID
        self.event = event
        self.replacementEvent = replacementEvent
    }

    /// The content in the form that is stored.
    public var content: [UInt8] { record.content }
    /// The time of acceptance, in the store's steady time.
    public var acceptedAt: Date { record.acceptedAt }
    /// The plan of every recipient, unless ``planOf`` names another one.
    public var plan: DeliveryPlan { record.plan(at: 0) }

    /// Whether its deliveries come before those of normal priority: not those of a campaign, whatever the platforms are
    /// told.
    package var isUrgent: Bool { Self.isUrgent(notification.priority, partOf: record.partOf) }

    /// Whether deliveries of this priority, and of this campaign if any, come before those of normal priority.
    package static func isUrgent(_ priority: PushNotification.Priority, partOf campaign: CampaignPart?) -> Bool {
        priority == .high && campaign == nil
    }

    /// Returns the plan of the recipient at an index of ``recipients``.
    package func plan(ofRecipient place: Int) -> DeliveryPlan { record.plan(at: planIndex(ofRecipient: place)) }

    /// Returns the index, in the record's plans, of the plan of the recipient at an index of ``recipients``.
    package func planIndex(ofRecipient place: Int) -> Int { Self.planIndex(ofRecipient: place, planOf) }

    /// Returns the index of a recipient's plan by ``planOf``.
    package static func planIndex(ofRecipient place: Int, _ planOf: [UInt8]) -> Int {
        planOf.isEmpty ? 0 : Int(planOf[place])
    }
}

/// A caller's idempotency key, and the answer to a repeated request.
public struct IdempotencyEntry: Sendable, Hashable {
    /// The caller; equal keys of different callers are independent.
    public var caller: String
    /// The key, at most 255 characters.
    public var key: String
    /// A hash of the request; the same key with another hash is a mistake of the caller.
    public var fingerprint: [UInt8]
    /// The answer to repeat, byte for byte.
    public var answer: [UInt8]
    /// The time until which the key is remembered, in the store's steady time.
    public var keepUntil: Date

    /// Makes an entry.
    public init(caller: String, key: String, fingerprint: [UInt8], answer: [UInt8], keepUntil: Date) {
        self.caller = caller
        self.key = key
        self.fingerprint = fingerprint
        self.answer = answer
        self.keepUntil = keepUntil
    }
}

/// The result of an ``EnqueueBatch``.
public enum EnqueueResult: Sendable, Hashable {
    /// The batch is stored and committed.
    case accepted
    /// The key came before with the same request: this was the answer, and nothing was stored now.
    case replayed(answer: [UInt8])
    /// The key was used for another request; nothing was stored.
    case keyReused
    /// Another request with the key is being stored right now; nothing was stored for this one.
    case keyInUse
    /// The batch's campaign has changed since it was read (``CampaignWrite/change(_:settled:)``); nothing was stored.
    case outdated
}

/// The common data of the deliveries of a notification that have the same plan, held once in memory.
public final class DeliveryHead: Sendable {
    /// The notification.
    public let id: NotificationID
    /// The part that the store keeps as one value.
    public let record: NotificationRecord
    /// The content as it was accepted, if it has never left memory; nil for one that was read from the store.
    public let notification: PushNotification?
    /// The backends that they go through.
    public let plan: DeliveryPlan
    /// The time after which nothing more is tried.
    public let expiresAt: Date

    /// The content: as it was accepted, if it has never left memory, or as stored.
    public var content: ClaimedDelivery.Content { notification.map { .decoded($0) } ?? .stored(record.content) }
    /// The time when the notification was accepted.
    public var acceptedAt: Date { record.acceptedAt }

    /// Makes the common data of deliveries with the plan at an index of the record's plans; the last plan stands for
    /// larger indices.
    public init(
        id: NotificationID,
        record: NotificationRecord,
        notification: PushNotification? = nil,
        plan place: Int = 0,
        expiresAt: Date
    ) {
        self.id = id
        self.record = record
        self.notification = notification
        plan = record.plan(at: place)
        self.expiresAt = expiresAt
    }
}

/// A delivery that a worker has claimed.
///
/// It is a copy: the store keeps the delivery itself. The owner ends the claim with a ``Resolution`` under the same
/// ``lease``; when the process dies first, the next one finds the delivery as recovered.
public struct ClaimedDelivery: Sendable {
    /// Its number.
    public var id: Int64
    /// The data that it shares with other deliveries.
    public var head: DeliveryHead
    /// The recipient.
    public var recipient: Recipient
    /// The sender: the API key's name, empty without one.
    public var caller: String
    /// The current step of the plan.
    public var step: Int
    /// The number of attempts made.
    public var attempts: Int
    /// The attempts so far, a JSON array without its brackets; empty before the first.
    public var attemptLog: [UInt8]
    /// Whether an attempt may have been delivered: its outcome was unknown, or its owner died while it held the claim.
    public var isReplay: Bool
    /// Whether the process of the last owner died while it held the claim.
    public var isRecovered: Bool
    /// The number of the lease that it is claimed under; larger is later.
    public var lease: Int64
    /// Whether it was cancelled under the claim of an owner whose process died: it must not be sent again.
    public var isCancelled: Bool

    /// Its notification.
    public var notificationID: NotificationID { head.id }
    /// The content: as it was accepted, if it has never left memory, or as stored.
    public var content: Content { head.content }
    /// The backends that it goes through.
    public var plan: DeliveryPlan { head.plan }
    /// The time when the notification was accepted.
    public var acceptedAt: Date { head.acceptedAt }
    /// The time after which nothing more is tried.
    public var expiresAt: Date { head.expiresAt }

    /// The content of a notification, decoded or stored.
    public enum Content: Sendable {
        /// In memory, as it was accepted.
        case decoded(PushNotification)
        /// As stored.
        case stored([UInt8])
    }

    /// Makes a claim.
    public init(
        id: Int64,
        head: DeliveryHead,
        recipient: Recipient,
        caller: String = "",
        step: Int = 0,
        attempts: Int = 0,
        attemptLog: [UInt8] = [],
        isReplay: Bool = false,
        isRecovered: Bool = false,
        lease: Int64 = 0,
        isCancelled: Bool = false
    ) {
        self.id = id
        self.head = head
        self.recipient = recipient
        self.caller = caller
        self.step = step
        self.attempts = attempts
        self.attemptLog = attemptLog
        self.isReplay = isReplay
        self.isRecovered = isRecovered
        self.lease = lease
        self.isCancelled = isCancelled
    }

    /// Makes a claim with data of its own.
    public init(
        id: Int64,
        notificationID: NotificationID,
        content: Content,
        recipient: Recipient,
        caller: String = "",
        plan: DeliveryPlan,
        step: Int = 0,
        attempts: Int = 0,
        acceptedAt: Date,
        expiresAt: Date
    ) {
        var (notification, stored): (PushNotification?, [UInt8]) = (nil, [])
        switch content {
        case .decoded(let decoded): notification = decoded
        case .stored(let bytes): stored = bytes
        }
        let record = NotificationRecord(content: stored, plans: [plan], acceptedAt: acceptedAt)
        let head = DeliveryHead(id: notificationID, record: record, notification: notification, expiresAt: expiresAt)
        self.init(id: id, head: head, recipient: recipient, caller: caller, step: step, attempts: attempts)
    }
}

/// The result of a claimed delivery, to be written to the store.
///
/// The owner of a claim makes it and ``NotificationStore/record(_:event:)`` writes it, with others in one commit. It
/// changes nothing when the delivery has since become final.
public struct Resolution: Sendable {
    /// The next state of a delivery.
    public enum Transition: Sendable, Hashable {
        /// It ends, in a final state.
        case end(DeliveryState)
        /// It waits for another attempt in the queue of the backend at `step` of its plan.
        case retry(at: Date, step: Int)
        /// It is released as it was, unsent and without an attempt.
        case release
        /// It ends as accepted by the backend at an earlier step, which took it before it waited for a report.
        case reached(step: Int)
    }

    /// The delivery.
    public var delivery: Int64
    /// The lease under which it was claimed; nil stands for the one in force.
    public var lease: Int64?
    /// The next state.
    public var transition: Transition
    /// The attempt that was made, one JSON object; nil when none was.
    public var attempt: [UInt8]?
    /// Whether this attempt may have been delivered.
    public var mayHaveBeenSent: Bool
    /// Its event, as JSON; nil for none.
    public var event: [UInt8]?
    /// The address by which the platform's later receipt finds the delivery; nil when none is expected.
    ///
    /// Also of one that waits for a report before other backends take over. A delivery gets one at most.
    public var receipt: ReceiptAddress?

    /// Makes a resolution of a claim.
    public init(
        of claim: ClaimedDelivery,
        _ transition: Transition,
        attempt: [UInt8]? = nil,
        mayHaveBeenSent: Bool = false,
        event: [UInt8]? = nil,
        receipt: ReceiptAddress? = nil
    ) {
        self.delivery = claim.id
        self.lease = claim.lease
        self.transition = transition
        self.attempt = attempt
        self.mayHaveBeenSent = mayHaveBeenSent
        self.event = event
        self.receipt = receipt
    }

    /// Makes a resolution of whichever claim is in force.
    public init(
        delivery: Int64,
        transition: Transition,
        attempt: [UInt8]? = nil,
        mayHaveBeenSent: Bool = false,
        event: [UInt8]? = nil,
        receipt: ReceiptAddress? = nil
    ) {
        self.delivery = delivery
        self.transition = transition
        self.attempt = attempt
        self.mayHaveBeenSent = mayHaveBeenSent
        self.event = event
        self.receipt = receipt
    }
}

/// The reason why a store ends a delivery that its owner wants to wait again.
public enum EndReason: String, Sendable {
    /// It was cancelled while it was claimed.
    case cancelled
    /// A newer one to the same recipient with the same collapse id waits for the same backend.
    case replaced
}

/// The result of a cancellation.
public struct Cancellation: Sendable, Hashable {
    /// The number of deliveries that were cancelled now.
    public var cancelled: Int
    /// The number of deliveries that were final already.
    public var tooLate: Int
    /// The number of deliveries that are claimed: they may still be sent once.
    public var inFlight: Int

    /// Makes a result.
    public init(cancelled: Int, tooLate: Int, inFlight: Int = 0) {
        self.cancelled = cancelled
        self.tooLate = tooLate
        self.inFlight = inFlight
    }
}

/// The result of one part of a cancellation of all waiting deliveries of a caller.
public struct CallerCancellation: Sendable, Hashable {
    /// The place where the next part continues; only the store that made it can use it.
    public struct Place: Sendable, Hashable {
        /// The highest number of a delivery to cancel: deliveries accepted after the first part began are not
        /// cancelled.
        public var end: Int64
        /// The number after which to continue, in a store that scans deliveries by number.
        public var after: Int64

        /// Makes a place.
        public init(end: Int64, after: Int64 = .min) {
            self.end = end
            self.after = after
        }
    }

    /// The number of deliveries that were cancelled now.
    public var cancelled: Int
    /// The number of deliveries that are claimed: they may still be sent once.
    public var inFlight: Int
    /// The place where the next part continues; nil when this was the last.
    public var next: Place?

    /// Makes a result.
    public init(cancelled: Int, inFlight: Int = 0, next: Place? = nil) {
        self.cancelled = cancelled
        self.inFlight = inFlight
        self.next = next
    }
}

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

    /// Makes a delivery.
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
    /// Whether new work is refused because `max_waiting` deliveries wait, or nearly that many, so that most new work is
    /// refused.
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
    /// So the state also covers requests with many recipients, which are refused before those with few, and readiness
    /// does not change with each delivery that ends.
    package mutating func note(waiting: Int, bound: Int) {
        guard acceptsWork, waiting >= bound - bound / 100 else { return }
        (isQueueFull, acceptsWork) = (true, false)
        detail = "\(waiting) deliveries wait, and max_waiting is \(bound)"
    }
}
