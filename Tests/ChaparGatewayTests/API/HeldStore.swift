import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization

/// The whole store in memory, of which a test holds acceptances or makes them fail, and reads what was accepted.
///
/// Work for one key at a time, as in the stores on disk. The test's clock stands still, so that it waits by the
/// process's own.
final class HeldStore: NotificationStore {
    private struct Contents {
        var accepted: [NewNotification] = []
        var keysInUse: Set<String> = []
        var failure: StoreError?
        var health = StoreHealth(acceptsWork: true, freeBytes: 1 << 30)
        /// The deliveries whose rows are damaged, and how often outcomes were to be written.
        var damaged: Set<Int64> = []
        var records = 0
        /// How many more parts of a cancellation say that there is another, and what happens between two.
        var parts = 0
        var betweenParts: @Sendable () -> Void = {}
        var isHeld = false
        /// How often it says yet that claims are not held; afterwards they are, but for those that were lost.
        var claimsRefused = 0
        /// Claims from before it are not held any more.
        var claimsLostAt: ContinuousClock.Instant?
        /// The next claim is lost at once.
        var losesClaim = false
        var held: [CheckedContinuation<Void, Never>] = []
        var arrived: [CheckedContinuation<Void, Never>] = []
    }

    let time: any TimeSource
    var abilities: StoreAbilities {
        var abilities = StoreAbilities(search: whole)
        abilities.series = whole
        return abilities
    }
    private let database: MemoryDatabase
    private let whole: MemoryStore
    private let contents = Mutex(Contents())
    /// Raised after each call that may have made an event.
    private let signal = AsyncSignal()

    init(time: any TimeSource) {
        self.time = time
        database = MemoryDatabase(time: time)
        whole = MemoryStore(database)
    }

    // MARK: Calls of tests

    /// The accepted notifications, in order.
    var accepted: [NewNotification] { contents.withLock { $0.accepted } }

    /// Lets acceptances and the question for depths fail from now on; nil ends it.
    func fail(_ error: StoreError?) { contents.withLock { $0.failure = error } }

    /// Sets what ``health()`` gives.
    func show(_ health: StoreHealth) { contents.withLock { $0.health = health } }

    /// Lets so many deliveries wait, and no more.
    func limit(waiting bound: Int) { database.limit(waiting: bound) }

    /// Lets the next parts of a cancellation say that there is another one, and calls `body` after each.
    func divide(into parts: Int, _ body: @escaping @Sendable () -> Void) {
        contents.withLock { ($0.parts, $0.betweenParts) = (parts, body) }
    }

    /// Damages the rows of deliveries, so that nothing can be recorded of them.
    func damage(_ deliveries: Set<Int64>) { contents.withLock { $0.damaged = deliveries } }

    /// How often outcomes were to be written.
    var records: Int { contents.withLock { $0.records } }

    /// Says so often that claims are not held, and loses the next claim that has a delivery as soon as it is made.
    func loseClaims(afterRefusing count: Int) {
        contents.withLock { ($0.claimsRefused, $0.losesClaim) = (count, true) }
    }

    /// Loses what was claimed before this moment.
    func loseClaims() { contents.withLock { $0.claimsLostAt = .now } }

    /// Whether a claim was made and lost.
    var hasLostClaim: Bool { contents.withLock { $0.claimsLostAt != nil } }

    /// Holds every acceptance from now on.
    func hold() { contents.withLock { $0.isHeld = true } }

    /// Lets every held acceptance go on.
    func release() {
        let held = contents.withLock { contents in
            contents.isHeld = false
            defer { contents.held = [] }
            return contents.held
        }
        for continuation in held { continuation.resume() }
    }

    /// Returns once an acceptance is held.
    func heldOne() async {
        await withCheckedContinuation { continuation in
            let isThere = contents.withLock { contents in
                guard contents.held.isEmpty else { return true }
                contents.arrived.append(continuation)
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    private func waitIfHeld() async {
        guard contents.withLock({ $0.isHeld }) else { return }
        await withCheckedContinuation { continuation in
            let arrived = contents.withLock { contents -> [CheckedContinuation<Void, Never>]? in
                guard contents.isHeld else { return nil }
                contents.held.append(continuation)
                defer { contents.arrived = [] }
                return contents.arrived
            }
            guard let arrived else { return continuation.resume() }
            for waiter in arrived { waiter.resume() }
        }
    }

    /// Brings a delivery to a state, as a dispatcher would.
    func end(_ id: Int64, _ state: DeliveryState, attempt: [UInt8] = []) {
        database.bring(id, to: state, attempt: attempt.isEmpty ? nil : attempt)
    }

    /// Loses what waits of a notification.
    func lose(_ id: NotificationID) { database.lose(id) }

    /// Removes the oldest events.
    func removeEvents(_ count: Int) { database.removeEvents(count) }

    /// The events that are kept, as text.
    func events() async throws(StoreError) -> [String] {
        try await whole.events(after: 0, limit: .max, wait: .zero).map { String(decoding: $0.json, as: UTF8.self) }
    }

    // MARK: NotificationStore

    func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) { whole.observe(observer) }

    func makeID(recipients: Int) -> NotificationID { whole.makeID(recipients: recipients) }

    func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult {
        let key = batch.idempotency.map { "\($0.caller)|\($0.key)" }
        let isFree = contents.withLock { contents -> Result<Bool, StoreError> in
            if let failure = contents.failure { return .failure(failure) }
            guard let key else { return .success(true) }
            return .success(contents.keysInUse.insert(key).inserted)
        }
        guard try isFree.get() else { return .keyInUse }
        defer { if let key { contents.withLock { _ = $0.keysInUse.remove(key) } } }
        await waitIfHeld()
        let result = try await whole.enqueue(batch)
        if result == .accepted { contents.withLock { $0.accepted += batch.notifications } }
        signal.signal()
        return result
    }

    func claim(backend: String, limit: Int, normal: Int, wait: Duration) async throws(StoreError)
        -> [ClaimedDelivery]
    {
        let claims = try await whole.claim(backend: backend, limit: limit, normal: normal, wait: wait)
        contents.withLock { contents in
            guard contents.losesClaim, !claims.isEmpty else { return }
            (contents.losesClaim, contents.claimsLostAt) = (false, .now)
        }
        return claims
    }

    func holdsClaims(since moment: ContinuousClock.Instant) -> Bool {
        contents.withLock { contents in
            guard contents.claimsRefused == 0 else {
                contents.claimsRefused -= 1
                return false
            }
            return contents.claimsLostAt.map { moment > $0 } ?? true
        }
    }

    func waitingDeliveries(
        _ look: WaitingLook,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool
    ) async throws(StoreError) -> WaitingPage { try await whole.waitingDeliveries(look, where: isWanted) }

    func settle(
        _ resolutions: [Resolution],
        of backend: String,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) -> Set<Int64> {
        let settled = try await whole.settle(resolutions, of: backend, event: event)
        signal.signal()
        return settled
    }

    func makeRetriesDue(of backend: String) async throws(StoreError) -> Int {
        try await whole.makeRetriesDue(of: backend)
    }

    func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery] {
        try await whole.claimExpired(limit: limit)
    }

    func record(
        _ resolutions: [Resolution],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) {
        let damaged = contents.withLock { contents in
            contents.records += 1
            return contents.damaged
        }
        if resolutions.contains(where: { damaged.contains($0.delivery) }) {
            throw .damaged("deliveries.state holds a text")
        }
        try await whole.record(resolutions, event: event)
        signal.signal()
    }

    func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        let results = try await whole.record(receipts)
        signal.signal()
        return results
    }

    func cancel(
        _ id: NotificationID,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> Cancellation? {
        let cancellation = try await whole.cancel(id, event: event)
        signal.signal()
        return cancellation
    }

    func cancel(
        caller: String,
        from place: CallerCancellation.Place?,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> CallerCancellation {
        if let failure = contents.withLock({ $0.failure }) { throw failure }
        var part = try await whole.cancel(caller: caller, from: place, event: event)
        signal.signal()
        // As in a store on disk there is more than one part.
        let isPart = contents.withLock { contents in
            guard contents.parts > 0 else { return false }
            contents.parts -= 1
            return true
        }
        if isPart {
            part.next = CallerCancellation.Place(end: makeID(recipients: 1).rawValue)
            contents.withLock({ $0.betweenParts })()
        }
        return part
    }

    func move(backend: String, to other: String) async throws(StoreError) -> Int? {
        try await whole.move(backend: backend, to: other)
    }

    func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification? {
        try await whole.notification(id)
    }

    func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError) -> [StoredDelivery] {
        try await whole.deliveries(of: id, after: after, limit: limit)
    }

    func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent] {
        let deadline = ContinuousClock.now + wait
        while true {
            let mark = signal.mark
            let found = try await whole.events(after: after, limit: limit, wait: .zero)
            let left = ContinuousClock.now.duration(to: deadline)
            guard found.isEmpty, left > .zero, !Task.isCancelled else { return found }
            await signal.wait(after: mark, atMost: left, SystemTime())
        }
    }

    func lastEvent() async throws(StoreError) -> Int64 { try await whole.lastEvent() }

    func publish(_ events: [[UInt8]]) async throws(StoreError) {
        try await whole.publish(events)
        signal.signal()
    }

    func depths() async throws(StoreError) -> [String: QueueDepth] {
        if let failure = contents.withLock({ $0.failure }) { throw failure }
        return try await whole.depths()
    }

    func depthsBySender() async throws(StoreError) -> [String: SenderDepth]? {
        if let failure = contents.withLock({ $0.failure }) { throw failure }
        return try await whole.depthsBySender()
    }

    func purge(_ retention: Retention) async throws(StoreError) -> Bool { try await whole.purge(retention) }

    func health() async -> StoreHealth {
        var health = contents.withLock { $0.health }
        let own = await whole.health()
        if own.isQueueFull { (health.isQueueFull, health.acceptsWork) = (true, false) }
        return health
    }

    func close() async {
        await whole.close()
        signal.signal()
    }

    func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { try await whole.loadState(name) }

    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        try await whole.saveState(name, value)
    }
}
