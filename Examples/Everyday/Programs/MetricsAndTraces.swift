import ChaparClient
import CoreMetrics
import Tracing

/// Counters and spans of what is sent, among those of your program: the span of the send lies below that of the order.
func metricsAndTraces(
    _ apple: PushAccount<some PushBackend>,
    phone: Recipient,
    metrics: any MetricsFactory,
    tracer: any Tracer
) async throws {
    MetricsSystem.bootstrap(metrics)
    InstrumentationSystem.bootstrap(tracer)
    try await PushClient.run(logger: Logger(label: "shop")) { client in
        let ios = try client.add(apple.observed(), as: "ios")
        await withSpan("ship order 42") { _ in _ = await ios.send(PushNotification(title: "Order 42"), to: phone) }
    }
}
