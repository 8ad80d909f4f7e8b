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
    /// The part that is stored as one value: the content that a later claim returns, the plans, and the time of
    /// acceptance.
    public var record: NotificationRecord
    /// The recipients; never empty.
    ///
    /// The delivery at index `i` gets the number `id.rawValue + i`.
    public var recipients: [Recipient]
    /// The plan of each recipient, an index in the record's plans: at most 255, since there are few token services.
    ///
    /// It is empty when all recipients have the first plan.
    public var planOf: [UInt8]
    /// The user of each recipient's device, as the registry has it at the acceptance; a search finds the delivery by
    /// it.
    ///
    /// Empty when no recipient is a device of a user.
    public var users: [String?]
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
        users: [String?] = [],
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
        self.users = users
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

    /// Whether its deliveries are sent before deliveries of normal priority.
    ///
    /// Deliveries of a campaign are not, even if the platforms get them with high priority.
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
