internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The parts that the workers of a gateway share: the stores, the client, the metrics.
///
/// Made by ``WebhookRelay``. It holds references and makes no decisions.
final class WebhookTools: Sendable {
    let state: GatewayState
    let store: any WebhookStore
    /// The store of the endpoints' keys, which encrypts them where the configuration has a key.
    let credentials: any StateStore
    let metrics: GatewayMetrics
    let logger: Logger
    private let transport: (any WebhookTransport)?
    private let resolve: WebhookClient.Resolver
    private let deadline: Duration
    private let made = Mutex<(trust: String?, client: WebhookClient)?>(nil)

    init(
        state: GatewayState,
        store: any WebhookStore,
        credentials: any StateStore,
        metrics: GatewayMetrics,
        logger: Logger,
        transport: (any WebhookTransport)?,
        deadline: Duration,
        resolve: @escaping WebhookClient.Resolver
    ) {
        self.state = state
        self.store = store
        self.credentials = credentials
        self.metrics = metrics
        self.logger = logger
        self.transport = transport
        self.deadline = deadline
        self.resolve = resolve
    }

    /// The client under the configuration in force, or the given transport.
    var client: any WebhookTransport {
        if let transport { return transport }
        let trust = state.snapshot.configuration.webhooks.trust
        return made.withLock { made in
            if let made, made.trust == trust { return made.client }
            let client = WebhookClient(trust: trust, limit: deadline, resolve: resolve)
            made = (trust, client)
            return client
        }
    }

    /// The rule for addresses under the configuration in force.
    var rule: WebhookGuard { WebhookGuard(state.snapshot.configuration) }

    /// Returns the keys of an endpoint; nil when there are none, or none that can be read.
    func secrets(of webhook: String) async throws(StoreError) -> WebhookSecrets? {
        try await credentials.loadState(WebhookSecrets.stateName(webhook)).flatMap(WebhookSecrets.init(encoded:))
    }

    /// Sends a signed request, under a configuration that may have changed since the attempt before.
    func post(id: String, body: [UInt8], to url: WebhookURL, _ secrets: WebhookSecrets) async -> WebhookAnswer {
        let timestamp = Int64(clamping: state.time.now.timeIntervalSince1970)
        let headers = [
            ("content-type", "application/json"), ("user-agent", "chapar"), ("webhook-id", id),
            ("webhook-timestamp", String(timestamp)),
            ("webhook-signature", secrets.signatures(id: id, timestamp: timestamp, body: body)),
        ]
        return await client.post(url, headers: headers, body: body, rule)
    }

    /// Writes an event about an endpoint for operators; a failure of the store is logged.
    func tell(_ event: [UInt8]) async {
        do throws(StoreError) {
            try await state.store.publish([event])
        } catch {
            logger.unlessCancelled?.warning("an event about a webhook was not written", metadata: ["error": "\(error)"])
        }
    }
}

/// Events about endpoints, for operators: `webhook.failing`, `webhook.disabled`.
extension EventJSON {
    /// Returns the event of an endpoint that will be disabled when it goes on to fail.
    static func webhookFailing(_ name: String, app: String, percent: Int, disabledAt: Date?, at time: Date) -> [UInt8] {
        webhook("failing", name, app, at: time) { writer in
            writer.field("percent", percent)
            guard let disabledAt else { return }
            writer.name("will_be_disabled_at")
            RFC3339.write(disabledAt, to: &writer)
        }
    }

    /// Returns the event of an endpoint that was disabled.
    static func webhookDisabled(_ name: String, app: String, reason: String, at time: Date) -> [UInt8] {
        webhook("disabled", name, app, at: time) { $0.field("reason", reason) }
    }

    private static func webhook(
        _ what: String,
        _ name: String,
        _ app: String,
        at time: Date,
        _ more: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        begin(&writer, "webhook.\(what)", time)
        writer.field("webhook", name)
        if !app.isEmpty { writer.field("app", app) }
        more(&writer)
        writer.endObject()
        return writer.bytes
    }
}
