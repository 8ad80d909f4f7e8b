public import CoreMetrics
public import ChaparComposition
public import ChaparCore
internal import Synchronization

/// A wrapper that counts a backend's messages through swift-metrics, and traces them through swift-distributed-tracing.
///
/// | name | what | dimensions |
/// | --- | --- | --- |
/// | `push_client_messages` | counter: messages, by outcome | `backend`, `kind`, `outcome`, `reason` |
/// | `push_client_send_duration` | timer: from a `send` to its last outcome | `backend`, `kind` |
///
/// `outcome` is `accepted`, `refused` or `unknown`; `reason` is the platform's own and empty for accepted messages.
/// While a tracer is active, each `send` has a span `send NAME` of the kind `client`, below the caller's own span; it
/// holds [these attributes](https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/): `messaging.system`
/// is the backend's kind, `messaging.destination.name` its name, `messaging.batch.message_count` the number of
/// messages, `chapar.accepted`, `chapar.refused` and `chapar.unknown` the numbers by outcome, `error.type` the first
/// reason.
///
/// A gateway counts and traces its own deliveries: its backends need no such wrapper.
public struct ObservedBackend: BackendWrapper {
    /// The wrapped backend.
    public let wrapped: any PushBackend
    /// The name in metrics and spans.
    public let name: String
    private let metrics: SendMetrics

    /// Wraps a backend.
    ///
    /// - Parameters:
    ///   - wrapped: The backend to observe.
    ///   - name: The name in metrics and spans; one for each backend, such as the one it has in logs.
    ///   - metrics: The factory of the counters; by default the program's own of swift-metrics.
    public init(_ wrapped: any PushBackend, name: String, metrics: any MetricsFactory = MetricsSystem.factory) {
        self.wrapped = wrapped
        self.name = name
        self.metrics = SendMetrics(backend: name, kind: wrapped.kind, factory: metrics)
    }

    /// Sends through the wrapped backend.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let started = ContinuousClock.now
        await SendSpan.run(
            backend: name,
            kind: kind,
            requests: requests,
            report: { [metrics] reports in
                metrics.count(reports)
                report(reports)
            },
            send: { report in await wrapped.send(requests, report: report) }
        )
        metrics.record(started.duration(to: .now))
    }
}

extension PushBackend {
    /// Returns the backend with its sends counted through swift-metrics and traced through swift-distributed-tracing.
    ///
    /// - Parameters:
    ///   - name: The name in metrics and spans, such as ``ChaparCore/BackendContext/name``.
    ///   - metrics: The factory of the counters; by default the program's own of swift-metrics.
    /// - Returns: A backend with the same abilities.
    public func observed(as name: String, metrics: any MetricsFactory = MetricsSystem.factory) -> some PushBackend {
        ObservedBackend(self, name: name, metrics: metrics)
    }
}

extension PushAccount {
    /// Returns the account with the sends of its backend counted and traced, under the name that it is added with.
    ///
    /// - Parameter metrics: The factory of the counters; by default the program's own of swift-metrics when the backend
    ///   is made.
    /// - Returns: The account of the observed backends.
    public func observed(metrics: (any MetricsFactory)? = nil) -> PushAccount<ObservedBackend> {
        map { backend, context in
            ObservedBackend(backend, name: context.name, metrics: metrics ?? MetricsSystem.factory)
        }
    }
}

/// The counters of one backend, made on first use.
private final class SendMetrics: Sendable {
    private struct Key: Hashable {
        var outcome: String
        var reason: String
    }

    /// The most reasons that are counted separately; further ones are counted as `other`.
    private static let maximumReasons = 100

    private let backend: [(String, String)]
    private let factory: any MetricsFactory
    private let timer: Timer
    private let counters = Mutex<[Key: Counter]>([:])

    init(backend: String, kind: BackendKind, factory: any MetricsFactory) {
        self.backend = [("backend", backend), ("kind", kind.rawValue)]
        self.factory = factory
        timer = Timer(label: "push_client_send_duration", dimensions: self.backend, factory: factory)
    }

    func count(_ reports: [DeliveryReport]) {
        var counts: [Key: Int] = [:]
        for report in reports {
            let key =
                switch report.outcome {
                case .accepted: Key(outcome: "accepted", reason: "")
                case .refused(let refusal): Key(outcome: "refused", reason: refusal.reason)
                case .unknown(let unknown): Key(outcome: "unknown", reason: unknown.reason)
                }
            counts[key, default: 0] += 1
        }
        for (key, count) in counts { counter(key).increment(by: count) }
    }

    func record(_ span: Duration) {
        timer.recordNanoseconds(Int64(clamping: span.inSeconds * 1e9))
    }

    private func counter(_ key: Key) -> Counter {
        counters.withLock { counters in
            if let counter = counters[key] { return counter }
            var key = key
            if counters.count >= Self.maximumReasons {
                key.reason = "other"
                if let counter = counters[key] { return counter }
            }
            let counter = Counter(
                label: "push_client_messages",
                dimensions: backend + [("outcome", key.outcome), ("reason", key.reason)],
                factory: factory
            )
            counters[key] = counter
            return counter
        }
    }
}
