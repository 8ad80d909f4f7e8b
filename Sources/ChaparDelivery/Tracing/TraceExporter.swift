package import ChaparCore
package import ChaparQueue
package import Logging
internal import Synchronization

/// The sender of spans to a collector, which sends batches from a bounded queue, independently of all other work.
///
/// ``GatewayState`` has it; the API, the workers and the webhooks record spans, ``Gateway`` awaits
/// ``run(time:metrics:logger:version:post:)``. Nothing waits for it: when its queue is full, spans are dropped and
/// counted. Without the section `tracing` it costs one read of a flag at each place that could record a span.
package final class TraceExporter: Sendable {
    /// The most spans that wait for the collector.
    package static let maximumSpans = 8_192
    /// The most spans in one request.
    package static let batchSpans = 512
    /// The longest time that a span waits for others to share a request with.
    private static let batchDelay = Duration.seconds(1)
    /// The pauses before further attempts at a request that the collector did not take.
    private static let pauses: [Duration] = [.seconds(1), .seconds(5)]

    private struct State {
        var settings: GatewayConfiguration.Tracing?
        var spans: [TraceSpan] = []
        /// The number of spans that found the queue full, not yet counted in metrics.
        var dropped = 0
        var isFinished = false
    }

    private let state: Mutex<State>
    private let on: Atomic<Bool>
    /// The share of notifications for which a trace is begun, of 2^32.
    private let share: Atomic<UInt64>
    /// A sequence whose mixed values decide which notifications these are.
    private let sequence = Atomic<UInt64>(.random(in: 0 ... .max))
    private let signal = AsyncSignal()
    /// The end of the gateway; new spans do not signal it, so that pauses have their full length.
    private let end = AsyncSignal()

    /// Makes the sender; nil settings send nothing.
    package init(_ settings: GatewayConfiguration.Tracing? = nil) {
        state = Mutex(State(settings: settings))
        on = Atomic(settings != nil)
        share = Atomic(Self.share(of: settings))
    }

    /// Puts other settings in force.
    package func apply(_ settings: GatewayConfiguration.Tracing?) {
        state.withLock { state in
            state.settings = settings
            if settings == nil { state.spans.removeAll() }
        }
        share.store(Self.share(of: settings), ordering: .relaxed)
        on.store(settings != nil, ordering: .releasing)
    }

    private static func share(of settings: GatewayConfiguration.Tracing?) -> UInt64 {
        UInt64(clamping: Int64(clamping: max(0, min(1, settings?.sample ?? 0)) * 4_294_967_296))
    }

    /// Whether spans are sent.
    package var isOn: Bool { on.load(ordering: .relaxed) }

    /// Returns the trace of a request's notifications: the one that it names, or for some of the others a new one.
    package func context(_ named: TraceContext?) -> TraceContext? {
        if let named { return named }
        guard isOn else { return nil }
        let share = share.load(ordering: .relaxed)
        guard share > 0 else { return nil }
        let place = sequence.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue
        // SplitMix64: the system's generator costs a call of the kernel for each request.
        let first = (place ^ (place >> 30)) &* 0xBF58_476D_1CE4_E5B9
        let second = (first ^ (first >> 27)) &* 0x94D0_49BB_1331_11EB
        return second >> 32 < share ? .begun() : nil
    }

    /// Takes a span; drops it when too many wait.
    package func record(_ span: TraceSpan) {
        guard isOn else { return }
        let wakes = state.withLock { state in
            guard state.spans.count < Self.maximumSpans else {
                state.dropped += 1
                return false
            }
            state.spans.append(span)
            return state.spans.count == 1 || state.spans.count == Self.batchSpans
        }
        if wakes { signal.signal() }
    }

    /// Lets ``run(time:metrics:logger:version:post:)`` end once the spans that wait were offered to the collector.
    package func finish() {
        state.withLock { $0.isFinished = true }
        signal.signal()
        end.signal()
    }

    /// Sends spans until ``finish()`` or cancellation.
    ///
    /// `post` sends a body to the collector within a deadline, and returns the status of the answer, nil without one.
    package func run(
        time: any TimeSource,
        metrics: GatewayMetrics,
        logger: Logger,
        version: String,
        post: @Sendable (GatewayConfiguration.Tracing, [UInt8]) async -> Int?
    ) async {
        var isFailing = false
        while !Task.isCancelled {
            await collect(time)
            let (settings, spans, dropped, isLast) = take()
            if dropped > 0 { metrics.countSpans("dropped", dropped) }
            guard let settings, !spans.isEmpty else {
                if isLast { return }
                continue
            }
            let body = TraceSpan.body(spans, service: settings.serviceName, version: version)
            var status = await post(settings, body)
            for pause in Self.pauses where Self.mayTakeLater(status) {
                let mark = end.mark
                guard !isFinished else { break }
                await end.wait(after: mark, atMost: pause, time)
                status = await post(settings, body)
            }
            let isTaken = status.map { (200..<300).contains($0) } ?? false
            metrics.countSpans(isTaken ? "exported" : "failed", spans.count)
            if isTaken == isFailing {
                isFailing = !isTaken
                let shown: Logger.Metadata = ["status": "\(status.map(String.init) ?? "none")"]
                if isFailing {
                    logger.warning("the collector of traces does not take spans: they are lost", metadata: shown)
                } else {
                    logger.notice("the collector of traces takes spans again", metadata: shown)
                }
            }
            if !isTaken, isFinished { return }  // The end of the gateway does not wait for a collector that is gone.
        }
    }

    /// Waits for a span, then until a batch is full, for ``batchDelay`` at most; at the end of the gateway not at all.
    private func collect(_ time: any TimeSource) async {
        // Each mark is older than the look at the spans: a signal in between ends the wait.
        let empty = signal.mark
        if state.withLock({ $0.spans.isEmpty && !$0.isFinished }) { await signal.wait(after: empty) }
        let begun = signal.mark
        if state.withLock({ $0.spans.count < Self.batchSpans && !$0.isFinished }) {
            await signal.wait(after: begun, atMost: Self.batchDelay, time)
        }
    }

    private var isFinished: Bool { state.withLock { $0.isFinished } }

    private func take() -> (GatewayConfiguration.Tracing?, [TraceSpan], dropped: Int, isLast: Bool) {
        state.withLock { state in
            let spans = Array(state.spans.prefix(Self.batchSpans))
            state.spans.removeFirst(spans.count)
            defer { state.dropped = 0 }
            return (state.settings, spans, state.dropped, state.isFinished)
        }
    }

    /// Whether the collector may take the same request later.
    ///
    /// Source: [OTLP](https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes).
    private static func mayTakeLater(_ status: Int?) -> Bool {
        guard let status else { return true }
        return [429, 502, 503, 504].contains(status)
    }
}
