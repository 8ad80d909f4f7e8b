public import PushCore

/// What is known of a user that is to be erased: by it a store finds deliveries and events.
public struct UserTraces: Sendable, Hashable {
    /// The user.
    public var user: String
    /// The devices the user has or had.
    public var devices: Set<String>
    /// In which forms (``PushCore/Recipient/storedForm``) deliveries went to the user: the user, the devices, their
    /// tokens.
    public var recipients: Set<String>
    /// Notifications to nobody else, which were removed; their events are still to be cleaned.
    public var notifications: Set<Int64>
    /// Where the traces end; nil before the devices were removed.
    ///
    /// A user may go on sending and register again: what comes after the end is no part of the erasure, which would
    /// otherwise never be over.
    public var end: End?

    /// The newest that a store had at some moment.
    public struct End: Sendable, Hashable {
        /// The highest number of a delivery that was given out.
        public var delivery: Int64
        /// The number of the newest event.
        public var event: Int64

        /// Makes an end.
        public init(delivery: Int64, event: Int64) {
            self.delivery = delivery
            self.event = event
        }
    }

    /// Begins with a user alone.
    public init(user: String) {
        self.user = user
        devices = []
        recipients = [Recipient.user(user).storedForm]
        notifications = []
    }

    /// Adds a device with its tokens.
    public mutating func add(_ device: Device) {
        devices.insert(device.id)
        recipients.insert(Recipient.device(device.id).storedForm)
        for token in device.tokens { recipients.insert(Recipient.token(token.token).storedForm) }
    }
}

/// What became of a user's deliveries.
public struct ErasedDeliveries: Sendable, Hashable {
    /// Deliveries that waited and were cancelled.
    public var cancelled = 0
    /// Deliveries that are being sent: to be erased once that is over, by another call.
    public var inFlight = 0
    /// Deliveries that were removed, with notifications that went to nobody else.
    public var removed = 0
    /// Deliveries of notifications that others got as well, of which the recipient and the attempts were removed.
    public var anonymised = 0
    /// The notifications that were removed.
    public var notifications: Set<Int64> = []

    /// Makes an empty count.
    public init() {}

    /// Adds another part.
    package static func += (sum: inout ErasedDeliveries, part: ErasedDeliveries) {
        sum.cancelled += part.cancelled
        sum.inFlight += part.inFlight
        sum.removed += part.removed
        sum.anonymised += part.anonymised
        sum.notifications.formUnion(part.notifications)
    }
}

/// A store of deliveries and events from which what concerns one user can be removed.
public protocol TraceStore: Sendable {
    /// Where traces end that are searched for from now on.
    func tracesEnd() async throws(StoreError) -> UserTraces.End

    /// Cancels what waits for the user, removes what went to nobody else, and anonymises the rest, in many short
    /// commits.
    ///
    /// Deliveries after ``UserTraces/end`` stay as they are.
    ///
    /// - Parameters:
    ///   - traces: Whom it is about.
    ///   - event: Makes the event of a cancelled delivery.
    ///   - state: The state to keep from the commit on in which notifications are removed, by the numbers of all that
    ///     the call has removed: after a crash nothing else in the store leads to their events.
    ///   - progress: Gets each part once it is committed.
    /// - Throws: When the store fails, or the task is cancelled; what was committed before stays so.
    func eraseDeliveries(
        of traces: UserTraces,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8],
        state: @escaping @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8]),
        progress: (ErasedDeliveries) async throws(StoreError) -> Void
    ) async throws(StoreError)

    /// Puts other events in the place of those for which `redact`, which gets the number and the event, gives one;
    /// returns how many.
    ///
    /// Looks at the events that there are at the start of the call; ends early, with an error, when the task is
    /// cancelled.
    func redactEvents(_ redact: @escaping @Sendable (Int64, [UInt8]) -> [UInt8]?) async throws(StoreError) -> Int

    /// The names under which state is kept that begin with a prefix.
    func stateNames(beginningWith prefix: String) async throws(StoreError) -> [String]

    /// Clears the room on disk that removed rows took, whenever they were removed.
    func clearRemoved() async throws(StoreError)
}

extension StoreError {
    /// Throws ``PushCore/StoreError/closed`` when the task is cancelled: between the steps of what goes through a whole
    /// store.
    package static func checkCancellation() throws(StoreError) { if Task.isCancelled { throw .closed } }
}

extension Recipient {
    /// What stands in the place of a recipient that was erased; no service has that name.
    package static let erasedForm = "erased:"
}
