import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparStoreSQLite
import ChaparTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Traces", .timeLimit(.minutes(1)))
struct TracingTests {
    private static let traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let sampled = "00-\(traceID)-00f067aa0ba902b7-01"
    private static let unsampled = "00-\(traceID)-00f067aa0ba902b7-00"
    private static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p-1", status: 200))

    private static func settings(sample: Double = 0) -> GatewayConfiguration.Tracing {
        var settings = GatewayConfiguration.Tracing(endpoint: "http://127.0.0.1:4318")
        settings.sample = sample
        return settings
    }

    private static func headers(_ traceparent: String) throws -> HTTPFields {
        [try #require(HTTPField.Name("traceparent")): traceparent, try #require(HTTPField.Name("tracestate")): "a=1"]
    }

    /// A span as the collector gets it.
    private struct Span {
        let json: JSONValue

        var name: String { json["name"]?.stringValue ?? "" }
        var id: String { json["spanId"]?.stringValue ?? "" }
        var parent: String? { json["parentSpanId"]?.stringValue }
        var trace: String { json["traceId"]?.stringValue ?? "" }
        var start: Int64 { json["startTimeUnixNano"]?.stringValue.flatMap { Int64($0) } ?? 0 }
        var end: Int64 { json["endTimeUnixNano"]?.stringValue.flatMap { Int64($0) } ?? 0 }

        func attribute(_ name: String) -> JSONValue? {
            let value = json["attributes"]?.arrayValue?.first { $0["key"]?.stringValue == name }?["value"]
            return value?["stringValue"] ?? value?["intValue"] ?? value?["boolValue"]
        }

        static func all(in body: [UInt8]) throws -> [Span] {
            let resources = try JSONValue(parsing: body)["resourceSpans"]?.arrayValue ?? []
            return resources.flatMap { $0["scopeSpans"]?.arrayValue ?? [] }
                .flatMap { $0["spans"]?.arrayValue ?? [] }.map(Span.init)
        }
    }

    /// Ends an exporter; returns what it sent.
    private static func spans(of exporter: TraceExporter) async throws -> [Span] {
        let bodies = Mutex<[[UInt8]]>([])
        exporter.finish()
        await exporter.run(time: SystemTime(), metrics: GatewayMetrics(), logger: quiet, version: "1") { _, body in
            bodies.withLock { $0.append(body) }
            return 200
        }
        return try bodies.withLock { $0 }.flatMap(Span.all)
    }

    @Test("of requests are kept, given back, and have a span of the acceptance below that of the request")
    func acceptance() async throws {
        let harness = APIHarness { $0.tracing = Self.settings() }
        let reply = try await harness.post(APIHarness.sample(), headers: Self.headers(Self.sampled))
        #expect(reply.status == 202)
        let new = try #require(harness.store.accepted.first)
        #expect(new.record.trace?.state == "a=1")
        let shown = try await harness.send(.get, "/v1/notifications/\(new.id)").json
        #expect(shown["trace_id"]?.stringValue == Self.traceID)
        #expect(shown["trace_sampled"]?.boolValue == true)
        let event = try JSONValue(parsing: new.event)
        #expect(event["trace_id"]?.stringValue == Self.traceID)

        // Neither of these has a span: one is not sampled, one names no trace, one is refused.
        _ = try await harness.post(APIHarness.sample(), headers: Self.headers(Self.unsampled))
        _ = try await harness.post(APIHarness.sample())
        _ = try await harness.post("{}", headers: Self.headers(Self.sampled))
        #expect(harness.store.accepted.map { $0.record.trace?.isSampled } == [true, false, nil])

        let spans = try await Self.spans(of: harness.state.tracing)
        #expect(spans.count == 1)
        let span = try #require(spans.first)
        #expect(span.trace == Self.traceID && span.parent == "00f067aa0ba902b7" && span.name == "accept notification")
        #expect(span.json["traceState"]?.stringValue == "a=1")
        #expect(span.attribute("chapar.notification")?.stringValue == new.id.description)
    }

    @Test("are kept without a collector too, on the fast path of a connection and in batches, and broken ones ignored")
    func kept() async throws {
        let harness = APIHarness()
        let body = APIHarness.sample()
        let head = "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                for trace in [Self.sampled, "nonsense"] {
                    try await client.send(
                        head + "Content-Length: \(body.utf8.count)\r\ntraceparent: \(trace)\r\n\r\n" + body
                    )
                    #expect(try await client.read(until: "\r\n").contains("202"))
                    _ = try await client.read(until: "]}")
                }
            }
        }
        let batch = try await harness.send(
            .post,
            "/v1/notifications/batch",
            #"{"notifications":[\#(body),\#(body)]}"#,
            headers: Self.headers(Self.sampled)
        )
        #expect(batch.status == 202)
        let kept = harness.store.accepted.map { $0.record.trace?.traceID }
        #expect(kept == [Self.traceID, nil, Self.traceID, Self.traceID])
        #expect(try await Self.spans(of: harness.state.tracing).isEmpty)
    }

    @Test("begin for a share of the notifications that name none")
    func sampling() {
        let shares: [(Double, ClosedRange<Int>)] = [(0, 0...0), (1, 10_000...10_000), (0.1, 700...1_300)]
        for (share, range) in shares {
            let exporter = TraceExporter(Self.settings(sample: share))
            let count = (0..<10_000).count { _ in exporter.context(nil)?.isSampled ?? false }
            #expect(range.contains(count), "\(share): \(count)")
        }
        #expect(TraceExporter().context(nil) == nil)
    }

    @Test("go on over the queue, retries and a restart, below the span of the acceptance")
    func deliveries() async throws {
        let first = try await DispatcherRig()
        let folder = first.folder
        defer { try? FileManager.default.removeItem(at: folder) }
        let trace = try #require(TraceContext(traceparent: Self.sampled))
        let id = try await first.accept([.topic("t")], plan: DeliveryPlan(["a"]), trace: trace)
        _ = try await first.accept([.topic("other")], plan: DeliveryPlan(["a"]))
        await first.store.close()

        let exporter = TraceExporter(Self.settings())
        let rig = try await DispatcherRig(time: first.time, folder: folder, tracing: exporter)
        let backend = ScriptedBackend { addressee, attempt in
            addressee.recipient == .topic("t") && attempt == 1
                ? .refused(Refusal(.platform, reason: "Busy", status: 503, advice: .retry(after: .seconds(30))))
                : Self.accepted
        }
        try await rig.run(["a": backend]) {
            try await rig.expect(id, [.retrying: 1])
            rig.time.advance(by: .seconds(120))
            try await rig.expect(id, [.acceptedByPlatform: 1])
        }
        await rig.store.close()

        let spans = try await Self.spans(of: exporter)
        #expect(spans.map(\.name) == ["queue a", "send a", "queue a", "send a"], "the other has no trace")
        let parent = String(trace.span(of: id), radix: 16)
        #expect(spans.allSatisfy { $0.trace == Self.traceID && $0.parent?.hasSuffix(parent) ?? false })
        #expect(Set(spans.map(\.id)).count == 4)
        #expect(spans[1].json["status"]?["code"] == 2 && spans[1].attribute("error.type")?.stringValue == "Busy")
        #expect(spans[1].attribute("http.response.status_code")?.stringValue == "503")
        #expect(spans[3].json["status"] == nil && spans[3].attribute("chapar.attempt")?.stringValue == "2")
        #expect(spans[2].start >= spans[1].start && spans[2].end - spans[2].start >= 30_000_000_000)
        #expect(spans[2].end == spans[3].start, "the attempt begins where the wait ends")
    }

    @Test("go on in webhooks")
    func webhooks() async throws {
        try await WebhookRig.run { rig, receiver in
            rig.state.tracing.apply(Self.settings())
            receiver.answer { _, repeats in .status(repeats == 0 ? 500 : 200) }
            try await rig.add("hook", receiver.url())
            let id = NotificationID(rawValue: 1 << 40)
            let more = #","notification":"\#(id)","trace_id":"\#(Self.traceID)","trace_sampled":true"#
            try await rig.publish("delivery.failed", more: more)
            try await receiver.wait(for: 1)
            try await rig.wait("it is sent again", moving: .seconds(1)) { receiver.requests.count == 2 }
            try await rig.settle()
            #expect(receiver.requests.first?.json["data"]?["trace_id"]?.stringValue == Self.traceID)
            let spans = try await Self.spans(of: rig.state.tracing)
            #expect(spans.map(\.name) == ["webhook hook", "webhook hook"])
            let context = try #require(TraceContext(traceparent: Self.sampled))
            let parent = String(context.span(of: id), radix: 16)
            #expect(spans.allSatisfy { $0.trace == Self.traceID && $0.parent?.hasSuffix(parent) ?? false })
            #expect(spans.map { $0.attribute("chapar.outcome")?.stringValue } == ["refused", "delivered"])
        }
    }

    @Test("go on in what is sent again, with a link to the request that did it")
    func resends() async throws {
        let harness = APIHarness { $0.tracing = Self.settings() }
        let reply = try await harness.post(APIHarness.sample(), headers: Self.headers(Self.sampled))
        let id = try #require(reply.json["id"]?.stringValue)
        let claimed = try await harness.store.claim(backend: "ios", limit: 1, wait: .zero)
        try await harness.store.record(
            claimed.map { Resolution(of: $0, .end(.failed), attempt: Array(APISearchTests.refused.utf8)) }
        )
        let other = "00-00000000000000000000000000000001-0000000000000002-01"
        let body = #"{"deliveries":[{"notification":"\#(id)","delivery":0}],"options":{"ttl":600}}"#
        let again = try await harness.send(.post, "/v1/deliveries/resend", body, headers: Self.headers(other))
        #expect(again.json["resent"] == 1, "\(again.text)")
        let spans = try await Self.spans(of: harness.state.tracing)
        #expect(spans.map(\.name) == ["accept notification", "resend notification"])
        #expect(spans.allSatisfy { $0.trace == Self.traceID } && spans.last?.parent == spans.first?.id)
        let link = spans.last?.json["links"]?.arrayValue?.first
        #expect(link?["traceId"]?.stringValue == String(other.dropFirst(3).prefix(32)))
        #expect(link?["spanId"]?.stringValue == "0000000000000002")
    }

    @Test("are sent in batches from a bounded queue; what is lost is counted, and nothing waits")
    func bounded() async throws {
        let exporter = TraceExporter(Self.settings())
        let context = try #require(TraceContext(traceparent: Self.sampled))
        for number in 0..<10_000 {
            exporter.record(TraceSpan("\(number)", .internal, in: context, parent: 1, from: .now, to: .now))
        }
        let metrics = GatewayMetrics()
        let sizes = Mutex<[Int]>([])
        exporter.finish()
        await exporter.run(time: SystemTime(), metrics: metrics, logger: quiet, version: "1") { _, body in
            let count = (try? Span.all(in: body).count) ?? 0
            return sizes.withLock { sizes in
                sizes.append(count)
                return sizes.count == 16 ? 400 : 200
            }
        }
        #expect(sizes.withLock { $0 } == Array(repeating: TraceExporter.batchSpans, count: 16))
        var text = PrometheusText()
        metrics.registry.write(to: &text)
        let samples = try PrometheusSamples(String(decoding: text.bytes, as: UTF8.self))
        #expect(samples[#"chapar_trace_spans_total{outcome="dropped"}"#] == 1_808)
        #expect(samples[#"chapar_trace_spans_total{outcome="exported"}"#] == 7_680)
        #expect(samples[#"chapar_trace_spans_total{outcome="failed"}"#] == 512)
    }

    /// The requests of an exporter: the steady time of each, and its spans.
    private final class Requests: Sendable {
        private let all = Mutex<[(at: Date, spans: Int)]>([])
        var values: [(at: Date, spans: Int)] { all.withLock { $0 } }

        func add(_ body: [UInt8], at time: Date) {
            let spans = (try? Span.all(in: body).count) ?? 0
            all.withLock { $0.append((time, spans)) }
        }
    }

    /// Runs an exporter whose requests take 100 ms and get a status, while spans come every 20 ms, until a condition
    /// holds; returns the requests.
    private static func requests(
        answered status: Int,
        spansAtATime: Int,
        until isOver: @escaping @Sendable (_ requests: Int, _ spans: Int) -> Bool
    ) async throws -> [(at: Date, spans: Int)] {
        let (time, requests, exporter) = (ManualTime(), Requests(), TraceExporter(settings()))
        let context = try #require(TraceContext(traceparent: sampled))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await run(exporter, answered: status, time, requests) }
            var spans = 0
            try await eventually("the requests", within: .seconds(50), every: .milliseconds(1)) {
                for _ in 0..<spansAtATime {
                    exporter.record(TraceSpan("s", .internal, in: context, parent: 1, from: time.now, to: time.now))
                }
                spans += spansAtATime
                time.advance(by: .milliseconds(20))
                return isOver(requests.values.count, spans)
            }
            group.cancelAll()
        }
        return requests.values
    }

    private static func run(
        _ exporter: TraceExporter,
        answered status: Int,
        _ time: ManualTime,
        _ requests: Requests
    ) async {
        await exporter.run(time: time, metrics: GatewayMetrics(), logger: quiet, version: "1") { _, body in
            requests.add(body, at: time.steady)
            try? await time.sleep(for: .milliseconds(100))
            return status
        }
    }

    @Test("that a collector does not take are offered again after the pauses, however many spans come meanwhile")
    func pauses() async throws {
        // A full batch waits long before the second pause is over.
        let requests = try await Self.requests(answered: 503, spansAtATime: 8) { requests, _ in requests >= 3 }
        try #require(requests.count >= 3)
        #expect(requests[1].at.timeIntervalSince(requests[0].at) >= 1)
        #expect(requests[2].at.timeIntervalSince(requests[1].at) >= 5)
        #expect(Set(requests.prefix(3).map(\.spans)).count == 1, "the same batch")
    }

    @Test("that come one by one share a request a second, also behind a request that is under way")
    func gathered() async throws {
        let requests = try await Self.requests(answered: 200, spansAtATime: 1) { _, spans in spans >= 500 }
        #expect((1...11).contains(requests.count), "\(requests.map(\.spans))")
    }

    @Test("reach a collector over HTTP, with the header fields of the configuration")
    func collector() async throws {
        try await WebhookReceiver.run { receiver in
            let harness = APIHarness {
                var tracing = GatewayConfiguration.Tracing(endpoint: "http://127.0.0.1:\(receiver.port)")
                tracing.headers = ["authorization": Secret("Bearer planted")]
                $0.tracing = tracing
            }
            _ = try await harness.post(APIHarness.sample(), headers: Self.headers(Self.sampled))
            harness.state.tracing.finish()
            await Gateway.sendSpans(harness.state, harness.metrics, quiet)
            let request = try #require(receiver.requests.first)
            #expect(request.path == "/v1/traces" && request.fields["authorization"] == "Bearer planted")
            #expect(request.fields["content-type"] == "application/json")
            #expect(try Span.all(in: request.body).map(\.name) == ["accept notification"])
        }
    }

    @Test("are configured by a section whose mistakes are named")
    func configuration() throws {
        let good = """
            backends: { ios: { kind: sample, token: x, label: y } }
            tracing: { endpoint: "https://otlp.example/v1/traces", sample: 0.5, headers: { api-key: k } }
            """
        let loaded = try ConfigurationLoader.sample().load(good).configuration.tracing
        #expect(loaded?.sample == 0.5 && loaded?.serviceName == "chapar" && loaded?.headers["api-key"]?.reveal() == "k")
        #expect(try GatewayConfiguration.Tracing.url("http://collector:4318").target == "/v1/traces")
        #expect(try GatewayConfiguration.Tracing.url("https://otlp.example/own").target == "/own")
        let wrong = "tracing: { endpoint: \"ftp://x\", sample: 2, headers: { host: x } }"
        let error = #expect(throws: ConfigurationError.self) { try ConfigurationLoader.sample().load(wrong) }
        let paths = ["tracing.endpoint", "tracing.headers.host", "tracing.sample"]
        #expect(error?.issues.map(\.path).filter { $0.hasPrefix("tracing") }.sorted() == paths)
    }
}
