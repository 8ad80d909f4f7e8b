import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparStoreSQLite
import ChaparTesting

/// A store that passes everything on to another one, as a program's own would that counts calls.
struct WrappingStore: NotificationStore, DeviceStore, OutboxStore {
    typealias Whole = NotificationStore & DeviceStore & OutboxStore
    typealias Event = @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    typealias StateEvent = @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]

    let base: any Whole
    let abilities: StoreAbilities
    /// Called at the beginning (true) and at the end of each read of events.
    private let readsEvents: @Sendable (Bool) -> Void

    /// Wraps a store; `add` gives it an ability that it does not have.
    init(
        _ base: any Whole,
        _ add: (inout StoreAbilities) -> Void = { _ in },
        readsEvents: @escaping @Sendable (Bool) -> Void = { _ in }
    ) {
        var abilities = base.abilities
        add(&abilities)
        (self.base, self.abilities) = (base, abilities)
        self.readsEvents = readsEvents
    }

    // MARK: NotificationStore

    var time: any TimeSource { base.time }

    func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) { base.observe(observer) }

    func makeID(recipients: Int) -> NotificationID { base.makeID(recipients: recipients) }

    func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult { try await base.enqueue(batch) }

    func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort {
        base.makePort(receive: receive)
    }

    func claim(backend: String, limit: Int, normal: Int, wait: Duration) async throws(StoreError)
        -> [ClaimedDelivery]
    {
        try await base.claim(backend: backend, limit: limit, normal: normal, wait: wait)
    }

    func holdsClaims(since moment: ContinuousClock.Instant) -> Bool { base.holdsClaims(since: moment) }

    func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery] {
        try await base.claimExpired(limit: limit)
    }

    func waitingDeliveries(
        _ look: WaitingLook,
        where isWanted: @escaping @Sendable (WaitingDelivery) -> Bool
    ) async throws(StoreError) -> WaitingPage {
        try await base.waitingDeliveries(look, where: isWanted)
    }

    func settle(_ resolutions: [Resolution], of backend: String, event: @escaping Event) async throws(StoreError)
        -> Set<Int64>
    {
        try await base.settle(resolutions, of: backend, event: event)
    }

    func makeRetriesDue(of backend: String) async throws(StoreError) -> Int {
        try await base.makeRetriesDue(of: backend)
    }

    func record(_ resolutions: [Resolution], event: @escaping Event) async throws(StoreError) {
        try await base.record(resolutions, event: event)
    }

    func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        try await base.record(receipts)
    }

    func cancel(_ id: NotificationID, event: @escaping StateEvent) async throws(StoreError) -> Cancellation? {
        try await base.cancel(id, event: event)
    }

    func cancel(
        caller: String,
        from place: CallerCancellation.Place?,
        event: @escaping StateEvent
    ) async throws(StoreError) -> CallerCancellation {
        try await base.cancel(caller: caller, from: place, event: event)
    }

    func move(backend: String, to other: String) async throws(StoreError) -> Int? {
        try await base.move(backend: backend, to: other)
    }

    func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification? {
        try await base.notification(id)
    }

    func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError) -> [StoredDelivery] {
        try await base.deliveries(of: id, after: after, limit: limit)
    }

    func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent] {
        readsEvents(true)
        defer { readsEvents(false) }
        return try await base.events(after: after, limit: limit, wait: wait)
    }

    func lastEvent() async throws(StoreError) -> Int64 { try await base.lastEvent() }

    func publish(_ events: [[UInt8]]) async throws(StoreError) { try await base.publish(events) }

    func depths() async throws(StoreError) -> [String: QueueDepth] { try await base.depths() }

    func depthsBySender() async throws(StoreError) -> [String: SenderDepth]? { try await base.depthsBySender() }

    func purge(_ retention: Retention) async throws(StoreError) -> Bool { try await base.purge(retention) }

    func health() async -> StoreHealth { await base.health() }

    func close() async { await base.close() }

    // MARK: StateStore

    func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { try await base.loadState(name) }

    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        try await base.saveState(name, value)
    }

    func exclusively<Value: Sendable>(
        _ name: String,
        _ body: @Sendable () async -> Value
    ) async throws(StoreError) -> Value {
        try await base.exclusively(name, body)
    }

    // MARK: DeviceStore

    func put(_ devices: [Device], outbox: Date?) async throws(StoreError) -> [DevicePut] {
        try await base.put(devices, outbox: outbox)
    }

    func patch(_ id: String, outbox: Date?, _ change: @escaping @Sendable (inout Device) -> Void)
        async throws(StoreError) -> Device?
    {
        try await base.patch(id, outbox: outbox, change)
    }

    func delete(_ id: String, outbox: Date?) async throws(StoreError) -> Bool {
        try await base.delete(id, outbox: outbox)
    }

    func backfill(_ ids: [String], to backend: String, at moment: Date) async throws(StoreError) -> Int {
        try await base.backfill(ids, to: backend, at: moment)
    }

    func devices(_ ids: [String]) async throws(StoreError) -> [String: Device] { try await base.devices(ids) }

    func devices(ofUsers users: [String], limit: Int) async throws(StoreError) -> [Device] {
        try await base.devices(ofUsers: users, limit: limit)
    }

    func devices(withTokenOf kind: TokenKind, in app: AppName, limit: Int) async throws(StoreError) -> [Device] {
        try await base.devices(withTokenOf: kind, in: app, limit: limit)
    }

    func list(_ query: DeviceQuery, after cursor: DeviceCursor?, limit: Int) async throws(StoreError) -> DevicePage {
        try await base.list(query, after: cursor, limit: limit)
    }

    func device(having token: DeviceToken, in app: AppName) async throws(StoreError) -> Device? {
        try await base.device(having: token, in: app)
    }

    func record(_ refusals: [TokenRefusal]) async throws(StoreError) -> [TokenRefusal] {
        try await base.record(refusals)
    }

    func forgetRefusals(limit: Int) async throws(StoreError) -> Int { try await base.forgetRefusals(limit: limit) }

    func remove(_ tokens: [DeviceToken], in app: AppName) async throws(StoreError) {
        try await base.remove(tokens, in: app)
    }

    func invalidate(_ refusals: [TokenRefusal], outbox: Date?) async throws(StoreError) -> [InvalidatedToken] {
        try await base.invalidate(refusals, outbox: outbox)
    }

    func quarantine(_ refusals: [TokenRefusal]) async throws(StoreError) -> Int {
        try await base.quarantine(refusals)
    }

    func quarantine(tombstonesOf backend: String, since moment: Date) async throws(StoreError) -> Int {
        try await base.quarantine(tombstonesOf: backend, since: moment)
    }

    func quarantined() async throws(StoreError) -> [QuarantinedTokens] { try await base.quarantined() }

    func quarantined(of backend: String, after cursor: DeviceCursor?, limit: Int) async throws(StoreError)
        -> (tokens: [InvalidatedToken], next: DeviceCursor?)
    {
        try await base.quarantined(of: backend, after: cursor, limit: limit)
    }

    func invalidate(quarantinedOf backend: String, limit: Int, outbox: Date?) async throws(StoreError)
        -> [InvalidatedToken]
    {
        try await base.invalidate(quarantinedOf: backend, limit: limit, outbox: outbox)
    }

    func discard(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> Int {
        try await base.discard(quarantinedOf: backend, limit: limit)
    }

    // MARK: OutboxStore

    func enqueue(_ entries: [OutboxEntry]) async throws(StoreError) { try await base.enqueue(entries) }

    func claimEntries(of backend: String, limit: Int, lease: Duration, wait: Duration) async throws(StoreError)
        -> [ClaimedEntry]
    {
        try await base.claimEntries(of: backend, limit: limit, lease: lease, wait: wait)
    }

    func record(_ results: [OutboxResult]) async throws(StoreError) { try await base.record(results) }

    func makeRetriesDue(ofEntriesAt backend: String) async throws(StoreError) -> Int {
        try await base.makeRetriesDue(ofEntriesAt: backend)
    }

    func entries(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingEntry] {
        try await base.entries(ofDevice: device, limit: limit)
    }

    func cancelEntries(of backend: String, device: String?) async throws(StoreError) -> Int {
        try await base.cancelEntries(of: backend, device: device)
    }

    func outboxDepths() async throws(StoreError) -> [String: OutboxDepth] { try await base.outboxDepths() }

    func unplannedChanges(limit: Int, wait: Duration) async throws(StoreError) -> [OutboxChange] {
        try await base.unplannedChanges(limit: limit, wait: wait)
    }

    func record(_ plans: [OutboxPlan]) async throws(StoreError) { try await base.record(plans) }

    func unplannedCount(ofDevice device: String?) async throws(StoreError) -> Int {
        try await base.unplannedCount(ofDevice: device)
    }
}
