public import Foundation
public import PushCore

/// A store that keeps the gateway's ledger of what was accepted and what became of it, and is its store otherwise.
public struct LedgerStore: NotificationStore {
    private let store: any NotificationStore
    private let ledger: Ledger

    /// Wraps a store, and counts what waits in it already.
    public init(_ store: any NotificationStore, metrics: GatewayMetrics) async throws(StoreError) {
        self.store = store
        ledger = metrics.ledger
        let depths = try await store.depths()
        ledger.begin(waiting: depths.values.reduce(0) { $0 + $1.waiting + $1.claimed })
    }

    /// Takes the numbers for a notification.
    public func makeID(recipients: Int) -> NotificationID { store.makeID(recipients: recipients) }

    /// Accepts notifications; what is stored, and what it replaces, goes into the books.
    public func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult {
        let result = try await store.enqueue(ledger.counting(batch))
        if result == .accepted { ledger.accept(batch.deliveries) }
        return result
    }

    /// Makes a way in that keeps the books as ``enqueue(_:)`` does.
    public func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort {
        let port = store.makePort { [ledger] answers in
            ledger.accept(answers.reduce(0) { $0 + ($1.isAccepted ? $1.deliveries : 0) })
            receive(answers)
        }
        return LedgerPort(port: port, ledger: ledger)
    }

    /// Takes deliveries of a lane.
    public func claim(
        lane: String,
        limit: Int,
        lease: Duration,
        patience: Duration
    ) async throws(StoreError) -> [ClaimedDelivery] {
        try await store.claim(lane: lane, limit: limit, lease: lease, patience: patience)
    }

    /// Takes deliveries whose time to live has ended.
    public func claimExpired(limit: Int, lease: Duration) async throws(StoreError) -> [ClaimedDelivery] {
        try await store.claimExpired(limit: limit, lease: lease)
    }

    /// Writes what became of deliveries; those that ended go into the books.
    public func record(_ resolutions: [Resolution]) async throws(StoreError) {
        try await store.record(resolutions)
        for resolution in resolutions {
            if case .end(let state) = resolution.transition { ledger.end(state) }
        }
    }

    /// Writes receipts; what they are about has ended already, and stays in the books as it ended.
    public func receive(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        try await store.receive(receipts)
    }

    /// Cancels; what was cancelled goes into the books.
    public func cancel(
        _ id: NotificationID,
        event: @escaping @Sendable (ClaimedDelivery) -> [UInt8]
    ) async throws(StoreError) -> Cancellation? {
        let cancellation = try await store.cancel(id, event: event)
        if let cancellation { ledger.end(.cancelled, cancellation.cancelled) }
        return cancellation
    }

    /// A notification.
    public func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification? {
        try await store.notification(id)
    }

    /// Deliveries of a notification.
    public func deliveries(
        of id: NotificationID,
        after: Int64?,
        limit: Int
    ) async throws(StoreError) -> [StoredDelivery] {
        try await store.deliveries(of: id, after: after, limit: limit)
    }

    /// Events after a number.
    public func events(after: Int64, limit: Int, patience: Duration) async throws(StoreError) -> [StoredEvent] {
        try await store.events(after: after, limit: limit, patience: patience)
    }

    /// The number of the newest event.
    public func lastEvent() async throws(StoreError) -> Int64 { try await store.lastEvent() }

    /// Appends events.
    public func publish(_ events: [[UInt8]]) async throws(StoreError) { try await store.publish(events) }

    /// How much waits in each lane.
    public func depths() async throws(StoreError) -> [String: LaneDepth] { try await store.depths() }

    /// Removes what is old.
    public func purge(before moment: Date, limit: Int) async throws(StoreError) -> Int {
        try await store.purge(before: moment, limit: limit)
    }

    /// Whether the store can take work.
    public func health() async -> StoreHealth { await store.health() }

    /// Ends the store.
    public func close() async { await store.close() }

    /// A value kept under a name.
    public func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { try await store.loadState(name) }

    /// Keeps a value under a name.
    public func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        try await store.saveState(name, value)
    }
}

/// Hands batches on as ``LedgerStore`` does.
private struct LedgerPort: EnqueuePort {
    let port: any EnqueuePort
    let ledger: Ledger

    func enqueue(_ batch: EnqueueBatch, ticket: Int) { port.enqueue(ledger.counting(batch), ticket: ticket) }
}

extension EnqueueAnswer {
    fileprivate var isAccepted: Bool { if case .success(.accepted) = result { true } else { false } }
}

extension Ledger {
    /// The batch, whose replacements go into the books as they happen.
    fileprivate func counting(_ batch: EnqueueBatch) -> EnqueueBatch {
        // By place, which copies nothing.
        guard batch.notifications.indices.contains(where: { batch.notifications[$0].replacementEvent != nil }) else {
            return batch
        }
        var batch = batch
        for place in batch.notifications.indices {
            guard let event = batch.notifications[place].replacementEvent else { continue }
            batch.notifications[place].replacementEvent = { claim in
                self.end(.cancelled)
                return event(claim)
            }
        }
        return batch
    }
}
