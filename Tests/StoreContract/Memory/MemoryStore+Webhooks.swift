package import ChaparCore
package import ChaparQueue
package import Foundation

/// Endpoints of webhooks, in the simplest form that keeps their promises.
extension MemoryStore: WebhookStore {
    package func webhooks() async throws(StoreError) -> [StoredWebhook] {
        try await read { $0.webhooks.values.map(\.endpoint).sorted { $0.name < $1.name } }
    }

    package func saveWebhook(
        _ webhook: StoredWebhook,
        replacing revision: Int64?
    ) async throws(StoreError) -> Int64? {
        let now = time.steady.millisecondsSince1970
        return try await call { tables in
            let found = tables.webhooks[webhook.name]
            guard found?.endpoint.revision == revision else { return .success(nil) }
            var new = found ?? MemoryWebhook(webhook, cursor: tables.lastEvent)
            new.endpoint = webhook
            new.endpoint.revision = max(now, (found?.endpoint.revision ?? 0) + 1)
            tables.webhooks[webhook.name] = new
            return .success(new.endpoint.revision)
        }
    }

    package func removeWebhook(_ name: String) async throws(StoreError) -> Bool {
        try await call { .success($0.webhooks.removeValue(forKey: name) != nil) }
    }

    package func holdWebhook(
        _ name: String,
        holder: String,
        for span: Duration
    ) async throws(StoreError) -> WebhookProgress? {
        let now = time.steady
        return try await call { tables in
            guard let found = tables.webhooks[name] else { return .success(nil) }
            if let lease = found.lease, lease.holder != holder, lease.end >= now { return .success(nil) }
            tables.webhooks[name]?.lease = (holder, now.addingTimeInterval(span.inSeconds))
            return .success(found.progress)
        }
    }

    package func releaseWebhook(_ name: String, holder: String) async throws(StoreError) {
        try await call { tables in
            if tables.webhooks[name]?.lease?.holder == holder { tables.webhooks[name]?.lease = nil }
            return .success(())
        }
    }

    package func changeWebhook(_ change: WebhookChange) async throws(StoreError) -> Bool {
        try await call { tables in
            guard var found = tables.webhooks[change.name],
                change.holder == nil || change.holder == found.lease?.holder
            else { return .success(false) }
            found.progress = change.progress ?? found.progress
            for id in change.removed { found.messages[id] = nil }
            for message in change.kept { found.messages[message.id] = message }
            tables.webhooks[change.name] = found
            return .success(true)
        }
    }

    package func webhookProgress(_ name: String) async throws(StoreError) -> WebhookProgress? {
        try await read { $0.webhooks[name]?.progress }
    }

    package func webhookMessages(
        of name: String,
        _ state: WebhookMessage.State,
        at moment: Date,
        limit: Int
    ) async throws(StoreError) -> [WebhookMessage] {
        try await messages(of: name, state) { state == .open ? $0.due <= moment : $0.due >= moment }
            .prefix(limit).map { $0 }
    }

    package func firstOpenWebhookMessage(of name: String) async throws(StoreError) -> WebhookMessage? {
        try await messages(of: name, .open) { _ in true }.min { ($0.number, $0.id) < ($1.number, $1.id) }
    }

    package func webhookMessage(_ id: String, of name: String) async throws(StoreError) -> WebhookMessage? {
        try await read { $0.webhooks[name]?.messages[id] }
    }

    package func nextWebhookMessage(of name: String) async throws(StoreError) -> Date? {
        try await messages(of: name, .open) { _ in true }.first?.due
    }

    package func webhookCounts(of name: String) async throws(StoreError) -> WebhookCounts {
        try await read { tables in
            let messages = tables.webhooks[name]?.messages.values.map(\.state) ?? []
            return WebhookCounts(open: messages.count { $0 == .open }, failed: messages.count { $0 == .failed })
        }
    }

    package func purgeWebhookMessages(before moment: Date, limit: Int) async throws(StoreError) -> Int {
        try await call { tables in
            var removed = 0
            for (name, webhook) in tables.webhooks.sorted(by: { $0.key < $1.key }) {
                for (id, message) in webhook.messages where message.state == .failed && message.due < moment {
                    guard removed < limit else { break }
                    tables.webhooks[name]?.messages[id] = nil
                    removed += 1
                }
            }
            return .success(removed)
        }
    }

    /// Returns the messages of a state that a condition holds for, in the order of their due times.
    private func messages(
        of name: String,
        _ state: WebhookMessage.State,
        where isWanted: (WebhookMessage) -> Bool
    ) async throws(StoreError) -> [WebhookMessage] {
        try await read { tables in
            (tables.webhooks[name]?.messages.values.filter { $0.state == state && isWanted($0) } ?? [])
                .sorted { ($0.due, $0.number, $0.id) < ($1.due, $1.number, $1.id) }
        }
    }
}

/// An endpoint with its lease, its progress and its messages.
struct MemoryWebhook: Sendable {
    var endpoint: StoredWebhook
    var progress: WebhookProgress
    var lease: (holder: String, end: Date)?
    var messages: [String: WebhookMessage] = [:]

    init(_ endpoint: StoredWebhook, cursor: Int64) {
        self.endpoint = endpoint
        progress = WebhookProgress(cursor: cursor)
    }
}
