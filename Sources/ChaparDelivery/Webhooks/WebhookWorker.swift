internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The way in which others wake or end a worker.
final class WebhookWorkerControl: Sendable {
    /// Wakes the worker.
    let signal = AsyncSignal()
    private let retired = Atomic(false)
    private let stale = Atomic(true)
    private let entries = Atomic(0)
    private let bytes = Atomic(0)

    /// Whether the worker begins nothing more.
    var isRetired: Bool { retired.load(ordering: .acquiring) }

    /// Lets the worker end once its requests have.
    func retire() {
        retired.store(true, ordering: .releasing)
        signal.signal()
    }

    /// Tells the worker that messages were changed by a request.
    func look() {
        stale.store(true, ordering: .releasing)
        signal.signal()
    }

    /// Notes what the worker holds.
    func hold(entries held: Int, bytes heldBytes: Int) {
        entries.max(held, ordering: .relaxed)
        bytes.max(heldBytes, ordering: .relaxed)
    }

    /// Returns the most that the worker held since the last call.
    func takePeak() -> (entries: Int, bytes: Int) {
        (entries.exchange(0, ordering: .relaxed), bytes.exchange(0, ordering: .relaxed))
    }

    /// Whether messages were changed since the last call.
    func takeLook() -> Bool { stale.exchange(false, ordering: .acquiringAndReleasing) }
}

/// The sender to one endpoint: reads the event log from the endpoint's cursor, and sends what the endpoint gets.
///
/// One task runs it and owns everything in it; its child tasks read, wait and send, and return values. It holds the
/// endpoint's lease in the store: with every commit the store checks the lease. No worker waits for another.
///
/// A crash loses no event. The stored cursor never passes an event whose message is neither delivered nor stored. The
/// id of a message with one event is computed from the event, so a repeat after a crash has the same id. A batch is
/// stored before it is sent.
struct WebhookWorker {
    /// Why a worker has ended.
    enum Ending: Sendable, Hashable {
        /// Another gateway sends to the endpoint.
        case notHeld
        /// The endpoint gets nothing until its settings change.
        case disabled
        /// It was retired or cancelled.
        case ended
        /// The store or the settings failed.
        case failed
    }

    /// The most requests in progress.
    static let window = 8
    /// The most retries in progress, so that new events always get a part of ``window``.
    static let retryWindow = 4
    /// The most messages in progress that a request sends again.
    static let recoveryWindow = 2
    /// The span of the lease, and the interval at which it is extended.
    static let lease = Duration.seconds(30)
    private static let renewal: TimeInterval = 10
    /// The interval of commits while messages are being delivered, and the most changes of one commit.
    private static let commitInterval: TimeInterval = 1
    private static let changesPerCommit = 64
    /// The number of events, and of messages to send again, that are read at a time.
    static let page = 256
    static let retryPage = 32
    /// The longest wait of a read for an event.
    private static let readWait = Duration.seconds(5)
    /// The time after which a batch is sent again when its sender died, in seconds: longer than an attempt.
    static let batchWait: TimeInterval = 20

    /// A message that is made and not delivered.
    struct Outgoing: Sendable {
        var id: String
        var number: Int64
        var record: WebhookRecord
        var type: String
        var body: [UInt8]
        /// The sampled traces of its events.
        var traces: [TraceContext] = []
        /// Whether the store has it.
        var isStored: Bool
    }

    /// The end of a child task.
    enum Happening: Sendable {
        case events(Result<[StoredEvent], StoreError>)
        /// An attempt; without an answer when it was cancelled.
        case sent(String, WebhookAnswer?, at: Date)
        case woken
    }

    let endpoint: StoredWebhook
    let settings: WebhookSettings
    let url: WebhookURL
    let secrets: WebhookSecrets
    let tools: WebhookTools
    let control: WebhookWorkerControl
    private let holder = UUID().uuidString
    var source: WebhookSource

    // The events.
    /// The number of the last event that was read.
    var position: Int64 = 0
    /// Events that are read and in no message.
    var ready: [WebhookEvent] = []
    private var isReading = false
    /// The time when the first of ``ready`` came.
    var readySince: Date?

    // The messages.
    var inFlight: [String: Outgoing] = [:]
    var retries: [WebhookMessage] = []
    /// The time when the next stored message is due; nil when none is, or all that are due are in progress.
    var nextDue: Date?
    var isDueStale = true
    /// Set once the endpoint takes messages again: a stored message whose last attempt was before this time is sent
    /// now.
    var hurry: Date?

    // The endpoint.
    var memory = WebhookMemory()
    var nextSlot = Date.distantPast
    var probeAt = Date.distantPast
    private var renewAt = Date.distantPast

    // The store.
    var kept: [WebhookMessage] = []
    var removed: [String] = []
    var isDirty = false
    private var committedAt = Date.distantPast
    private var committedCursor: Int64 = 0
    /// The time of the waiting child task; nil without one.
    private var wakesAt: Date?

    /// Makes a worker; nil when the settings or keys cannot be read.
    init?(
        _ endpoint: StoredWebhook,
        _ secrets: WebhookSecrets?,
        _ tools: WebhookTools,
        _ control: WebhookWorkerControl
    ) {
        guard let settings = WebhookSettings(encoded: endpoint.settings), let secrets,
            let url = try? WebhookURL(settings.url), let filter = WebhookFilter(settings.types)
        else { return nil }
        self.endpoint = endpoint
        self.settings = settings
        self.url = url
        self.secrets = secrets
        self.tools = tools
        self.control = control
        let app = endpoint.app.isEmpty ? nil : AppName(rawValue: endpoint.app)
        source = WebhookSource(tools, filter, app: app)
    }

    var now: Date { tools.state.time.steady }
    var labels: [String] { [endpoint.name, endpoint.app] }

    // MARK: The run

    /// Sends until it is retired, cancelled or disabled, or the lease is lost.
    mutating func run() async -> Ending {
        do throws(StoreError) {
            guard let progress = try await tools.store.holdWebhook(endpoint.name, holder: holder, for: Self.lease)
            else {
                return .notHeld
            }
            renewAt = now.addingTimeInterval(Self.renewal)
            position = progress.cursor
            committedCursor = progress.cursor
            committedAt = now
            memory = WebhookMemory(encoded: progress.memory)
            let ending = try await isStarting() ? try await loop() : .disabled
            if try await commit() { try await tools.store.releaseWebhook(endpoint.name, holder: holder) }
            return ending
        } catch {
            guard !Task.isCancelled, error != .closed else { return .ended }
            tools.logger.warning(
                "the webhook worker failed and starts again",
                metadata: ["webhook": "\(endpoint.name)", "error": "\(error)"]
            )
            try? await tools.store.releaseWebhook(endpoint.name, holder: holder)
            return .failed
        }
    }

    private mutating func loop() async throws(StoreError) -> Ending {
        let result = await withTaskGroup(of: Happening.self) { group in
            var result: Result<Ending, StoreError>
            do throws(StoreError) { result = .success(try await work(&group)) } catch { result = .failure(error) }
            group.cancelAll()
            // A request may have been answered before it was cancelled.
            for await happening in group {
                if case .sent = happening, case .success = result {
                    do throws(StoreError) { try await take(happening) } catch { result = .failure(error) }
                }
            }
            return result
        }
        return try result.get()
    }

    private mutating func work(_ group: inout TaskGroup<Happening>) async throws(StoreError) -> Ending {
        while true {
            let mark = control.signal.mark
            if Task.isCancelled { return .ended }
            let isEnding = control.isRetired || memory.disabled != nil
            if isEnding, inFlight.isEmpty { return control.isRetired ? .ended : .disabled }
            guard try await extend() else { return .notHeld }
            if control.takeLook() { isDueStale = true }
            if !isEnding {
                guard try await start(&group) else { return .notHeld }
                read(&group)
            }
            noteHeld()
            if mustCommit { guard try await commit() else { return .notHeld } }
            wait(&group, after: mark)
            guard let happening = await group.next() else { return .ended }
            try await take(happening)
        }
    }

    /// Extends the lease when it is time; returns whether it is held.
    private mutating func extend() async throws(StoreError) -> Bool {
        guard now >= renewAt else { return true }
        renewAt = now.addingTimeInterval(Self.renewal)
        isDueStale = true  // Another gateway may have been asked to send messages again.
        return try await tools.store.holdWebhook(endpoint.name, holder: holder, for: Self.lease) != nil
    }

    // MARK: Reading

    /// Reads the next events when there is room for them.
    private mutating func read(_ group: inout TaskGroup<Happening>) {
        guard !isReading, ready.count < (settings.isBatched ? WebhookBatch.maximumCount : Self.window) else { return }
        isReading = true
        let (store, after) = (tools.state.store, position)
        group.addTask {
            do throws(StoreError) {
                return .events(
                    .success(try await store.events(after: after, limit: Self.page, wait: Self.readWait))
                )
            } catch {
                return .events(.failure(error))
            }
        }
    }

    private mutating func take(_ events: [StoredEvent]) async throws(StoreError) {
        for event in events {
            if event.number > position.adding(clamping: 1) {
                tools.logger.warning(
                    "events were removed before a webhook got them: event_retention is over",
                    metadata: ["webhook": "\(endpoint.name)", "after": "\(position)", "next": "\(event.number)"]
                )
            }
            position = event.number
            ready += try await source.events(of: event)
        }
        if readySince == nil, !ready.isEmpty { readySince = now }
    }

    // MARK: Ends of child tasks

    private mutating func take(_ happening: Happening) async throws(StoreError) {
        switch happening {
        case .woken: wakesAt = nil
        case .events(let result):
            isReading = false
            try await take(try result.get())
        case .sent(let id, let answer, let start):
            guard let message = inFlight.removeValue(forKey: id) else { return }
            isDirty = true
            guard let answer else {
                // Cancelled: it is sent again, by this gateway or another one.
                if !message.isStored { kept.append(stored(message, .open, due: now)) }
                return
            }
            await take(answer, of: message, begun: start)
        }
    }

    // MARK: Commits

    /// The number of the last event before the first whose message is neither delivered nor stored.
    private var settled: Int64 {
        var first = ready.first?.number ?? .max
        for message in inFlight.values where !message.isStored { first = min(first, message.number) }
        return min(position, first.subtracting(clamping: 1))
    }

    private var mustCommit: Bool {
        let changes = kept.count + removed.count
        guard changes > 0 || isDirty || committedCursor != settled else { return false }
        let isIdle = inFlight.isEmpty && ready.isEmpty && (isDirty || changes > 0)
        return isIdle || changes >= Self.changesPerCommit
            || kept.contains { $0.state == .failed || $0.due > now }
            || now.timeIntervalSince(committedAt) >= Self.commitInterval
    }

    /// Writes what has changed; returns false when the lease is lost.
    mutating func commit() async throws(StoreError) -> Bool {
        guard !kept.isEmpty || !removed.isEmpty || isDirty || committedCursor != settled else { return true }
        // The last form of a message counts.
        let ids = Set(kept.map(\.id))
        let change = WebhookChange(
            name: endpoint.name,
            holder: holder,
            progress: WebhookProgress(cursor: settled, memory: memory.encoded),
            kept: ids.count == kept.count ? kept : latest(kept),
            removed: removed.filter { !ids.contains($0) }
        )
        guard try await tools.store.changeWebhook(change) else { return false }
        if !kept.isEmpty || !removed.isEmpty { isDueStale = true }
        (kept, removed, isDirty) = ([], [], false)
        committedAt = now
        committedCursor = change.progress?.cursor ?? committedCursor
        return true
    }

    /// Writes what has changed; throws when the lease is lost.
    mutating func commitHeld() async throws(StoreError) {
        guard try await commit() else { throw .failed("another gateway has taken the lease") }
    }

    private func latest(_ messages: [WebhookMessage]) -> [WebhookMessage] {
        var seen: Set<String> = []
        return messages.reversed().filter { seen.insert($0.id).inserted }.reversed()
    }

    private func noteHeld() {
        let messages = [retries, kept].joined()
        control.hold(
            entries: ready.count + inFlight.count + messages.count + removed.count,
            bytes: ready.reduce(0) { $0 + $1.json.count } + inFlight.values.reduce(0) { $0 + $1.body.count }
                + messages.reduce(0) { $0 + $1.record.count }
        )
    }

    // MARK: Waiting

    /// Lets the worker be woken at the next time at which something may begin.
    private mutating func wait(_ group: inout TaskGroup<Happening>, after mark: AsyncSignal.Mark) {
        let now = now
        var times: [Date?] = [renewAt, nextDue, memory.notBefore, nextSlot]
        if isDirty || committedCursor != settled { times.append(committedAt.addingTimeInterval(Self.commitInterval)) }
        if !ready.isEmpty { times += [probeAt, settings.isBatched ? batchDeadline : nil] }
        // A time in the past waits for the end of a request.
        let wake = times.compactMap { $0 }.filter { $0 > now }.min() ?? renewAt
        if let wakesAt {
            if wake < wakesAt { control.signal.signal() }
            return
        }
        wakesAt = wake
        let (signal, time) = (control.signal, tools.state.time)
        group.addTask {
            await signal.wait(after: mark, until: wake, time)
            return .woken
        }
    }
}
