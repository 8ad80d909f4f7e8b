package import ChaparCore
internal import Synchronization
internal import Tracing

/// A span of swift-distributed-tracing around messages that a backend sends, until the last of them is answered.
///
/// Used by ``ObservedBackend`` and by the gateway's delivery workers. While no tracer is active it costs one look-up a
/// batch. Names and attributes follow OpenTelemetry's conventions for messaging; they never include a recipient or any
/// content.
package enum SendSpan {
    /// Runs `send`, within a span when a tracer is active.
    ///
    /// - Parameters:
    ///   - backend: The backend's name.
    ///   - kind: The backend's kind.
    ///   - requests: The requests to send.
    ///   - report: Takes the outcomes.
    ///   - send: Sends, and reports to the closure that is passed to it.
    package static func run(
        backend: String,
        kind: BackendKind,
        requests: [PushRequest],
        report: @escaping @Sendable ([DeliveryReport]) -> Void,
        send: (_ report: @escaping @Sendable ([DeliveryReport]) -> Void) async -> Void
    ) async {
        let tracer = InstrumentationSystem.tracer
        guard !(tracer is NoOpTracer) else { return await send(report) }
        await tracer.withAnySpan("send \(backend)", ofKind: .client) { span in
            let tally = SendTally()
            span.updateAttributes { attributes in
                attributes["messaging.system"] = kind.rawValue
                attributes["messaging.operation.name"] = "send"
                attributes["messaging.operation.type"] = "send"
                attributes["messaging.destination.name"] = backend
                attributes["messaging.batch.message_count"] = requests.reduce(0) { $0 + $1.recipients.count }
                if requests.count == 1, requests[0].recipients.count == 1 {
                    attributes["messaging.message.id"] = requests[0].recipients[0].messageID.description
                }
            }
            await send { reports in
                tally.take(reports)
                report(reports)
            }
            let counts = tally.counts
            span.updateAttributes { attributes in
                attributes["chapar.accepted"] = counts.accepted
                attributes["chapar.refused"] = counts.refused
                attributes["chapar.unknown"] = counts.unknown
                if let reason = counts.reason { attributes["error.type"] = reason }
            }
            // Some refused tokens are normal in a batch; a batch without an accepted message is a failure.
            if counts.accepted == 0, let reason = counts.reason {
                span.setStatus(SpanStatus(code: .error, message: reason))
            }
        }
    }
}

/// Counts the outcomes of one send.
private final class SendTally: Sendable {
    struct Counts: Sendable {
        var accepted = 0
        var refused = 0
        var unknown = 0
        /// The reason of the first message that was not accepted.
        var reason: String?
    }

    private let state = Mutex(Counts())

    var counts: Counts { state.withLock { $0 } }

    func take(_ reports: [DeliveryReport]) {
        state.withLock { counts in
            for report in reports {
                switch report.outcome {
                case .accepted: counts.accepted += 1
                case .refused(let refusal):
                    counts.refused += 1
                    counts.reason = counts.reason ?? refusal.reason
                case .unknown(let unknown):
                    counts.unknown += 1
                    counts.reason = counts.reason ?? unknown.reason
                }
            }
        }
    }
}
