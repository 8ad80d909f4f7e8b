internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// Begins requests, and takes their answers.
extension WebhookWorker {
    /// Begins the requests that may begin; returns false when the lease is lost.
    mutating func start(_ group: inout TaskGroup<Happening>) async throws(StoreError) -> Bool {
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
    var batchDeadline: Date? {
        readySince?.addingTimeInterval(WebhookBatch.delay.inSeconds)
    }

    func outgoing(_ events: [WebhookEvent]) -> Outgoing? {
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

    mutating func take(_ answer: WebhookAnswer, of message: Outgoing, begun start: Date) async {
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
}
