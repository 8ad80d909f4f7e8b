import InMemoryTracing
import MetricsTestKit
import ChaparCore
import ChaparObservability
import Testing
import Tracing

/// The metrics and spans of a send, through swift-metrics and swift-distributed-tracing.
@Suite("An observed backend", .timeLimit(.minutes(1)))
struct ObservedBackendTests {
    /// Answers by the text of each token.
    private struct ScriptedBackend: PushBackend {
        let kind: BackendKind = "scripted"
        let audience = BackendAudience(services: [.iOSAPNs])
        let window: Int? = 7

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            for (row, request) in requests.enumerated() {
                for (place, addressee) in request.recipients.enumerated() {
                    report([DeliveryReport(request: row, recipient: place, outcome: outcome(addressee.recipient))])
                }
            }
        }

        private func outcome(_ recipient: Recipient) -> DeliveryOutcome {
            guard case .token(let token) = recipient else { return .unknown(UnknownOutcome(reason: "not_a_token")) }
            switch token.value.prefix(while: { $0 != "-" }) {
            case "good": return .accepted(Acceptance(platformID: "1", status: 200))
            case "lost": return .unknown(UnknownOutcome(reason: "connection_lost"))
            case let word: return .refused(Refusal(.token, reason: String(word), status: 410, advice: .never))
            }
        }
    }

    private static func recipients(_ tokens: String...) -> [Recipient] {
        tokens.map { .token($0, service: .iOSAPNs) }
    }

    private static func dimensions(_ outcome: String, _ reason: String) -> [(String, String)] {
        [("backend", "ios"), ("kind", "scripted"), ("outcome", outcome), ("reason", reason)]
    }

    private let metrics = TestMetrics()

    private var backend: some PushBackend { ScriptedBackend().observed(as: "ios", metrics: metrics) }

    @Test("passes everything on, and counts messages by what became of them")
    func counts() async throws {
        let backend = backend
        let outcomes = await backend.send(PushNotification(body: "b"), to: Self.recipients("good", "gone", "lost"))
        #expect(outcomes.map(\.isAccepted) == [true, false, false])
        #expect(backend.window == 7, "what it wraps keeps its abilities")
        _ = await backend.send(PushNotification(body: "b"), to: Self.recipients("good-2", "good-3"))
        let label = "push_client_messages"
        #expect(try metrics.expectCounter(label, Self.dimensions("accepted", "")).totalValue == 3)
        #expect(try metrics.expectCounter(label, Self.dimensions("refused", "gone")).totalValue == 1)
        #expect(try metrics.expectCounter(label, Self.dimensions("unknown", "connection_lost")).totalValue == 1)
        let timer = try metrics.expectTimer("push_client_send_duration", [("backend", "ios"), ("kind", "scripted")])
        #expect(timer.values.count == 2 && timer.values.allSatisfy { $0 > 0 })
    }

    @Test("counts endless reasons as a hundred and one more")
    func bounded() async throws {
        let backend = backend
        for number in 0..<300 {
            _ = await backend.send(PushNotification(body: "b"), to: Self.recipients("r\(number)"))
        }
        #expect(metrics.counters(label: "push_client_messages").count == 101)
        let rest = try metrics.expectCounter("push_client_messages", Self.dimensions("refused", "other"))
        #expect(rest.totalValue == 200)
    }

    @Test("makes a span below the caller's, with what was sent and what became of it, and no token")
    func span() async throws {
        let tracer = InMemoryTracer()
        await withTracer(tracer) {
            await withSpan("order") { _ in
                _ = await backend.send(PushNotification(title: "t"), to: Self.recipients("good-abcdef", "gone-abcdef"))
            }
        }
        let spans = tracer.finishedSpans
        #expect(spans.map(\.operationName) == ["send ios", "order"])
        let span = try #require(spans.first)
        #expect(span.kind == .client)
        #expect(span.parentSpanID == spans.last?.spanID)
        #expect(span.status == nil, "a part of the batch went out")
        #expect(span.attributes["messaging.system"]?.toSpanAttribute() == "scripted")
        #expect(span.attributes["messaging.destination.name"]?.toSpanAttribute() == "ios")
        #expect(span.attributes["messaging.batch.message_count"]?.toSpanAttribute() == 2)
        #expect(span.attributes["chapar.accepted"]?.toSpanAttribute() == 1)
        #expect(span.attributes["chapar.refused"]?.toSpanAttribute() == 1)
        #expect(span.attributes["chapar.unknown"]?.toSpanAttribute() == 0)
        #expect(span.attributes["error.type"]?.toSpanAttribute() == "gone")
        #expect(span.attributes["messaging.message.id"] == nil)
        var texts: [String] = []
        span.attributes.forEach { texts.append("\($0)=\($1)") }
        #expect(!texts.joined().contains("abcdef"))
    }

    @Test("makes a failed span of a send of which nothing went out, and names the message when it is one")
    func failed() async throws {
        let tracer = InMemoryTracer()
        let id = MessageID.random()
        let request = PushRequest(
            PushNotification(body: "b"),
            to: [Addressee(.token("lost", service: .iOSAPNs), messageID: id)]
        )
        await withTracer(tracer) { _ = await backend.send([request]) }
        let span = try #require(tracer.finishedSpans.first)
        #expect(span.status?.code == .error && span.status?.message == "connection_lost")
        #expect(span.attributes["messaging.message.id"]?.toSpanAttribute() == .string(id.description))
    }

    @Test("makes no span without a tracer")
    func silent() async {
        let outcome = await backend.send(PushNotification(body: "b"), to: .token("good", service: .iOSAPNs))
        #expect(outcome.isAccepted)
        #expect(InstrumentationSystem.tracer is NoOpTracer)
    }
}
