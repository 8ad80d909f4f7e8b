package import Foundation
package import ChaparCore
package import ChaparQueue
import Synchronization

/// A database in memory that several ``MemoryStore``s share, as gateways share a PostgreSQL database.
package final class MemoryDatabase: Sendable {
    let tables = Mutex(MemoryTables())
    package let devices: MemoryDeviceStore
    /// The database clock, which all nodes follow.
    package let time: any TimeSource

    /// Makes an empty database.
    package init(time: any TimeSource) {
        self.time = time
        devices = MemoryDeviceStore(time: time)
    }

    /// Removes a node whose process has died: its waiters are gone, and its claims stay until ``recover(_:)``.
    package func forget(_ node: Int64) {
        tables.withLock { $0.nodes[node] = nil }
        devices.forgetWaiters()
    }

    /// Ends a node's lease: its claims can be claimed again, marked as possibly sent.
    package func recover(_ node: Int64) {
        tables.withLock { $0.recover(node) }
        wake()
    }

    // MARK: Changes by tests

    /// Brings a delivery to a state: a final one ends it, any other is recorded as that of an attempt.
    package func bring(_ delivery: Int64, to state: DeliveryState, attempt: [UInt8]?) {
        tables.withLock { $0.bring(delivery, to: state, attempt, time.steady) }
        wake()
    }

    /// Removes the waiting deliveries of a notification, as no store does.
    package func lose(_ notification: NotificationID) {
        tables.withLock { tables in
            for (id, row) in tables.waiting where row.notification == notification.rawValue { tables.waiting[id] = nil }
        }
    }

    /// Sets the most deliveries that may wait.
    package func limit(waiting bound: Int) { tables.withLock { $0.maximumWaiting = bound } }

    /// Removes the oldest events.
    package func removeEvents(_ count: Int) { tables.withLock { $0.events.removeFirst(count) } }

    /// Wakes the waiters at every node.
    func wake() { for node in tables.withLock({ Array($0.nodes.values) }) { node.signal.signal() } }
}

/// A store in memory that keeps the whole contract over a ``MemoryDatabase``: a model of the PostgreSQL store, and a
/// store for tests.
///
/// Between it and the database is a ``MemoryConnection``, which can delay a call, and lose it or its answer. The store
/// then behaves like the PostgreSQL store: an acceptance fails, a claim without an answer is released by the next
/// claim, and results of claims are written again until the database has them.
package final class MemoryStore: NotificationStore {
    typealias EndEvent = @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]

    /// A database's record of a store that uses it.
    final class Node: Sendable {
        /// Raised when something has changed.
        let signal = AsyncSignal()
    }

    private struct Own {
        var isClosed = false
        var observers: [@Sendable (StoreChange) -> Void] = []
        /// The claims whose answers arrived.
        var held: Set<Int64> = []
        /// The leases of claims whose answers were lost.
        var lost: [Int64: Int64] = [:]
        /// The events of cancellations for deliveries that were claimed here.
        var withdrawn: [Int64: EndEvent] = [:]
    }

    /// The interval of its own searches, and the pause before the next attempt when the database was away.
    private static let poll = Duration.seconds(1)
    private static let pause = Duration.milliseconds(200)

    package let database: MemoryDatabase
    /// Its number, unique among all stores of the database.
    package let number: Int64
    package let time: any TimeSource
    package var abilities: StoreAbilities {
        var abilities = StoreAbilities(traces: self, search: self)
        abilities.campaigns = self
        abilities.audiences = self
        abilities.series = self
        abilities.webhooks = self
        return abilities
    }
    private let connection: any MemoryConnection
    private let node = Node()
    private let own = Mutex(Own())

    /// Opens a store as another node of a database.
    ///
    /// - Parameters:
    ///   - database: The shared database.
    ///   - time: The database's time, with waits of the process.
    ///   - connection: The connection to the database.
    package init(
        _ database: MemoryDatabase,
        time: (any TimeSource)? = nil,
        connection: any MemoryConnection = SafeConnection()
    ) {
        self.database = database
        self.time = time ?? database.time
        self.connection = connection
        number = database.tables.withLock { [node] tables in
            tables.lastNode += 1
            tables.nodes[tables.lastNode] = node
            return tables.lastNode
        }
    }

    /// Runs a transaction in the database, then wakes the waiters at every node.
    func call<Value: Sendable>(
        _ transaction: (inout MemoryTables) -> Result<Value, StoreError>
    ) async throws(StoreError) -> Value {
        try await calling { () throws(StoreError) in
            let result = database.tables.withLock { transaction(&$0) }
            database.wake()
            return try result.get()
        }
    }

    /// Reads from the database.
    func read<Value: Sendable>(_ body: (MemoryTables) -> Value) async throws(StoreError) -> Value {
        try await calling { () throws(StoreError) in database.tables.withLock { body($0) } }
    }

    /// Runs a call of the database that may itself wait.
    func calling<Value: Sendable>(
        _ body: () async throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        try checkOpen()
        try await connection.request()
        try checkOpen()
        let value = try await body()
        try await connection.answer()
        return value
    }

    private func checkOpen() throws(StoreError) { if own.withLock({ $0.isClosed }) { throw .closed } }

    private func tell(_ change: StoreChange) {
        for observer in own.withLock({ $0.observers }) { observer(change) }
    }

    package func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) {
        own.withLock { $0.observers.append(observer) }
    }

    package func makeID(recipients: Int) -> NotificationID {
        database.tables.withLock { $0.allocator.allocate(recipients, at: time.steady) }
    }

    package func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult {
        let time = time
        let (result, change) = try await call { $0.enqueue(batch, time) }
        if result == .accepted { tell(change) }
        return result
    }

    // MARK: Claims

    package func claim(backend: String, limit: Int, normal: Int, wait: Duration) async throws(StoreError)
        -> [ClaimedDelivery]
    {
        let until = time.steady.addingTimeInterval(wait.inSeconds)
        while true {
            let mark = node.signal.mark
            let (time, number) = (time, number)
            var next: Date?
            let found = try await claiming { tables in
                let found = tables.claim(backend, limit: max(0, limit), normal: normal, for: number, time)
                next = tables.nextDue(backend, time)
                return found
            }
            let left = min(until, next ?? until).timeIntervalSince(time.steady)
            guard found.isEmpty, time.steady < until, !Task.isCancelled else { return found }
            await node.signal.wait(after: mark, atMost: min(.seconds(max(0, left)), Self.poll), time)
        }
    }

    package func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery] {
        let (now, number) = (time.steady, number)
        return try await claiming { $0.claimExpired(limit, for: number, now) }
    }

    private func claiming(
        _ transaction: (inout MemoryTables) -> [ClaimedDelivery]
    ) async throws(StoreError) -> [ClaimedDelivery] {
        let lost = own.withLock { $0.lost }
        if !lost.isEmpty {
            try await call { tables in
                tables.release(lost)
                return .success(())
            }
            own.withLock { own in for (id, lease) in lost where own.lost[id] == lease { own.lost[id] = nil } }
        }
        try checkOpen()
        try await connection.request()
        try checkOpen()
        let found = database.tables.withLock { transaction(&$0) }
        do throws(StoreError) {
            try await connection.answer()
        } catch {
            own.withLock { own in for claim in found { own.lost[claim.id] = claim.lease } }
            throw error
        }
        own.withLock { $0.held.formUnion(found.map(\.id)) }
        return found
    }

    package func waitingDeliveries(
        _ look: WaitingLook,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool
    ) async throws(StoreError) -> WaitingPage {
        let time = time
        return try await read { $0.look(look, where: isWanted, time) }
    }

    package func settle(
        _ resolutions: [Resolution],
        of backend: String,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) -> Set<Int64> {
        guard !resolutions.isEmpty else { return [] }
        let now = time.steady
        let (settled, change) = try await call { tables in
            var change = StoreChange()
            let settled = tables.settle(resolutions, at: backend, event, now, &change)
            return .success((settled, change))
        }
        tell(change)
        return settled
    }

    package func makeRetriesDue(of backend: String) async throws(StoreError) -> Int {
        let time = time
        return try await call { .success($0.makeRetriesDue(backend, time)) }
    }

    // MARK: Results

    package func record(
        _ resolutions: [Resolution],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) {
        while true {
            let (withdrawn, now) = (own.withLock { $0.withdrawn }, time.steady)
            do throws(StoreError) {
                let change = try await call { $0.record(resolutions, event, withdrawn: withdrawn, now) }
                own.withLock { own in
                    for resolution in resolutions {
                        own.held.remove(resolution.delivery)
                        own.withdrawn[resolution.delivery] = nil
                    }
                }
                return tell(change)
            } catch {
                guard error == MemoryConnectionLoss.error else { throw error }
                try? await time.sleep(for: Self.pause)  // A record must not be cancelled.
            }
        }
    }

    package func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        let now = time.steady
        let (results, change) = try await call { tables in
            var change = StoreChange()
            let results = receipts.map { tables.record($0, now, &change) }
            return .success((results, change))
        }
        if change != StoreChange() { tell(change) }
        return results
    }

    package func cancel(
        _ id: NotificationID,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> Cancellation? {
        let now = time.steady
        let found = try await call { tables in
            var change = StoreChange()
            let found = tables.cancel(id, event, now, &change)
            return .success(found.map { ($0, $1, change) })
        }
        guard let (result, claimed, change) = found else { return nil }
        note(claimed, event)
        tell(change)
        return result
    }

    package func cancel(
        caller: String,
        from place: CallerCancellation.Place?,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> CallerCancellation {
        let end = place?.end ?? makeID(recipients: 1).rawValue
        let now = time.steady
        let (result, claimed, change) = try await call { tables in
            var change = StoreChange()
            let (result, claimed) = tables.cancel(caller: caller, upTo: end, event, now, &change)
            return .success((result, claimed, change))
        }
        note(claimed, event)
        tell(change)
        return result
    }

    private func note(_ claimed: [Int64], _ event: @escaping EndEvent) {
        own.withLock { own in for id in claimed where own.held.contains(id) { own.withdrawn[id] = event } }
    }

    package func move(backend: String, to other: String) async throws(StoreError) -> Int? {
        guard backend != other else { return 0 }
        return try await call { .success($0.move(backend, to: other)) }
    }

    // MARK: Reading

    package func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification? {
        let time = time
        return try await read { $0.notification(id, time) }
    }

    package func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError)
        -> [StoredDelivery]
    {
        let time = time
        return try await read { $0.deliveries(of: id, after: after, limit: limit, time) }
    }

    package func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent] {
        guard limit > 0 else { return [] }
        let until = time.steady.addingTimeInterval(wait.inSeconds)
        while true {
            let mark = node.signal.mark
            let found = try await read { $0.events(after: after, limit: limit) }
            let left = until.timeIntervalSince(time.steady)
            guard found.isEmpty, left > 0, !Task.isCancelled else { return found }
            await node.signal.wait(after: mark, atMost: min(.seconds(left), Self.poll), time)
        }
    }

    package func lastEvent() async throws(StoreError) -> Int64 { try await read { $0.lastEvent } }

    package func publish(_ events: [[UInt8]]) async throws(StoreError) {
        let now = time.steady
        try await call { tables in
            for event in events { tables.append(event, now) }
            return .success(())
        }
    }

    package func depths() async throws(StoreError) -> [String: QueueDepth] {
        let time = time
        return try await read { $0.depths(time) }
    }

    package func depthsBySender() async throws(StoreError) -> [String: SenderDepth]? {
        let time = time
        return try await read { $0.depthsBySender(time) }
    }

    package func purge(_ retention: Retention) async throws(StoreError) -> Bool {
        let now = time.steady
        try await call { tables in
            tables.purge(retention, now)
            return .success(())
        }
        return false
    }

    package func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        try await read { $0.state[name] }
    }

    package func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        try await call { tables in
            tables.state[name] = value
            return .success(())
        }
    }

    // MARK: Life

    package func health() async -> StoreHealth {
        let isClosed = own.withLock { $0.isClosed }
        let isThere = connection.isThere
        var health = StoreHealth(
            acceptsWork: !isClosed && isThere,
            detail: isClosed ? StoreError.closed.description : isThere ? nil : MemoryConnectionLoss.error.description
        )
        let (waiting, bound) = database.tables.withLock { ($0.waiting(of: nil), $0.maximumWaiting) }
        health.note(waiting: waiting, bound: bound)
        return health
    }

    package func close() async {
        let wasClosed = own.withLock { own in
            defer { own.isClosed = true }
            return own.isClosed
        }
        guard !wasClosed else { return }
        database.tables.withLock { tables in
            tables.recover(number)
            tables.nodes[number] = nil
        }
        node.signal.signal()
        database.wake()
    }
}

extension MemoryStore: TraceStore {
    package func tracesEnd() async throws(StoreError) -> UserTraces.End {
        let newest = makeID(recipients: 1).rawValue
        return UserTraces.End(delivery: newest, event: try await lastEvent())
    }

    package func eraseDeliveries(
        of traces: UserTraces,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8],
        state: @escaping @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8]),
        progress: (ErasedDeliveries) async throws(StoreError) -> Void
    ) async throws(StoreError) {
        let now = time.steady
        let (erased, claimed, change) = try await call { tables in
            var change = StoreChange()
            let (erased, claimed) = tables.erase(traces, event, state, now, &change)
            return .success((erased, claimed, change))
        }
        note(claimed, event)
        tell(change)
        try await progress(erased)
    }

    package func redactEvents(
        _ redact: @escaping @Sendable (Int64, [UInt8]) -> [UInt8]?
    ) async throws(StoreError) -> Int {
        try await call { tables in
            var count = 0
            for place in tables.events.indices {
                let old = tables.events[place].event
                guard let json = redact(old.number, old.json) else { continue }
                tables.events[place].event.json = json
                count += 1
            }
            return .success(count)
        }
    }

    package func stateNames(beginningWith prefix: String) async throws(StoreError) -> [String] {
        try await read { $0.state.keys.filter { $0.hasPrefix(prefix) }.sorted() }
    }

    package func clearRemoved() async throws(StoreError) {}
}
