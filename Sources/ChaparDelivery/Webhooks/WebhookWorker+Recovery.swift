internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue

/// Sends stored messages again, and makes messages of a span of events that a request to recover names.
extension WebhookWorker {
    mutating func refreshDue() async throws(StoreError) {
        guard isDueStale else { return }
        nextDue = try await tools.store.nextWebhookMessage(of: endpoint.name)
        isDueStale = false
    }

    /// Returns the oldest stored message of an ordered endpoint, when it is due.
    mutating func head() async throws(StoreError) -> Outgoing? {
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
    mutating func retry() async throws(StoreError) -> Outgoing? {
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
        // The read must not be older than the write that follows.
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

    func stored(_ message: Outgoing, _ state: WebhookMessage.State, due: Date) -> WebhookMessage {
        WebhookMessage(id: message.id, number: message.number, state: state, due: due, record: message.record.encoded)
    }
}
