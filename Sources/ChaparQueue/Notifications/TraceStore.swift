public import ChaparCore

/// The known traces of a user to erase, by which a store finds deliveries and events.
public struct UserTraces: Sendable, Hashable {
    /// The user.
    public var user: String
    /// The devices the user has or had.
    public var devices: Set<String>
    /// The recipients of deliveries to the user, in their stored form (``ChaparCore/Recipient/storedForm``): the user,
    /// the devices, their tokens.
    public var recipients: Set<String>
    /// The removed notifications that went only to the user; their events are still to be redacted.
    public var notifications: Set<Int64>
    /// The end of the traces; nil before the devices were removed.
    ///
    /// A user may go on using the app: data from after the end are not erased, since the erasure would otherwise never
    /// finish.
    public var end: End?

    /// The newest delivery and event in a store at some time.
    public struct End: Sendable, Hashable {
        /// The highest allocated number of a delivery.
        public var delivery: Int64
        /// The number of the newest event.
        public var event: Int64

        /// Makes an end.
        public init(delivery: Int64, event: Int64) {
            self.delivery = delivery
            self.event = event
        }
    }

    /// Makes traces of a user without devices.
    public init(user: String) {
        self.user = user
        devices = []
        recipients = [Recipient.user(user).storedForm]
        notifications = []
    }
}

/// The result of erasing a user's deliveries.
public struct ErasedDeliveries: Sendable, Hashable {
    /// The number of deliveries that waited and were cancelled.
    public var cancelled = 0
    /// The number of deliveries that are being sent: another call must erase them once that is over.
    public var inFlight = 0
    /// The number of deliveries that were removed, with notifications that had no other recipients.
    public var removed = 0
    /// The number of deliveries of notifications with other recipients, of which recipient and attempts were removed.
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

/// A store of deliveries and events from which one user's data can be removed.
public protocol TraceStore: StateStore {
    /// Returns the end of traces for an erasure that begins now.
    func tracesEnd() async throws(StoreError) -> UserTraces.End

    /// Cancels the user's waiting deliveries, removes notifications without other recipients, and anonymises the rest,
    /// in many short commits.
    ///
    /// Deliveries after ``UserTraces/end`` stay as they are.
    ///
    /// - Parameters:
    ///   - traces: The user's traces.
    ///   - event: Makes the event of a cancelled delivery.
    ///   - state: The state to store in the commits that remove notifications, by the numbers of all that the call has
    ///     removed: after a crash nothing else in the store leads to their events.
    ///   - progress: Called with each part once it is committed.
    /// - Throws: When the store fails, or the task is cancelled; earlier commits stay.
    func eraseDeliveries(
        of traces: UserTraces,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8],
        state: @escaping @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8]),
        progress: (ErasedDeliveries) async throws(StoreError) -> Void
    ) async throws(StoreError)

    /// Replaces the events for which `redact`, called with number and event, returns another one; returns their number.
    ///
    /// It reads the events that exist at the start of the call; ends early, with an error, when the task is cancelled.
    func redactEvents(_ redact: @escaping @Sendable (Int64, [UInt8]) -> [UInt8]?) async throws(StoreError) -> Int

    /// Returns the names of stored state that begin with a prefix.
    func stateNames(beginningWith prefix: String) async throws(StoreError) -> [String]

    /// Clears the space on disk that removed rows took, whenever they were removed.
    func clearRemoved() async throws(StoreError)
}

extension StoreError {
    /// Throws ``ChaparCore/StoreError/closed`` when the task is cancelled; called between steps that go through a whole
    /// store.
    package static func checkCancellation() throws(StoreError) { if Task.isCancelled { throw .closed } }
}

extension Recipient {
    /// The stored form that replaces an erased recipient; no service has that name.
    package static let erasedForm = "erased:"
}
