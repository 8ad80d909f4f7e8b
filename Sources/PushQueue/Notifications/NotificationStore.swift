public import PushCore

/// Where accepted notifications live until they have ended, and for a while after: the gateway's one source of truth.
///
/// The API enqueues, delivery workers claim and record, upkeep expires and purges. A store sends nothing and asks no
/// plugin. What may become of a delivery is a table (`docs/States.md`), which the conformance suite goes through.
///
/// What every implementation promises, checked by the conformance suite of `PushTesting`:
/// * `enqueue` returns after the commit, and what it accepted survives any crash. Many calls share one commit.
/// * A delivery is claimed by one owner at a time. A claim is a lease of the process, with a number that only grows: it
///   holds as long as the process lives, and ends with what the owner records. When the process dies, the delivery can
///   be claimed again, marked as one that may have been sent. What an owner records under a lease that is not in force
///   changes nothing, but for the news that the platform has the message.
/// * A state never leaves a final one, but for what receipts say (``PushCore/DeliveryState/canBecome(_:)``). Counts
///   over the states of a notification always add up to its recipients.
/// * Memory does not grow with the number of waiting deliveries, nor does the cost of a claim.
/// * Events are numbered without gaps as the commits they belong to, and can be read again from any number still kept.
/// * Every time that goes in or comes out is one of ``time``'s steady clock, so that a jump of the wall clock changes
///   no deadline; but what was asked to go out at a time of day (``NewNotification/dueAt``) follows the wall clock.
public protocol NotificationStore: StateStore {
    /// The store's clock.
    ///
    /// Its steady time goes on where it was when the store was closed, by the wall clock, and never goes back.
    var time: any TimeSource { get }

    /// Adds an observer, which is called after each commit, on any thread, and must be quick.
    func observe(_ observer: @escaping @Sendable (StoreChange) -> Void)

    /// Takes the numbers for a notification with so many recipients. Cheap; a number that is never used is no harm.
    func makeID(recipients: Int) -> NotificationID

    /// Accepts notifications: all of them, or none when the idempotency key says so or the store refuses work.
    func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult

    /// Makes a way in for a caller that does not wait: `receive` gets the results, those of one commit in one call.
    ///
    /// It is called on any thread, also before the port's `enqueue` returns, and must be quick: no other call is
    /// answered meanwhile. The port may be used as long as the store is open; later each batch fails with
    /// ``PushCore/StoreError/closed``.
    func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort

    /// Takes up to `limit` deliveries of a backend's queue that are due, at most `normal` of them of normal priority.
    ///
    /// Those of high priority come first, but for a share of one in ten that waiting normal ones get. Among one
    /// caller's of the same priority the order is that of their due times; several callers take turns. Waits for work
    /// up to `wait`, and returns nothing then or when the task is cancelled. Two deliveries of one caller to one
    /// recipient with the same collapse id are never claimed at the same time.
    func claim(backend: String, limit: Int, normal: Int, wait: Duration) async throws(StoreError)
        -> [ClaimedDelivery]

    /// Whether what was claimed at a moment, or later, is surely still this gateway's. Cheap; asked before each send.
    ///
    /// A store that gateways share gives the claims of one that stood still to another: what such a gateway sent after
    /// that would be a second copy.
    func holdsClaims(since moment: ContinuousClock.Instant) -> Bool

    /// Takes up to `limit` waiting deliveries whose time to live has ended, of any backend, under a lease; never waits.
    func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery]

    /// Looks at deliveries of a backend's queue that are due and not claimed, and reads those that are wanted.
    ///
    /// It claims nothing and writes nothing. A delivery that was accepted or came back a moment ago may be missing
    /// until the next look. `isWanted` is called on any thread and must be quick.
    func waitingDeliveries(
        _ look: WaitingLook,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool
    ) async throws(StoreError) -> WaitingPage

    /// Writes decisions about deliveries that wait for a backend, as ``waitingDeliveries(_:where:)`` found them, all in
    /// one commit.
    ///
    /// A delivery that was claimed, changed, ended or moved to another backend meanwhile stays as it is. The others go
    /// where their resolutions say, by the rules of ``record(_:event:)``. Nothing is written when none is left.
    ///
    /// - Returns: The numbers of those that it changed.
    func settle(
        _ resolutions: [Resolution],
        of backend: String,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) -> Set<Int64>

    /// Makes the deliveries of a backend due that wait for another attempt, and returns their number.
    ///
    /// A scheduled delivery keeps its time, and so does one that waits for the platform's status after an attempt
    /// without an answer (``PushComposition/DeliveryPlan/UnknownRule/wait``), or for as long as the platform asked
    /// (``AttemptLog/asksToWait(_:)``).
    func makeRetriesDue(of backend: String) async throws(StoreError) -> Int

    /// Writes what became of claimed deliveries, all in one commit, and ends their claims.
    ///
    /// A resolution of a delivery that has become final in the meantime changes nothing. One that was cancelled, or
    /// comes to a backend's queue in which a newer one of its caller with its collapse id waits, does not wait again:
    /// it ends as cancelled, or as unknown when an attempt may have been sent, and `event` makes its event.
    func record(
        _ resolutions: [Resolution],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError)

    /// Writes what platforms reported about deliveries that they had accepted, all in one commit; an answer for each.
    ///
    /// A receipt that comes again changes nothing.
    func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult]

    /// Cancels every delivery of a notification that is not final. Nil when there is no such notification.
    ///
    /// What is claimed may still go out, and is not tried again: it ends with what becomes of this attempt, and where
    /// the owner would have it wait again, as cancelled, or as unknown when an attempt may have been sent. `event`
    /// makes the event that tells of either end.
    func cancel(_ id: NotificationID, event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])
        async throws(StoreError) -> Cancellation?

    /// Cancels some of a caller's waiting deliveries at all backends, scheduled and retried ones included: as many as
    /// one short commit can.
    ///
    /// Deliveries that were accepted after the first part began are left alone, so that the cancellation comes to an
    /// end while the caller goes on. A claimed delivery is marked, on every node, as ``cancel(_:event:)`` does.
    ///
    /// - Parameters:
    ///   - caller: The API key's name; empty for notifications without a key. An unknown name is no mistake.
    ///   - place: The value that the part before gave as ``CallerCancellation/next``; nil for the first.
    ///   - event: Makes the event of an end.
    /// - Returns: What was done, and whether there is another part.
    /// - Throws: The store's failure; then this part changed nothing, or it is not known whether it did.
    func cancel(
        caller: String,
        from place: CallerCancellation.Place?,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> CallerCancellation

    /// Hands everything that waits for a backend to another one, now and whenever a plan comes to the first one's name.
    ///
    /// That ends with the next claim from the first one's queue again. Returns how many deliveries wait that were
    /// moved; nil, and nothing is done, while some of them are claimed.
    func move(backend: String, to other: String) async throws(StoreError) -> Int?

    /// A notification with the counts of its deliveries' states; nil when there is none.
    func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification?

    /// Deliveries of a notification in order, those with a number above `after`.
    func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError) -> [StoredDelivery]

    /// Events with a number above `after`, oldest first; waits up to `wait` for one. Nothing is returned twice or
    /// left out, unless `after` is older than what is kept: then the oldest kept one comes first.
    func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent]

    /// The number of the newest event, 0 when there is none.
    func lastEvent() async throws(StoreError) -> Int64

    /// Appends events that belong to no delivery, such as a backend that was parked.
    func publish(_ events: [[UInt8]]) async throws(StoreError)

    /// How much waits in each backend's queue. Cheap: kept in memory or read from an index of small size.
    func depths() async throws(StoreError) -> [String: QueueDepth]

    /// Removes finished notifications, events and idempotency keys whose time is over, as many as one short commit can,
    /// and gives room back to the disk.
    ///
    /// Returns whether there may be more to remove now.
    func purge(_ retention: Retention) async throws(StoreError) -> Bool

    /// Whether the store can take work.
    func health() async -> StoreHealth

    /// Ends the store after what is under way is committed; later calls throw ``PushCore/StoreError/closed``.
    func close() async
}

extension NotificationStore {
    /// Takes up to `limit` deliveries of a backend's queue, of any priority.
    public func claim(backend: String, limit: Int, wait: Duration) async throws(StoreError) -> [ClaimedDelivery] {
        try await claim(backend: backend, limit: limit, normal: limit, wait: wait)
    }

    /// Nobody else takes what was claimed from a store that one gateway has for itself.
    public func holdsClaims(since moment: ContinuousClock.Instant) -> Bool { true }

    /// No delivery waits for a receipt in a store that does not keep their addresses.
    public func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        receipts.map { _ in .unknown }
    }
}
