import Foundation
import PushCore
import PushComposition
import PushQueue
import Synchronization

/// A store in memory that keeps what the API promises to see: ids, idempotency, counts, events, cancellation.
///
/// It has no leases and no lanes' order; the real stores' own suite is about those. A test can make it fail or hold it.
final class MemoryStore: NotificationStore {
    struct Row {
        var delivery: StoredDelivery
        var notification: NotificationID
        var plan: DeliveryPlan
        var claim: ClaimedDelivery
    }

    struct Contents {
        var state: [String: [UInt8]] = [:]
        var allocator = NotificationIDAllocator(above: 0)
        var notifications: [NewNotification] = []
        var rows: [Row] = []
        var events: [StoredEvent] = []
        var keys: [String: IdempotencyEntry] = [:]
        var inUse: Set<String> = []
        var failure: StoreError?
        var health = StoreHealth(acceptsWork: true, freeBytes: 1 << 30)
        var isHeld = false
        var held: [CheckedContinuation<Void, Never>] = []
        var arrived: [CheckedContinuation<Void, Never>] = []
        var listeners: [Int: CheckedContinuation<Void, Never>] = [:]
        var nextListener = 0
        var isClosed = false
        var observers: [@Sendable (StoreChange) -> Void] = []
    }

    let contents = Mutex(Contents())
    let time: any TimeSource

    init(time: any TimeSource) { self.time = time }

    var accepted: [NewNotification] { contents.withLock { $0.notifications } }

    func fail(_ error: StoreError?) { contents.withLock { $0.failure = error } }

    func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) {
        contents.withLock { $0.observers.append(observer) }
    }

    private func tell(_ change: StoreChange) {
        for observer in contents.withLock({ $0.observers }) { observer(change) }
    }

    // MARK: Holding enqueues

    func hold() { contents.withLock { $0.isHeld = true } }

    /// Lets every held enqueue go on.
    func release() {
        let held = contents.withLock { contents in
            contents.isHeld = false
            defer { contents.held = [] }
            return contents.held
        }
        for continuation in held { continuation.resume() }
    }

    /// Returns once an enqueue is held.
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

    // MARK: NotificationStore

    func makeID(recipients: Int) -> NotificationID {
        contents.withLock { $0.allocator.allocate(recipients, at: time.now) }
    }

    func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult {
        let key = batch.idempotency.map { "\($0.caller)|\($0.key)" }
        let known = contents.withLock { contents -> Result<EnqueueResult?, StoreError> in
            if let failure = contents.failure { return .failure(failure) }
            guard let key, let entry = batch.idempotency else { return .success(nil) }
            if let first = contents.keys[key], first.keepUntil > time.now {
                return .success(
                    first.fingerprint == entry.fingerprint ? .replayed(answer: first.answer) : .keyReused
                )
            }
            if contents.inUse.contains(key) { return .success(.keyInUse) }
            contents.inUse.insert(key)
            return .success(nil)
        }
        if let result = try known.get() { return result }
        await waitIfHeld()
        var change = StoreChange()
        change.accepted = batch.deliveries
        let (listeners, replaced) = contents.withLock { contents in
            if let key {
                contents.inUse.remove(key)
                contents.keys[key] = batch.idempotency
            }
            let replaced = batch.notifications.reduce(0) { $0 + Self.insert($1, &contents) }
            return (Self.takeListeners(&contents), replaced)
        }
        if replaced > 0 { change.ended[.cancelled] = replaced }
        tell(change)
        for listener in listeners { listener.resume() }
        return .accepted
    }

    /// Gives how many others it replaced.
    private static func insert(_ new: NewNotification, _ contents: inout Contents) -> Int {
        var replaced = 0
        contents.notifications.append(new)
        append(new.event, &contents)
        for (place, recipient) in new.recipients.enumerated() {
            let id = new.id.rawValue + Int64(place)
            let plan = new.plan(ofRecipient: place)
            let claim = ClaimedDelivery(
                id: id,
                notificationID: new.id,
                content: .stored(new.content),
                recipient: recipient,
                caller: new.caller,
                plan: plan,
                acceptedAt: new.acceptedAt,
                expiresAt: new.expiresAt
            )
            if let collapseID = new.collapseID, let event = new.replacementEvent {
                for place in contents.rows.indices where contents.rows[place].delivery.recipient == recipient {
                    let row = contents.rows[place]
                    let older = contents.notifications.first { $0.id == row.notification }
                    guard !row.delivery.state.isFinal, older?.collapseID == collapseID else { continue }
                    contents.rows[place].delivery.state = .cancelled
                    append(event(row.claim, .cancelled), &contents)
                    replaced += 1
                }
            }
            contents.rows.append(
                Row(
                    delivery: StoredDelivery(
                        id: id,
                        recipient: recipient,
                        state: new.dueAt == nil ? .queued : .scheduled,
                        backend: plan.backends[0],
                        dueAt: new.dueAt ?? new.acceptedAt,
                        expiresAt: new.expiresAt,
                        attemptLog: []
                    ),
                    notification: new.id,
                    plan: plan,
                    claim: claim
                )
            )
        }
        return replaced
    }

    private static func append(_ event: [UInt8], _ contents: inout Contents) {
        contents.events.append(StoredEvent(number: (contents.events.last?.number ?? 0) + 1, json: event))
    }

    private static func takeListeners(_ contents: inout Contents) -> [CheckedContinuation<Void, Never>] {
        defer { contents.listeners = [:] }
        return Array(contents.listeners.values)
    }

    /// Brings a delivery to a state, as a dispatcher would.
    func end(_ id: Int64, _ state: DeliveryState, attempt: [UInt8] = []) {
        contents.withLock { contents in
            guard let place = contents.rows.firstIndex(where: { $0.delivery.id == id }) else { return }
            contents.rows[place].delivery.state = state
            contents.rows[place].delivery.attemptLog +=
                (contents.rows[place].delivery.attemptLog.isEmpty ? [] : [0x2C]) + attempt
        }
    }

    func claim(
        backend: String,
        limit: Int,
        normal: Int,
        wait: Duration
    ) async throws(StoreError) -> [ClaimedDelivery] { [] }

    func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery] { [] }

    func record(
        _ resolutions: [Resolution],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) {
        var change = StoreChange()
        for resolution in resolutions {
            if case .end(let state) = resolution.transition {
                end(resolution.delivery, state, attempt: resolution.attempt ?? [])
                change.ended[state, default: 0] += 1
            }
        }
        tell(change)
        try await publish(resolutions.compactMap(\.event))
    }

    func cancel(
        _ id: NotificationID,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> Cancellation? {
        let result = contents.withLock { contents -> Cancellation? in
            guard contents.notifications.contains(where: { $0.id == id }) else { return nil }
            var result = Cancellation(cancelled: 0, tooLate: 0)
            for place in contents.rows.indices where contents.rows[place].notification == id {
                let row = contents.rows[place]
                if row.delivery.state == .queued || row.delivery.state == .scheduled {
                    contents.rows[place].delivery.state = .cancelled
                    Self.append(event(row.claim, .cancelled), &contents)
                    result.cancelled += 1
                } else {
                    result.tooLate += 1
                }
            }
            return result
        }
        var change = StoreChange()
        change.ended[.cancelled] = result?.cancelled
        tell(change)
        return result
    }

    func move(backend: String, to other: String) async throws(StoreError) -> Int? { 0 }

    func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification? {
        contents.withLock { contents in
            guard let new = contents.notifications.first(where: { $0.id == id }) else { return nil }
            let states = contents.rows.filter { $0.notification == id }.map(\.delivery.state)
            return StoredNotification(
                id: id,
                content: new.content,
                caller: new.caller,
                acceptedAt: new.acceptedAt,
                dueAt: new.dueAt,
                expiresAt: new.expiresAt,
                counts: Dictionary(states.map { ($0, 1) }, uniquingKeysWith: +)
            )
        }
    }

    func deliveries(
        of id: NotificationID,
        after: Int64?,
        limit: Int
    ) async throws(StoreError) -> [StoredDelivery] {
        contents.withLock { contents in
            let rows = contents.rows.filter { $0.notification == id && $0.delivery.id > after ?? .min }
            return Array(rows.prefix(limit).map(\.delivery))
        }
    }

    func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent] {
        let deadline = ContinuousClock.now + wait
        while true {
            let (found, isClosed) = contents.withLock { contents in
                (Array(contents.events.filter { $0.number > after }.prefix(limit)), contents.isClosed)
            }
            if isClosed { throw .closed }
            guard found.isEmpty, ContinuousClock.now < deadline, !Task.isCancelled else { return found }
            await listen(until: deadline)
        }
    }

    private func listen(until deadline: ContinuousClock.Instant) async {
        let number = contents.withLock { contents in
            contents.nextListener += 1
            return contents.nextListener
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await Task.sleep(until: deadline, clock: .continuous) }
            group.addTask { [self] in
                await withTaskCancellationHandler {
                    await withCheckedContinuation { continuation in
                        contents.withLock { $0.listeners[number] = continuation }
                        if Task.isCancelled { wake(number) }
                    }
                } onCancel: {
                    wake(number)
                }
            }
            await group.next()
            group.cancelAll()
        }
    }

    private func wake(_ number: Int) {
        contents.withLock { $0.listeners.removeValue(forKey: number) }?.resume()
    }

    func lastEvent() async throws(StoreError) -> Int64 { contents.withLock { $0.events.last?.number ?? 0 } }

    func publish(_ events: [[UInt8]]) async throws(StoreError) {
        let listeners = contents.withLock { contents in
            for event in events { Self.append(event, &contents) }
            return Self.takeListeners(&contents)
        }
        for listener in listeners { listener.resume() }
    }

    func depths() async throws(StoreError) -> [String: QueueDepth] {
        let result = contents.withLock { contents -> Result<[String: QueueDepth], StoreError> in
            if let failure = contents.failure { return .failure(failure) }
            var depths: [String: QueueDepth] = [:]
            for row in contents.rows where !row.delivery.state.isFinal {
                depths[row.delivery.backend, default: QueueDepth()].waiting += 1
                let oldest = depths[row.delivery.backend]?.oldestDue
                if let due = row.delivery.dueAt, due <= time.now {
                    depths[row.delivery.backend]?.oldestDue = min(oldest ?? due, due)
                }
            }
            return .success(depths)
        }
        return try result.get()
    }

    func purge(_ retention: Retention) async throws(StoreError) -> Bool { false }

    /// Removes the oldest events.
    func removeEvents(_ count: Int) { contents.withLock { $0.events.removeFirst(count) } }

    func health() async -> StoreHealth { contents.withLock { $0.health } }

    func close() async {
        let listeners = contents.withLock { contents in
            contents.isClosed = true
            return Self.takeListeners(&contents)
        }
        for listener in listeners { listener.resume() }
    }

    func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { contents.withLock { $0.state[name] } }
    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        contents.withLock { $0.state[name] = value }
    }
}
