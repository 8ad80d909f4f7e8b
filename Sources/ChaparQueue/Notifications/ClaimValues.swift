public import ChaparComposition
public import Foundation
public import ChaparCore

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

    /// Makes the common data of deliveries with the plan at an index of the record's plans; for a larger index the last
    /// plan is used.
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
    /// The address by which the platform's later receipt finds the delivery; nil when no receipt is expected.
    ///
    /// A delivery that waits for a report before other backends take over has an address, too. A delivery has at most
    /// one address.
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
