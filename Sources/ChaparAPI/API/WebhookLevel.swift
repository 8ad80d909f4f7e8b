internal import Foundation
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The state of an endpoint of webhooks, for metrics.
struct WebhookLevel: Sendable {
    /// The name and the app, the labels.
    let labels: [String]
    /// The number of events that its sender has still to pass.
    let lag: Int64
    /// The number of messages that wait for another attempt.
    let open: Int
    let isDisabled: Bool

    /// Returns the endpoints of a store; none for a store that keeps none.
    static func all(_ store: any NotificationStore) async throws(StoreError) -> [WebhookLevel] {
        guard let webhooks = store.abilities.webhooks else { return [] }
        var levels: [WebhookLevel] = []
        for webhook in try await webhooks.webhooks() {
            guard let progress = try await webhooks.webhookProgress(webhook.name),
                let settings = WebhookSettings(encoded: webhook.settings)
            else { continue }
            let disabled = WebhookMemory(encoded: progress.memory).disabled
            levels.append(
                WebhookLevel(
                    labels: [webhook.name, webhook.app],
                    lag: max(0, try await store.lastEvent().subtracting(clamping: progress.cursor)),
                    open: try await webhooks.webhookCounts(of: webhook.name).open,
                    isDisabled: !settings.isEnabled || disabled?.generation == settings.generation
                )
            )
        }
        return levels
    }

    /// Writes the metrics; nothing without endpoints.
    static func write(_ levels: [WebhookLevel], to text: inout PrometheusText) {
        guard !levels.isEmpty else { return }
        text.begin(.webhookLag)
        for level in levels { text.sample(.webhookLag, level.labels, Double(level.lag)) }
        text.begin(.webhookOpen)
        for level in levels { text.sample(.webhookOpen, level.labels, Double(level.open)) }
        text.begin(.webhookDisabled)
        for level in levels { text.sample(.webhookDisabled, level.labels, level.isDisabled ? 1 : 0) }
    }
}
