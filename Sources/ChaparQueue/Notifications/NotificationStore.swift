public import ChaparCore

/// The store of accepted notifications until they have ended, and for a while after: the gateway's one source of truth.
///
/// The API enqueues, delivery workers claim and record, upkeep expires and purges. A store sends nothing and calls no
/// plugin. The allowed changes of a delivery are a table (`docs/States.md`), which the conformance suite goes through.
///
/// Every implementation makes these promises, which the conformance suite of `ChaparStoreContract` checks:
/// * `enqueue` returns after the commit, and accepted work survives any crash. Many calls share one commit.
/// * A delivery is claimed by one owner at a time. A claim is a lease of the process, with a number that only grows: it
///   holds as long as the process lives, and ends when the owner records an outcome. When the process dies, the
///   delivery can be claimed again, marked as possibly sent. A record under an expired lease changes nothing, except
///   when it says that the platform has the message.
/// * A delivery never leaves a final state, except by receipts (``ChaparCore/DeliveryState/canBecome(_:)``). The counts
///   of a notification's states always add up to its recipients.
/// * Memory does not grow with the number of waiting deliveries, nor does the cost of a claim.
/// * Events are numbered without gaps in the order of their commits, and can be read again from any number still kept.
/// * Every time in arguments and results is one of ``time``'s steady clock, so that a jump of the wall clock changes no
///   deadline; only scheduled times of day (``NewNotification/dueAt``) follow the wall clock.
public protocol NotificationStore: StateStore {
    /// The store's clock.
    ///
    /// When the store is opened again, its steady time continues from where it was closed, by the wall clock; it never
    /// goes back.
    var time: any TimeSource { get }

    /// The abilities of this store that not every store has.
    ///
    /// A store that wraps another store returns the abilities of that store. There is no default, so that a wrapper
    /// cannot lose them unnoticed.
    var abilities: StoreAbilities { get }

    /// Adds an observer, which is called after each commit, on any thread, and must be quick.
    func observe(_ observer: @escaping @Sendable (StoreChange) -> Void)

    /// Allocates the numbers for a notification with this many recipients.
    ///
    /// It is cheap; numbers may be left unused.
    func makeID(recipients: Int) -> NotificationID

    /// Accepts notifications: all of them, or none when the idempotency key was used before or the store refuses work.
    func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult

    /// Makes a port for a caller that does not wait: `receive` gets the results, those of one commit in one call.
    ///
    /// `receive` is called on any thread, even before the port's `enqueue` returns, and must be quick: other results
    /// wait for it. The port works while the store is open; later each batch fails with
    /// ``ChaparCore/StoreError/closed``.
    func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort

    /// Claims up to `limit` due deliveries of a backend's queue, at most `normal` of them of normal priority.
    ///
    /// Deliveries of high priority come first, except that waiting normal ones get one in ten. Deliveries of one caller
    /// and priority are claimed in the order of their due times; several callers take turns. Waits for work up to
    /// `wait`; returns nothing after that, or when the task is cancelled. Two deliveries of one caller to one recipient
    /// with the same collapse id are never claimed at the same time.
    func claim(backend: String, limit: Int, normal: Int, wait: Duration) async throws(StoreError)
        -> [ClaimedDelivery]

    /// Whether claims made at or after a time surely still belong to this gateway.
    ///
    /// It is cheap; called before each send.
    ///
    /// A store that gateways share gives the claims of a suspended gateway to another gateway. If the suspended gateway
    /// sent them afterwards, the messages would be second copies.
    func holdsClaims(since moment: ContinuousClock.Instant) -> Bool

    /// Claims up to `limit` waiting deliveries of any backend whose time to live has ended; never waits.
    func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery]

    /// Scans a backend's queue for due deliveries that are not claimed, and returns those for which `isWanted` is true.
    ///
    /// It claims nothing and writes nothing. A delivery that was accepted or released a moment ago may be missing until
    /// the next scan. `isWanted` is called on any thread and must be quick.
    func waitingDeliveries(
        _ look: WaitingLook,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool
    ) async throws(StoreError) -> WaitingPage

    /// Writes decisions about deliveries that wait for a backend, as found by ``waitingDeliveries(_:where:)``, all in
    /// one commit.
    ///
    /// A delivery that was claimed, changed, ended or moved to another backend since then stays as it is. The others
    /// change as their resolutions say, by the rules of ``record(_:event:)``. Nothing is written when none is left.
    ///
    /// - Returns: The numbers of the deliveries that changed.
    func settle(
        _ resolutions: [Resolution],
        of backend: String,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) -> Set<Int64>

    /// Makes those deliveries of a backend due that wait for another attempt, and returns their number.
    ///
    /// A scheduled delivery keeps its time. So does one that waits for the platform's report after an attempt without
    /// an answer (``ChaparComposition/DeliveryPlan/UnknownRule/wait``), or because the platform asked for a wait
    /// (``AttemptLog/asksToWait(_:)``).
    func makeRetriesDue(of backend: String) async throws(StoreError) -> Int

    /// Records the results of claimed deliveries, all in one commit, and ends their claims.
    ///
    /// A resolution of a delivery that has since become final changes nothing. A delivery that would wait again ends
    /// instead if it was cancelled, or if its next queue has a newer waiting one of the same caller with the same
    /// collapse id: as cancelled, or as unknown when an attempt may have been sent. `event` makes its event.
    func record(
        _ resolutions: [Resolution],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError)

    /// Records the platforms' reports about deliveries that they had accepted, all in one commit; returns a result for
    /// each.
    ///
    /// A repeated receipt changes nothing.
    func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult]

    /// Cancels every delivery of a notification that is not final; nil when there is no such notification.
    ///
    /// A claimed delivery may still be sent once: it ends with the result of this attempt or, where the owner would
    /// have it wait again, as cancelled, or as unknown when an attempt may have been sent. `event` makes the event of
    /// either end.
    func cancel(_ id: NotificationID, event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])
        async throws(StoreError) -> Cancellation?

    /// Cancels some of a caller's waiting deliveries at all backends, scheduled and retried ones included: the most
    /// that one short commit allows.
    ///
    /// Deliveries that were accepted after the first part began are not cancelled, so that the cancellation ends while
    /// the caller continues to send. A claimed delivery is marked, on every node, as by ``cancel(_:event:)``.
    ///
    /// - Parameters:
    ///   - caller: The API key's name; empty for notifications without a key. An unknown name is no error.
    ///   - place: The ``CallerCancellation/next`` of the part before; nil for the first.
    ///   - event: Makes the event of an end.
    /// - Returns: The counts of this part, and the place of the next.
    /// - Throws: The store's error; then this part changed nothing, or it is unknown whether it did.
    func cancel(
        caller: String,
        from place: CallerCancellation.Place?,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> CallerCancellation

    /// Moves all waiting deliveries of a backend to another one, now and whenever a plan reaches the first one.
    ///
    /// The next claim from the first backend's queue ends the redirection. Returns the number of moved deliveries; nil,
    /// without any change, while some of them are claimed.
    func move(backend: String, to other: String) async throws(StoreError) -> Int?

    /// Returns a notification with the counts of its deliveries' states; nil when there is none.
    func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification?

    /// Returns deliveries of a notification in order, those with a number above `after`.
    func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError) -> [StoredDelivery]

    /// Returns events with a number above `after`, oldest first; waits up to `wait` for one.
    ///
    /// No event is repeated or left out, unless `after` is older than the oldest event that is kept: then that one
    /// comes first.
    func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent]

    /// Returns the number of the newest event; 0 when there is none.
    func lastEvent() async throws(StoreError) -> Int64

    /// Appends events that belong to no delivery, such as a backend that was parked.
    func publish(_ events: [[UInt8]]) async throws(StoreError)

    /// Returns the depth of each backend's queue.
    ///
    /// It is cheap: kept in memory or read from a small index.
    func depths() async throws(StoreError) -> [String: QueueDepth]

    /// Returns the number of waiting deliveries of each sender, in all queues; a sender without waiting deliveries is
    /// left out.
    ///
    /// A sender is the name of an API key; it is empty without a key. It must be as cheap as ``depths()``. The default
    /// is nil, for a store that does not count by sender.
    func depthsBySender() async throws(StoreError) -> [String: SenderDepth]?

    /// Removes expired notifications, events and idempotency keys, the most that one short commit allows, and frees
    /// space on disk.
    ///
    /// Returns whether there may be more to remove now.
    func purge(_ retention: Retention) async throws(StoreError) -> Bool

    /// Returns whether the store can take work.
    func health() async -> StoreHealth

    /// Closes the store after pending work is committed; later calls throw ``ChaparCore/StoreError/closed``.
    func close() async
}

extension NotificationStore {
    /// Claims up to `limit` deliveries of a backend's queue, of any priority.
    public func claim(backend: String, limit: Int, wait: Duration) async throws(StoreError) -> [ClaimedDelivery] {
        try await claim(backend: backend, limit: limit, normal: limit, wait: wait)
    }

    /// Returns nil: this store does not look at its queue by sender.
    public func depthsBySender() async throws(StoreError) -> [String: SenderDepth]? { nil }

    /// Returns true: in a store of a single gateway no other one takes its claims.
    public func holdsClaims(since moment: ContinuousClock.Instant) -> Bool { true }

    /// Returns `unknown` for each: this store does not keep addresses of receipts.
    public func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        receipts.map { _ in .unknown }
    }
}
