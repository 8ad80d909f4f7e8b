internal import ChaparAPI
internal import ChaparCore
internal import ChaparDelivery
internal import Logging

extension Gateway {
    /// The time for one request to the collector of traces.
    private static let traceDeadline = Duration.seconds(3)

    /// Sends spans until the gateway has ended; a reload may begin and end it.
    static func sendSpans(_ state: GatewayState, _ metrics: GatewayMetrics, _ logger: Logger) async {
        await state.tracing.run(
            time: state.time,
            metrics: metrics,
            logger: logger,
            version: BuildInfo.current.version
        ) { settings, body in
            guard let url = try? GatewayConfiguration.Tracing.url(settings.endpoint) else { return nil }
            let client = WebhookClient(trust: settings.trust, limit: traceDeadline)
            let headers = settings.headers.map { ($0.key, $0.value.reveal()) }
            let answer = await client.post(
                url,
                headers: [("content-type", "application/json"), ("user-agent", "chapar")] + headers,
                body: body,
                // The operator names the address.
                .everywhere
            )
            return answer.status
        }
    }
}
