internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The way in which others wake or end a lane.
final class WebhookLaneControl: Sendable {
    /// Wakes the lane.
    let signal = AsyncSignal()
    private let retired = Atomic(false)
    private let stale = Atomic(true)

    /// Whether the lane begins nothing more.
    var isRetired: Bool { retired.load(ordering: .acquiring) }

    /// Lets the lane end once its requests have.
    func retire() {
        retired.store(true, ordering: .releasing)
        signal.signal()
    }

    /// Tells the lane that messages were changed by a request.
    func look() {
        stale.store(true, ordering: .releasing)
        signal.signal()
    }

    /// Whether messages were changed since the last call.
    func takeLook() -> Bool { stale.exchange(false, ordering: .acquiringAndReleasing) }
}

/// The sender to one endpoint: reads the event log from the endpoint's cursor, and sends what the endpoint gets.
///
/// One task runs it and owns everything in it; its child tasks read, wait and send, and return values. It holds the
/// endpoint's lease in the store: with every commit the store checks the lease. No lane waits for another.
///
/// A crash loses nothing. The stored cursor never passes an event whose message is not delivered or stored. The id of a
/// message with one event follows from the event, so that a repeat after a crash has the same. A batch is stored before
/// it is sent.
struct WebhookLane {
    /// Why a lane has ended.
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
    private static let retryWindow = 4
    /// The most messages in progress that a request sends again.
    private static let recoveryWindow = 2
    /// The span of the lease, and the interval at which it is extended.
    static let lease = Duration.seconds(30)
    private static let renewal: TimeInterval = 10
    /// The interval of commits while messages are being delivered, and the most changes of one commit.
    private static let commitInterval: TimeInterval = 1
    private static let changesPerCommit = 64
    /// The number of events, and of messages to send again, that are read at a time.
    private static let page = 256
    private static let retryPage = 32
    /// The longest wait of a read for an event.
    private static let readWait = Duration.seconds(5)
    /// The time after which a batch is sent again when its sender died, in seconds: longer than an attempt.
    private static let batchWait: TimeInterval = 20

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
    let control: WebhookLaneControl
    private let holder = UUID().uuidString
    private var source: WebhookSource

    // The events.
    /// The number of the last event that was read.
    private var position: Int64 = 0
    /// Events that are read and in no message.
    private var ready: [WebhookEvent] = []
    private var isReading = false
    /// The time when the first of ``ready`` came.
    private var readySince: Date?

    // The messages.
    private var inFlight: [String: Outgoing] = [:]
    private var retries: [WebhookMessage] = []
    /// The time when the next stored message is due; nil when none is, or all that are due are in progress.
    private var nextDue: Date?
    private var isDueStale = true
    /// The time before which the last attempt of a message must lie to be sent now, since the endpoint takes messages
    /// again.
    private var hurry: Date?

    // The endpoint.
    private var memory = WebhookMemory()
    private var nextSlot = Date.distantPast
    private var probeAt = Date.distantPast
    private var renewAt = Date.distantPast

    // The store.
    private var kept: [WebhookMessage] = []
    private var removed: [String] = []
    private var isDirty = false
    private var committedAt = Date.distantPast
    private var committedCursor: Int64 = 0
    /// The time of the waiting child task; nil without one.
    private var wakesAt: Date?

    /// Makes a lane; nil when the settings or keys cannot be read.
    init?(_ endpoint: StoredWebhook, _ secrets: WebhookSecrets?, _ tools: WebhookTools, _ control: WebhookLaneControl) {
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

    private var now: Date { tools.state.time.steady }
    private var labels: [String] { [endpoint.name, endpoint.app] }

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
                "webhooks to an endpoint stopped and are tried again",
                metadata: ["webhook": "\(endpoint.name)", "error": "\(error)"]
            )
            try? await tools.store.releaseWebhook(endpoint.name, holder: holder)
            return .failed
        }
    }

    /// Returns whether the endpoint gets anything; of one that was enabled again it notes the events in between.
    private mutating func isStarting() async throws(StoreError) -> Bool {
        guard settings.isEnabled else {
            if memory.disabled?.reason != .operator {
                memory.disabled = WebhookMemory.Disabled(reason: .operator, at: now, generation: settings.generation)
                isDirty = true
            }
            return false
        }
        guard let disabled = memory.disabled else { return true }
        guard disabled.generation != settings.generation else { return false }
        let last = try await tools.state.store.lastEvent()
        if last > position {
            // They were not queued; a request to recover sends them.
            var record = WebhookRecord()
            let first = min(position.adding(clamping: 1), last)
            record.span = first...last
            kept.append(
                WebhookMessage(
                    id: WebhookRecord.spanID(first...last),
                    number: first,
                    state: .failed,
                    due: now,
                    record: record.encoded
                )
            )
            position = last
        }
        memory.restart()
        isDirty = true
        return true
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

    // MARK: Sending

    /// Begins the requests that may begin; returns false when the lease is lost.
    private mutating func start(_ group: inout TaskGroup<Happening>) async throws(StoreError) -> Bool {
        while mayStart {
            guard var message = try await next() else { return true }
            if message.record.isBatch, !message.isStored {
                // Fixed before it is sent, so that a repeat after a crash is the same. The cursor passes its events in
                // the same commit: no other batch has them after a crash.
                kept.append(stored(message, .open, due: now.addingTimeInterval(Self.batchWait)))
                message.isStored = true
                inFlight[message.id] = message
                guard try await commit() else { return false }
            }
            send(message, &group)
        }
        return true
    }

    private var mayStart: Bool {
        let now = now
        let limit = settings.isOrdered || memory.isBroken ? 1 : Self.window
        return inFlight.count < limit && nextSlot <= now && (memory.notBefore ?? now) <= now
    }

    private mutating func send(_ message: Outgoing, _ group: inout TaskGroup<Happening>) {
        inFlight[message.id] = message
        let now = now
        if settings.rate > 0 { nextSlot = max(nextSlot, now).addingTimeInterval(1 / Double(settings.rate)) }
        probeAt = now.addingTimeInterval(WebhookMemory.probePause)
        let (id, body, url, secrets, tools) = (message.id, message.body, url, secrets, tools)
        group.addTask {
            let start = tools.state.time.now
            let answer = await tools.post(id: id, body: body, to: url, secrets)
            return .sent(id, Task.isCancelled && !answer.isSuccess ? nil : answer, at: start)
        }
    }

    /// Returns the message that is sent next; nil when none may be sent now.
    private mutating func next() async throws(StoreError) -> Outgoing? {
        if settings.isOrdered {
            // A message that failed is stored before the next one may begin.
            if !kept.isEmpty || !removed.isEmpty { try await commitHeld() }
            try await refreshDue()
            if let head = try await head() { return head }
            return nextDue == nil ? fresh() : nil
        }
        if let retry = try await retry() { return retry }
        guard !memory.isBroken || probeAt <= now else { return nil }
        return fresh()
    }

    /// Returns a message of new events; nil when there is none, or a batch waits for more.
    private mutating func fresh() -> Outgoing? {
        guard !ready.isEmpty else { return nil }
        var count = 1
        if settings.isBatched {
            var bytes = ready[0].json.count
            while count < min(ready.count, WebhookBatch.maximumCount),
                bytes + ready[count].json.count <= WebhookBatch.maximumBytes
            {
                bytes += ready[count].json.count
                count += 1
            }
            let isFull = count < ready.count || count == WebhookBatch.maximumCount
            // An event and the end of its notification have one number, which the cursor passes or not.
            while count > 1, count < ready.count, ready[count].number == ready[count - 1].number { count -= 1 }
            guard isFull || batchDeadline.map({ $0 <= now }) ?? true else { return nil }
        }
        let events = Array(ready.prefix(count))
        ready.removeFirst(count)
        readySince = ready.isEmpty ? nil : now
        return outgoing(events)
    }

    /// The time at which a batch that is not full is sent.
    private var batchDeadline: Date? {
        readySince?.addingTimeInterval(WebhookBatch.patience.inSeconds)
    }

    private func outgoing(_ events: [WebhookEvent]) -> Outgoing? {
        guard let first = events.first else { return nil }
        return Outgoing(
            id: settings.isBatched ? WebhookEvent.batchID(events, settings.tag) : first.id(settings.tag),
            number: first.number,
            record: WebhookRecord(items: events.map(\.item), isBatch: settings.isBatched),
            type: settings.isBatched ? WebhookType.batch : first.type.rawValue,
            body: WebhookEvent.body(events, isBatch: settings.isBatched),
            traces: events.compactMap(\.trace),
            isStored: false
        )
    }

    // MARK: Retries

    private mutating func refreshDue() async throws(StoreError) {
        guard isDueStale else { return }
        nextDue = try await tools.store.nextWebhookMessage(of: endpoint.name)
        isDueStale = false
    }

    /// Returns the oldest stored message of an ordered endpoint, when it is due.
    private mutating func head() async throws(StoreError) -> Outgoing? {
        while nextDue != nil {
            if !kept.isEmpty || !removed.isEmpty { try await commitHeld() }
            guard let message = try await tools.store.firstOpenWebhookMessage(of: endpoint.name) else {
                nextDue = nil
                return nil
            }
            nextDue = message.due
            guard message.due <= now else { return nil }
            if let outgoing = try await load(message) { return outgoing }
        }
        return nil
    }

    /// Returns a stored message that is due and may be sent beside those in progress.
    private mutating func retry() async throws(StoreError) -> Outgoing? {
        let stored = inFlight.values.filter(\.isStored)
        guard stored.count < Self.retryWindow else { return nil }
        if retries.isEmpty { try await loadRetries() }
        let isFull = stored.count(where: \.record.isRecovering) >= Self.recoveryWindow
        while let place = retries.firstIndex(where: { message in
            !isFull || WebhookRecord(encoded: message.record)?.isRecovering != true
        }) {
            if let outgoing = try await load(retries.remove(at: place)) { return outgoing }
        }
        return nil
    }

    private mutating func loadRetries() async throws(StoreError) {
        try await refreshDue()
        let now = now
        guard hurry != nil || nextDue.map({ $0 <= now }) ?? false else { return }
        // What is read must not be older than what is to be written.
        if !kept.isEmpty || !removed.isEmpty { try await commitHeld() }
        if let hurry {
            let found = try await tools.store.webhookMessages(
                of: endpoint.name,
                .open,
                at: now.addingTimeInterval(30 * 86_400),
                limit: Self.page
            )
            retries = found.filter { message in
                let last = WebhookRecord(encoded: message.record)?.last ?? .min
                return inFlight[message.id] == nil && last < hurry.millisecondsSince1970
            }
            if retries.isEmpty { self.hurry = nil } else { return }
        }
        guard let due = nextDue, due <= now else { return }
        let found = try await tools.store.webhookMessages(of: endpoint.name, .open, at: now, limit: Self.retryPage)
        retries = found.filter { inFlight[$0.id] == nil }
        if retries.isEmpty { nextDue = nil }  // Until one of those in progress has ended.
    }

    /// Makes the request of a stored message again; nil when it became other messages, or its events are gone.
    private mutating func load(_ message: WebhookMessage) async throws(StoreError) -> Outgoing? {
        isDueStale = true
        guard let record = WebhookRecord(encoded: message.record) else {
            removed.append(message.id)
            return nil
        }
        if let span = record.span {
            try await expand(message, record, span)
            return nil
        }
        let events = try await source.events(of: record.items)
        guard let first = events.first else {
            removed.append(message.id)
            tools.metrics.webhookGivenUp(labels)
            tools.logger.warning(
                "a webhook message was given up: its events are removed from the log",
                metadata: ["webhook": "\(endpoint.name)", "id": "\(message.id)"]
            )
            return nil
        }
        return Outgoing(
            id: message.id,
            number: message.number,
            record: record,
            type: record.isBatch ? WebhookType.batch : first.type.rawValue,
            body: WebhookEvent.body(events, isBatch: record.isBatch),
            traces: events.compactMap(\.trace),
            isStored: true
        )
    }

    /// Makes messages of the next events of a span that is to be sent again.
    private mutating func expand(
        _ message: WebhookMessage,
        _ record: WebhookRecord,
        _ span: ClosedRange<Int64>
    ) async throws(StoreError) {
        let read = try await tools.state.store.events(
            after: span.lowerBound.subtracting(clamping: 1),
            limit: Self.page,
            wait: .zero
        )
        let stored = read.filter { span.contains($0.number) }
        var events: [WebhookEvent] = []
        var source = self.source
        source.forget()
        var skipped: Int64?
        for event in stored {
            let made = try await source.events(of: event)
            let wanted = made.filter { $0.at >= record.since ?? .min || $0.ended != nil }
            if wanted.count < made.count { skipped = event.number }
            events += wanted
        }
        removed.append(message.id)
        if let skipped {
            // Another request may ask for what happened before the time of this one.
            var rest = WebhookRecord()
            let part = span.lowerBound...max(skipped, span.lowerBound)
            rest.span = part
            kept.append(
                WebhookMessage(
                    id: WebhookRecord.spanID(part),
                    number: part.lowerBound,
                    state: .failed,
                    due: now,
                    record: rest.encoded
                )
            )
        }
        while !events.isEmpty {
            let count = settings.isBatched ? min(events.count, WebhookBatch.maximumCount) : 1
            if var outgoing = outgoing(Array(events.prefix(count))) {
                outgoing.record.isRecovering = true
                kept.append(self.stored(outgoing, .open, due: now))
            }
            events.removeFirst(count)
        }
        if let last = stored.last?.number, last < span.upperBound {
            var rest = record
            let first = min(last.adding(clamping: 1), span.upperBound)
            rest.span = first...span.upperBound
            kept.append(
                WebhookMessage(
                    id: WebhookRecord.spanID(first...span.upperBound),
                    number: first,
                    state: .open,
                    // After the messages that were just made.
                    due: now.addingTimeInterval(0.001),
                    record: rest.encoded
                )
            )
        }
        try await commitHeld()
    }

    private func stored(_ message: Outgoing, _ state: WebhookMessage.State, due: Date) -> WebhookMessage {
        WebhookMessage(id: message.id, number: message.number, state: state, due: due, record: message.record.encoded)
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

    private mutating func take(_ answer: WebhookAnswer, of message: Outgoing, begun start: Date) async {
        let now = now
        var message = message
        message.record.attempts += 1
        message.record.last = now.millisecondsSince1970
        tools.metrics.webhookAttempted(labels, answer.outcome, after: answer.duration)
        trace(answer, of: message, begun: start)
        memory.note(
            WebhookMemory.Attempt(
                at: start,
                id: message.id,
                type: message.type,
                attempt: message.record.attempts,
                outcome: answer.outcome,
                status: answer.status,
                detail: answer.detail,
                redirectHost: answer.redirectHost,
                milliseconds: answer.duration.boundedMilliseconds
            )
        )
        let consequence = memory.take(answer, at: now)
        if answer.isSuccess {
            tools.metrics.webhookDelivered(labels, events: message.record.items.count)
            if message.isStored { removed.append(message.id) }
        } else {
            let wait = answer.status == 410 ? nil : WebhookRetries.wait(after: message.record.attempts)
            if let wait {
                let due = now.addingTimeInterval(max(wait, answer.retryAfter?.inSeconds ?? 0))
                kept.append(stored(message, .open, due: due))
            } else {
                message.record.isRecovering = false
                kept.append(stored(message, .failed, due: now))
                tools.metrics.webhookGivenUp(labels)
            }
        }
        switch consequence {
        case nil: break
        case .recovered: hurry = now
        case .warn(let percent): await warn(percent, now)
        case .disable(let reason): await disable(reason, now)
        }
    }

    /// Records a span for each event of a sampled trace.
    private func trace(_ answer: WebhookAnswer, of message: Outgoing, begun start: Date) {
        guard !message.traces.isEmpty, tools.state.tracing.isOn else { return }
        var attributes: [(name: String, value: TraceSpan.Value)] = [
            ("chapar.webhook", .text(endpoint.name)), ("chapar.webhook.message", .text(message.id)),
            ("chapar.webhook.type", .text(message.type)),
            ("chapar.attempt", .number(Int64(clamping: message.record.attempts))),
            ("chapar.outcome", .text(answer.outcome)),
        ]
        if let status = answer.status {
            attributes.append(("http.response.status_code", .number(Int64(clamping: status))))
        }
        let end = start.addingTimeInterval(answer.duration.inSeconds)
        for context in message.traces {
            tools.state.tracing.record(
                TraceSpan(
                    "webhook \(endpoint.name)",
                    .client,
                    in: context,
                    parent: context.parent,
                    from: start,
                    to: end,
                    attributes,
                    failure: answer.isSuccess ? nil : answer.outcome
                )
            )
        }
    }

    private mutating func disable(_ reason: WebhookMemory.Reason, _ now: Date) async {
        guard memory.disabled == nil else { return }
        memory.disabled = WebhookMemory.Disabled(reason: reason, at: now, generation: settings.generation)
        tools.logger.error(
            "a webhook was disabled: it gets nothing until it is enabled",
            metadata: ["webhook": "\(endpoint.name)", "reason": "\(reason.rawValue)"]
        )
        await tools.tell(
            EventJSON.webhookDisabled(
                endpoint.name,
                app: endpoint.app,
                reason: reason.rawValue,
                at: tools.state.time.now
            )
        )
    }

    private func warn(_ percent: Int, _ now: Date) async {
        let end = memory.disabledFrom.map { tools.state.clock.wall($0) }
        tools.logger.warning(
            "a webhook fails, and will be disabled when it goes on to fail",
            metadata: ["webhook": "\(endpoint.name)", "percent": .stringConvertible(percent)]
        )
        await tools.tell(
            EventJSON.webhookFailing(
                endpoint.name,
                app: endpoint.app,
                percent: percent,
                disabledAt: end,
                at: tools.state.time.now
            )
        )
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
    private mutating func commit() async throws(StoreError) -> Bool {
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
    private mutating func commitHeld() async throws(StoreError) {
        guard try await commit() else { throw .failed("another gateway has taken the lease") }
    }

    private func latest(_ messages: [WebhookMessage]) -> [WebhookMessage] {
        var seen: Set<String> = []
        return messages.reversed().filter { seen.insert($0.id).inserted }.reversed()
    }

    // MARK: Waiting

    /// Lets the lane be woken at the next time at which something may begin.
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
