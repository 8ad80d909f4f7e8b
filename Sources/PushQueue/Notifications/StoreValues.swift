public import PushComposition
public import Foundation
public import PushCore

/// What is to be accepted together: the notifications of one request.
public struct EnqueueBatch: Sendable {
    /// The notifications.
    public var notifications: [NewNotification]
    /// The request's idempotency key, if it had one.
    public var idempotency: IdempotencyEntry?
    /// The largest part of the waiting deliveries of the store that may be this caller's: above 0, at most 1.
    ///
    /// All notifications of the batch have the same caller. With 1 no part is kept for other callers.
    public var share: Double

    /// Makes a batch.
    public init(_ notifications: [NewNotification], idempotency: IdempotencyEntry? = nil, share: Double = 1) {
        self.notifications = notifications
        self.idempotency = idempotency
        self.share = share
    }

    /// Decides whether a store with a bound on what waits takes the batch now: the one rule of all stores.
    ///
    /// - Parameters:
    ///   - waiting: How many deliveries wait, of all callers.
    ///   - bound: How many may (`max_waiting`).
    ///   - waitingOfCaller: How many of a caller wait. It is asked only where a share can be full at all.
    /// - Returns: Why not; nil when it is taken.
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

    /// How many deliveries of the caller may wait where `bound` of all may: its ``share``, one at least.
    package func ownBound(of bound: Int) -> Int {
        share < 1 ? max(1, Int(clamping: (Double(bound) * max(0, share)).rounded(.down))) : bound
    }
}

/// A notification to be accepted.
///
/// The gateway makes it of a checked request; a store writes it as it is and looks into neither content nor events. All
/// its recipients are accepted together, or none.
public struct NewNotification: Sendable {
    /// Its id, from ``NotificationStore/makeID(recipients:)``.
    public var id: NotificationID
    /// The content, for a claim that takes it at once.
    public var notification: PushNotification
    /// The content in the form that is stored and given back by a later claim.
    public var content: [UInt8]
    /// Who gets it; never empty.
    ///
    /// The delivery at place `i` gets the number `id.rawValue + i`.
    public var recipients: [Recipient]
    /// Which backends it goes through, from the first on: every recipient, unless ``planOf`` says otherwise.
    public var plan: DeliveryPlan
    /// Further plans, for recipients that ``plan`` cannot address: at most 255, since there are few token services.
    public var otherPlans: [DeliveryPlan] = []
    /// Which plan each recipient has: 0 is ``plan``, `n` is `otherPlans[n - 1]`.
    ///
    /// Empty when all have ``plan``.
    public var planOf: [UInt8] = []
    /// Who sent it: the API key's name, empty without one.
    public var caller: String
    /// When it was accepted, in the store's steady time, as the two below.
    public var acceptedAt: Date
    /// When to send, nil for at once; it follows the wall clock.
    public var dueAt: Date?
    /// When trying ends.
    public var expiresAt: Date
    /// Waiting deliveries of the same ``caller`` to the same recipient at the same backend with the same id are
    /// cancelled in favour of this one.
    ///
    /// Notifications of other callers with the same id are not affected.
    public var collapseID: String?
    /// The event of the acceptance, as JSON.
    public var event: [UInt8]
    /// Makes the event of a waiting delivery that ended in a state since this notification replaced it.
    public var replacementEvent: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])?

    /// Makes a notification.
    public init(
        id: NotificationID,
        notification: PushNotification,
        content: [UInt8],
        recipients: [Recipient],
        plan: DeliveryPlan,
        caller: String,
        acceptedAt: Date,
        dueAt: Date? = nil,
        expiresAt: Date,
        collapseID: String? = nil,
        event: [UInt8],
        replacementEvent: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])? = nil
    ) {
        self.id = id
        self.notification = notification
        self.content = content
        self.recipients = recipients
        self.plan = plan
        self.caller = caller
        self.acceptedAt = acceptedAt
        self.dueAt = dueAt
        self.expiresAt = expiresAt
        self.collapseID = collapseID
        self.event = event
        self.replacementEvent = replacementEvent
    }

    /// The plan of the recipient at a place in ``recipients``.
    package func plan(ofRecipient place: Int) -> DeliveryPlan {
        guard !planOf.isEmpty, planOf[place] > 0 else { return plan }
        return otherPlans[Int(planOf[place]) - 1]
    }
}

/// A caller's idempotency key, and what to answer when it comes again.
public struct IdempotencyEntry: Sendable, Hashable {
    /// Whose key it is; keys of different callers never meet.
    public var caller: String
    /// The key, at most 255 characters.
    public var key: String
    /// A hash of the request; a key that comes with another one is a mistake of the caller.
    public var fingerprint: [UInt8]
    /// The answer to give again, byte for byte.
    public var answer: [UInt8]
    /// Until when the key is remembered, in the store's steady time.
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

/// What became of an ``EnqueueBatch``.
public enum EnqueueResult: Sendable, Hashable {
    /// Stored and committed.
    case accepted
    /// The key and the same request were seen before: this was the answer, and nothing was stored now.
    case replayed(answer: [UInt8])
    /// The key was used for another request; nothing was stored.
    case keyReused
    /// A request with the key is being stored at this moment; nothing was stored for this one.
    case keyInUse
}

/// What the deliveries of a notification that have the same plan share: one place in memory for all of them.
public final class DeliveryHead: Sendable {
    /// The notification.
    public let id: NotificationID
    /// The content: as it was accepted, when it never left memory, or as stored.
    public let content: ClaimedDelivery.Content
    /// Which backends they go through.
    public let plan: DeliveryPlan
    /// When the notification was accepted.
    public let acceptedAt: Date
    /// When trying ends.
    public let expiresAt: Date

    /// Makes what deliveries share.
    public init(
        id: NotificationID,
        content: ClaimedDelivery.Content,
        plan: DeliveryPlan,
        acceptedAt: Date,
        expiresAt: Date
    ) {
        self.id = id
        self.content = content
        self.plan = plan
        self.acceptedAt = acceptedAt
        self.expiresAt = expiresAt
    }
}

/// A delivery that a worker has claimed.
///
/// A copy: the store keeps the delivery itself. Whoever has it ends the claim with a ``Resolution`` under the same
/// ``lease``; when the process dies first, the next one finds it as recovered.
public struct ClaimedDelivery: Sendable {
    /// Its number.
    public var id: Int64
    /// What it shares with other deliveries.
    public var head: DeliveryHead
    /// Who gets it.
    public var recipient: Recipient
    /// Who sent it: the API key's name, empty without one.
    public var caller: String
    /// The place in the plan it has reached.
    public var step: Int
    /// How many attempts were made.
    public var attempts: Int
    /// The attempts so far, a JSON array without its brackets; empty before the first.
    public var attemptLog: [UInt8]
    /// Whether an attempt may have been delivered: its outcome was unknown, or its owner died while it held the claim.
    public var isReplay: Bool
    /// Whether the process of the last owner died while it held the claim.
    public var isRecovered: Bool
    /// The number of the lease that it is claimed under; larger is later.
    public var lease: Int64
    /// Whether it was cancelled while an owner had it whose process died: it is not to be sent again.
    public var isCancelled: Bool

    /// Its notification.
    public var notificationID: NotificationID { head.id }
    /// The content: as it was accepted, when it never left memory, or as stored.
    public var content: Content { head.content }
    /// Which backends it goes through.
    public var plan: DeliveryPlan { head.plan }
    /// When the notification was accepted.
    public var acceptedAt: Date { head.acceptedAt }
    /// When trying ends.
    public var expiresAt: Date { head.expiresAt }

    /// Where the content is.
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

    /// Makes a claim that shares nothing with others.
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
        let head = DeliveryHead(
            id: notificationID,
            content: content,
            plan: plan,
            acceptedAt: acceptedAt,
            expiresAt: expiresAt
        )
        self.init(id: id, head: head, recipient: recipient, caller: caller, step: step, attempts: attempts)
    }
}

/// What to write about a claimed delivery.
///
/// The owner of a claim makes it and ``NotificationStore/record(_:event:)`` writes it, with others in one commit. It
/// changes nothing when the delivery has become final in the meantime.
public struct Resolution: Sendable {
    /// Where the delivery goes.
    public enum Transition: Sendable, Hashable {
        /// It ends, in a final state.
        case end(DeliveryState)
        /// It waits for another attempt in the queue of the backend at `step` of its plan.
        case retry(at: Date, step: Int)
        /// It goes back as it was, unsent and without an attempt.
        case release
    }

    /// The delivery.
    public var delivery: Int64
    /// The lease under which it was claimed; nil stands for the one in force.
    public var lease: Int64?
    /// Where it goes.
    public var transition: Transition
    /// The attempt that was made, one JSON object; nil when none was.
    public var attempt: [UInt8]?
    /// Whether this attempt may have been delivered.
    public var mayHaveBeenSent: Bool
    /// Its event, as JSON; nil for none.
    public var event: [UInt8]?
    /// By what the platform's later receipt will find the delivery; nil when none is expected.
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

    /// Makes a resolution of whatever claim is in force.
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

/// Why a store ends a delivery that its owner would have wait again.
public enum EndReason: String, Sendable {
    /// It was cancelled while it was claimed.
    case cancelled
    /// A newer one to the same recipient, with the same collapse id, waits for the same backend.
    case replaced
}

/// What a cancellation did.
public struct Cancellation: Sendable, Hashable {
    /// Deliveries that were cancelled now.
    public var cancelled: Int
    /// Deliveries that were final already.
    public var tooLate: Int
    /// Deliveries that are claimed: they may still go out, once.
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
    /// The place where the next part goes on; only the store that gave it can use it.
    public struct Place: Sendable, Hashable {
        /// The highest number of a delivery that the cancellation is about: deliveries that are accepted after its
        /// first part are left alone.
        public var end: Int64
        /// The number above which it goes on, in a store that looks at deliveries by number.
        public var after: Int64

        /// Makes a place.
        public init(end: Int64, after: Int64 = .min) {
            self.end = end
            self.after = after
        }
    }

    /// Deliveries that were cancelled now.
    public var cancelled: Int
    /// Deliveries that are claimed: they may still go out, once.
    public var inFlight: Int
    /// Where the next part goes on; nil when this was the last.
    public var next: Place?

    /// Makes a result.
    public init(cancelled: Int, inFlight: Int = 0, next: Place? = nil) {
        self.cancelled = cancelled
        self.inFlight = inFlight
        self.next = next
    }
}

/// Until when finished things are kept.
public struct Retention: Sendable, Hashable {
    /// Notifications that ended before this moment are removed.
    public var notifications: Date
    /// Events from before this moment are removed.
    public var events: Date

    /// Makes a retention.
    public init(notifications: Date, events: Date) {
        self.notifications = notifications
        self.events = events
    }
}

/// What a commit changed, for counters.
public struct StoreChange: Sendable, Hashable {
    /// Deliveries that were accepted.
    public var accepted = 0
    /// Deliveries that ended, in each final state.
    public var ended: [DeliveryState: Int] = [:]
    /// Resolutions that changed nothing: of final deliveries, or under a lease that was not in force.
    public var ignored = 0

    /// Makes a change of nothing.
    public init() {}
}

/// A notification as it stands in the store.
public struct StoredNotification: Sendable {
    /// Its id.
    public var id: NotificationID
    /// The content as stored.
    public var content: [UInt8]
    /// Who sent it.
    public var caller: String
    /// When it was accepted.
    public var acceptedAt: Date
    /// When it was to be sent, nil for at once.
    public var dueAt: Date?
    /// When trying ends.
    public var expiresAt: Date
    /// How many deliveries stand in each state; they add up to the recipients.
    ///
    /// States without any are left out.
    public var counts: [DeliveryState: Int]

    /// Makes a notification.
    public init(
        id: NotificationID,
        content: [UInt8],
        caller: String,
        acceptedAt: Date,
        dueAt: Date?,
        expiresAt: Date,
        counts: [DeliveryState: Int]
    ) {
        self.id = id
        self.content = content
        self.caller = caller
        self.acceptedAt = acceptedAt
        self.dueAt = dueAt
        self.expiresAt = expiresAt
        self.counts = counts
    }
}

/// A delivery as it stands in the store.
public struct StoredDelivery: Sendable {
    /// Its number.
    public var id: Int64
    /// Who gets it.
    public var recipient: Recipient
    /// Where it stands.
    public var state: DeliveryState
    /// The backend that has it now, or had it last.
    public var backend: String
    /// When the next attempt is due, while it waits.
    public var dueAt: Date?
    /// When trying ends.
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
    /// What happened, as JSON.
    public var json: [UInt8]

    /// Makes an event.
    public init(number: Int64, json: [UInt8]) {
        self.number = number
        self.json = json
    }
}

/// How much waits in a backend's queue.
public struct QueueDepth: Sendable, Hashable {
    /// Deliveries that are not final and not claimed, scheduled ones included.
    public var waiting: Int
    /// Deliveries that are claimed.
    public var claimed: Int
    /// The due time of the one that has waited longest; nil when none is due.
    public var oldestDue: Date?

    /// Makes a depth.
    public init(waiting: Int = 0, claimed: Int = 0, oldestDue: Date? = nil) {
        self.waiting = waiting
        self.claimed = claimed
        self.oldestDue = oldestDue
    }
}

/// A run of a gateway that did not end in order: it was killed, a fault ended it, or the power was lost.
public struct BrokenRun: Sendable, Hashable {
    /// The process that ran it.
    public var process: Int32
    /// When it began.
    public var since: Date

    /// Makes a run.
    public init(process: Int32, since: Date) { (self.process, self.since) = (process, since) }
}

/// Whether a store can take work.
public struct StoreHealth: Sendable, Hashable {
    /// Whether new work is taken.
    public var acceptsWork: Bool
    /// Whether new work is refused because `max_waiting` deliveries wait, or so nearly that most new work is refused.
    public var isQueueFull = false
    /// Why not, in a sentence with the fix.
    public var detail: String?
    /// Free bytes where the store lives, when it can be known.
    public var freeBytes: Int64?
    /// Bytes in use in the store's files, when it can be known.
    public var usedBytes: Int64?
    /// Rows of the queue that are dead and not yet removed, of a database that removes them later.
    public var deadRows: Int64?
    /// How long the oldest snapshot has been held that keeps them; nil when there is none, and where there is no such
    /// thing.
    public var oldestSnapshot: Duration?
    /// The run before this one, when it did not end in order; nil when it did, and where that is not known.
    public var brokenRun: BrokenRun?
    /// Whether the store has ended without what it held: its file was removed, emptied or replaced while it was open.
    public var isLost = false

    /// Makes a state.
    public init(acceptsWork: Bool, detail: String? = nil, freeBytes: Int64? = nil, usedBytes: Int64? = nil) {
        self.acceptsWork = acceptsWork
        self.detail = detail
        self.freeBytes = freeBytes
        self.usedBytes = usedBytes
    }

    /// Notes how many deliveries wait where `bound` may: with less than a hundredth left the queue counts as full,
    /// where nothing else refuses work.
    ///
    /// So the state also covers requests of many recipients, which are refused before those of few, and readiness does
    /// not change with each delivery that ends.
    package mutating func note(waiting: Int, bound: Int) {
        guard acceptsWork, waiting >= bound - bound / 100 else { return }
        (isQueueFull, acceptsWork) = (true, false)
        detail = "\(waiting) deliveries wait, and max_waiting is \(bound)"
    }
}
