public import Foundation

/// Where accepted notifications live until their story is over, and for a while after: the gateway's one source of truth.
///
/// What every implementation promises, checked by the conformance suite of `PushTesting`:
/// * `enqueue` returns after the commit, and what it accepted survives any crash. Many calls share one commit.
/// * A delivery is claimed by one owner at a time. A claim is a lease: when its owner dies or lets it lapse, the delivery
///   can be claimed again, marked as one that may have been sent.
/// * A state never leaves a final one, but for what receipts say (``DeliveryState/canBecome(_:)``). Counts over the states of a notification always add up to its recipients.
/// * Memory does not grow with the number of waiting deliveries, nor does the cost of a claim.
/// * Events are numbered without gaps as the commits they belong to, and can be read again from any number still kept.
public protocol NotificationStore: StateStore {
    /// Takes the numbers for a notification with so many recipients. Cheap; a number that is never used is no harm.
    func makeID(recipients: Int) -> NotificationID

    /// Accepts notifications: all of them, or none when the idempotency key says so or the store refuses work.
    func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult

    /// Makes a way in for a caller that does not wait: `receive` gets the results, those of one commit in one call.
    ///
    /// It is called on any thread, also before the port's `enqueue` returns, and must be quick: no other call is
    /// answered meanwhile. The port may be used as long as the store is open; later each batch fails with
    /// ``StoreError/closed``.
    func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort

    /// Takes up to `limit` deliveries of a lane that are due, in order of their due time, under a lease.
    ///
    /// Waits for work up to `patience`, and returns nothing then or when the task is cancelled. Two deliveries to one
    /// recipient with the same collapse id are never claimed at the same time.
    func claim(lane: String, limit: Int, lease: Duration, patience: Duration) async throws(StoreError)
        -> [ClaimedDelivery]

    /// Takes up to `limit` waiting deliveries whose time to live has ended, in any lane, under a lease; never waits.
    func claimExpired(limit: Int, lease: Duration) async throws(StoreError) -> [ClaimedDelivery]

    /// Writes what became of claimed deliveries, all in one commit, and ends their leases.
    ///
    /// A resolution of a delivery that has become final in the meantime changes nothing.
    func record(_ resolutions: [Resolution]) async throws(StoreError)

    /// Writes what platforms reported about deliveries that they had accepted, all in one commit; an answer for each.
    ///
    /// A receipt that comes again changes nothing.
    func receive(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult]

    /// Cancels every delivery of a notification that is not claimed and not final. Nil when there is no such notification.
    func cancel(_ id: NotificationID, event: @escaping @Sendable (ClaimedDelivery) -> [UInt8]) async throws(StoreError)
        -> Cancellation?

    /// A notification with the counts of its deliveries' states; nil when there is none.
    func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification?

    /// Deliveries of a notification in order, those with a number above `after`.
    func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError) -> [StoredDelivery]

    /// Events with a number above `after`, oldest first; waits up to `patience` for one. Nothing is returned twice or
    /// left out, unless `after` is older than what is kept: then the oldest kept one comes first.
    func events(after: Int64, limit: Int, patience: Duration) async throws(StoreError) -> [StoredEvent]

    /// The number of the newest event, 0 when there is none.
    func lastEvent() async throws(StoreError) -> Int64

    /// Appends events that belong to no delivery, such as a backend that was parked.
    func publish(_ events: [[UInt8]]) async throws(StoreError)

    /// How much waits in each lane. Cheap: kept in memory or read from an index of small size.
    func depths() async throws(StoreError) -> [String: LaneDepth]

    /// Removes notifications whose last change was before `moment`, finished ones only, old events and idempotency keys
    /// whose time is over: at most `limit` rows. Returns how many it removed.
    func purge(before moment: Date, limit: Int) async throws(StoreError) -> Int

    /// Whether the store can take work.
    func health() async -> StoreHealth

    /// Ends the store after what is under way is committed; later calls throw ``StoreError/closed``.
    func close() async
}

extension NotificationStore {
    /// No delivery waits for a receipt in a store that does not keep their addresses.
    public func receive(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        receipts.map { _ in .unknown }
    }
}

/// Small values that components keep over a restart, such as a provider token with its time.
public protocol StateStore: Sendable {
    /// The value kept under a name, nil when there is none.
    func loadState(_ name: String) async throws(StoreError) -> [UInt8]?
    /// Keeps a value under a name; nil removes it.
    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError)
}

/// Why a store did not do what it was asked.
public enum StoreError: Error, Sendable, Hashable, CustomStringConvertible {
    /// It takes no new work for now: the disk is nearly full or too much waits. Nothing was stored.
    case full(reason: String, retryAfter: Duration)
    /// It has been closed, or was never opened.
    case closed
    /// It failed; the sentence says how. Whether anything was stored is not known.
    case failed(String)

    /// A sentence for people.
    public var description: String {
        switch self {
        case .full(let reason, _): reason
        case .closed: "the store is closed"
        case .failed(let reason): reason
        }
    }
}
