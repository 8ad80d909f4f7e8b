import Logging
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Foundation
import CoreMetrics
import HTTPTypes
import ChaparCore
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Metrics", .timeLimit(.minutes(1)))
struct APIMetricsTests {
    private func scrape(_ harness: APIHarness) async throws -> PrometheusSamples {
        let reply = try await harness.send(.get, "/metrics")
        #expect(reply.status == 200)
        #expect(reply.headers[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
        return try PrometheusSamples(reply.text)
    }

    @Test("have the names and labels that users alert on, in a form that Prometheus reads")
    func names() async throws {
        var ios = StubBackend.ios
        ios.health = BackendHealth(credentialExpiries: [
            "client_certificate": Date(timeIntervalSince1970: 1_900_000_000)
        ])
        let harness = APIHarness(backends: [ios, .android])
        _ = try await harness.post(APIHarness.sample())
        _ = try await harness.post(APIHarness.sample(#","backend":"ios""#))
        _ = try await harness.post("{}")
        _ = try await harness.send(.get, "/v1/notifications/0000000000001")
        harness.metrics.attempted(
            backend: "ios",
            app: AppName(rawValue: "shop"),
            kind: "apns",
            outcome: "accepted",
            reason: "",
            count: 5
        )
        harness.metrics.attempted(
            backend: "ios",
            app: AppName(rawValue: "shop"),
            kind: "apns",
            outcome: "token",
            reason: "Unregistered",
            count: 1
        )
        harness.metrics.answered(backend: "ios", kind: "apns", after: .milliseconds(30), count: 6)
        harness.metrics.retried(backend: "ios", reason: "InternalServerError")
        harness.metrics.fellBack(from: "ios", to: "android", reason: "x")
        harness.metrics.invalidatedToken(backend: "ios", reason: "Unregistered")
        harness.metrics.quarantinedInvalidations(backend: "ios", reason: "BadDeviceToken", count: 7)
        harness.time.advance(by: .seconds(60))

        let samples = try await scrape(harness)
        let expected: [(String, Double)] = [
            (#"chapar_http_requests_total{route="/v1/notifications",method="POST",status="202"}"#, 2),
            (#"chapar_http_requests_total{route="/v1/notifications",method="POST",status="422"}"#, 1),
            (#"chapar_http_requests_total{route="/v1/notifications/{id}",method="GET",status="404"}"#, 1),
            (#"chapar_http_request_duration_seconds_count{route="/v1/notifications",method="POST",status="202"}"#, 2),
            (#"chapar_notifications_accepted_total{route="automatic",app="default"}"#, 1),
            (#"chapar_notifications_accepted_total{route="direct",app="default"}"#, 1),
            (#"chapar_deliveries_total{backend="ios",app="shop",kind="apns",outcome="accepted",reason=""}"#, 5),
            (
                #"chapar_deliveries_total{backend="ios",app="shop",kind="apns",outcome="token",reason="Unregistered"}"#,
                1
            ),
            (#"chapar_send_duration_seconds_bucket{backend="ios",kind="apns",le="0.025"}"#, 0),
            (#"chapar_send_duration_seconds_bucket{backend="ios",kind="apns",le="0.05"}"#, 6),
            (#"chapar_send_duration_seconds_bucket{backend="ios",kind="apns",le="+Inf"}"#, 6),
            (#"chapar_retries_total{backend="ios",reason="InternalServerError"}"#, 1),
            (#"chapar_fallbacks_total{from="ios",to="android",reason="x"}"#, 1),
            (#"chapar_tokens_invalidated_total{backend="ios",reason="Unregistered"}"#, 1),
            (#"chapar_queue_depth{backend="ios"}"#, 2), (#"chapar_queue_depth{backend="android"}"#, 0),
            (#"chapar_queue_oldest_age_seconds{backend="ios"}"#, 60), (#"chapar_inflight{backend="ios"}"#, 3),
            (#"chapar_invalidations_quarantined_total{backend="ios",reason="BadDeviceToken"}"#, 7),
            (#"chapar_invalidations_held_total{backend="ios",reason="BadDeviceToken"}"#, 7),
            (#"chapar_key_oldest_age_seconds{key=""}"#, 60),
            (#"chapar_window{backend="ios"}"#, 1000), (#"chapar_worker_paused{backend="android"}"#, 2),
            (#"chapar_lane_paused{backend="android"}"#, 2), (#"chapar_worker_paused{backend="ios"}"#, 0),
            (#"chapar_lane_paused{backend="ios"}"#, 0),
            (#"chapar_backend_up{backend="ios",kind="apns",app="default"}"#, 1),
            (#"chapar_backend_up{backend="android",kind="fcm",app="default"}"#, 0),
            (
                #"chapar_credential_expiry_timestamp_seconds{backend="ios",credential="client_certificate"}"#,
                1_900_000_000
            ),
            (#"chapar_build_info{version="\#(BuildInfo.current.version)",commit="unknown"}"#, 1),
            ("chapar_http_requests_in_progress", 1), ("chapar_event_streams", 0),
        ]
        for (name, value) in expected { #expect(samples[name] == value, "\(name)") }
        #expect(samples.types["chapar_http_requests_total"] == "counter")
        #expect(samples.types["chapar_send_duration_seconds"] == "histogram")
        #expect(samples.types["chapar_queue_depth"] == "gauge")
        #expect(samples.types["chapar_lane_paused"] == "gauge")
        #expect(samples.types["chapar_invalidations_held_total"] == "counter")
    }

    @Test("say how long each API key waits, to those who may see what it sent")
    func keys() async throws {
        let harness = APIHarness(keys: [
            APIHarness.key("shop", [.send]), APIHarness.key("crm", [.send]), APIHarness.key("admin", [.admin]),
            APIHarness.key("viewer", [.metrics], backends: ["ios"]),
        ])
        let sent = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop"))
        #expect(sent.status == 202)
        harness.time.advance(by: .seconds(60))
        func scraped(as key: String) async throws -> PrometheusSamples {
            try PrometheusSamples(try await harness.send(.get, "/metrics", headers: APIHarness.bearer(key)).text)
        }
        let samples = try await scraped(as: "admin")
        #expect(samples[#"chapar_key_oldest_age_seconds{key="shop"}"#] == 60)
        #expect(samples[#"chapar_key_oldest_age_seconds{key="crm"}"#] == 0)
        let narrow = try await scraped(as: "viewer")
        #expect(narrow["chapar_queue_full"] == 0)
        #expect(narrow[#"chapar_key_oldest_age_seconds{key="viewer"}"#] == 0)
        #expect(narrow[#"chapar_key_oldest_age_seconds{key="shop"}"#] == nil)
    }

    @Test("of more keys than a metric has series share one, which shows the longest wait of them")
    func manyKeys() async throws {
        let harness = APIHarness(
            keys: [APIHarness.key("admin", [.admin])] + (0..<1_100).map { APIHarness.key("k\($0)", [.send]) }
        )
        // By their order k999 is among those that share a series.
        _ = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("k999"))
        harness.time.advance(by: .seconds(60))
        let text = try await harness.send(.get, "/metrics", headers: APIHarness.bearer("admin")).text
        let samples = try PrometheusSamples(text)
        #expect(samples.names.count { $0.hasPrefix("chapar_key_oldest_age_seconds") } == 1_001)
        #expect(samples[#"chapar_key_oldest_age_seconds{key="other"}"#] == 60)
        #expect(samples[#"chapar_key_oldest_age_seconds{key="admin"}"#] == 0)
    }

    @Test("never hold what callers or platforms make up without end")
    func bounded() async throws {
        let harness = APIHarness()
        for number in 0..<1500 {
            harness.metrics.retried(backend: "ios", reason: "made-up-\(number)")
            _ = try await harness.send(HTTPRequest.Method("M\(number)") ?? .get, "/path/\(number)")
        }
        let samples = try await scrape(harness)
        #expect(samples.names.filter { $0.hasPrefix("chapar_retries_total") }.count == 1001)
        #expect(samples[#"chapar_retries_total{backend="other",reason="other"}"#] == 500)
        #expect(samples[#"chapar_http_requests_total{route="other",method="other",status="404"}"#] == 1500)
    }

    @Test("show that everything accepted is waiting or ended")
    func ledger() async throws {
        let harness = APIHarness()
        _ = try await harness.post(APIHarness.sample())  // It waits at the start of the books.
        let store = harness.store
        harness.metrics.ledger.begin(waiting: 1)
        store.observe { harness.metrics.ledger.apply($0) }
        let books = APIHarness.Books(harness, harness.state)
        for _ in 0..<3 { try await books.post(APIHarness.sample(#","options":{"collapse_id":"c"}"#)) }
        try await books.post(APIHarness.sample())
        let ids = harness.store.accepted.map(\.id)
        try await store.record([Resolution(delivery: ids[0].rawValue, transition: .end(.acceptedByPlatform))])
        try await store.record([Resolution(delivery: ids[4].rawValue, transition: .release)])
        _ = try await store.cancel(ids[4]) { _, _ in Array("{}".utf8) }
        try await store.record([Resolution(delivery: ids[0].rawValue, transition: .release)])  // It is final.
        var health = StoreHealth(acceptsWork: true)
        (health.deadRows, health.oldestSnapshot) = (7, .seconds(90))
        store.show(health)
        let samples = try await books.scrape()
        #expect(samples["chapar_store_dead_rows"] == 7)
        #expect(samples["chapar_store_oldest_snapshot_seconds"] == 90)
        #expect(samples["chapar_ledger_ignored_total"] == 2, "neither was claimed")
        #expect(samples["chapar_ledger_accepted_total"] == 4)
        #expect(samples[#"chapar_ledger_ended_total{state="accepted_by_platform"}"#] == 1)
        #expect(samples[#"chapar_ledger_ended_total{state="cancelled"}"#] == 3)
        #expect(samples["chapar_ledger_waiting"] == 1)
        #expect(samples["chapar_ledger_difference"] == 0)
        harness.store.lose(ids[3])
        #expect(try await books.scrape()["chapar_ledger_difference"] == 1)
    }

    @Test("of libraries that use swift-metrics are shown too")
    func factory() throws {
        let registry = MetricsRegistry()
        let counter = registry.makeCounter(label: "hb.requests", dimensions: [("path", "/a\"b\\c\nd")])
        counter.increment(by: 2)
        let seconds = registry.makeFloatingPointCounter(label: "busy_total", dimensions: [])
        seconds.increment(by: 0.5)
        seconds.increment(by: -1)
        let timer = registry.makeTimer(label: "work-time", dimensions: [])
        timer.recordNanoseconds(20_000_000)
        registry.makeRecorder(label: "sizes", dimensions: [], aggregate: true).record(3.0)
        let gauge = registry.makeMeter(label: "1level", dimensions: [])
        gauge.set(2.5)
        gauge.increment(by: 1)
        _ = registry.makeCounter(label: "1level", dimensions: [])
        let gone = registry.makeCounter(label: "gone", dimensions: [])
        registry.destroyCounter(gone)
        var text = PrometheusText()
        registry.write(to: &text)
        let samples = try PrometheusSamples(String(decoding: text.bytes, as: UTF8.self))
        #expect(samples[#"hb_requests_total{path="/a\"b\\c\nd"}"#] == 2)
        #expect(samples["busy_total"] == 0.5)
        #expect(samples[#"work_time_seconds_bucket{le="0.025"}"#] == 1)
        #expect(samples["work_time_seconds_sum"] == 0.02)
        #expect(samples[#"sizes_bucket{le="5"}"#] == 1)
        #expect(samples["_level"] == 3.5)
        #expect(!samples.names.contains { $0.hasPrefix("gone") })
    }

    @Test("of the process are there")
    func process() async throws {
        let samples = try await scrape(APIHarness())
        #expect((samples["process_resident_memory_bytes"] ?? 0) > 1_000_000)
        #expect((samples["process_cpu_seconds_total"] ?? 0) > 0)
        #expect(samples["process_start_time_seconds"] == 1_800_000_000)
    }
}

extension APIHarness {
    /// A harness whose API works on a store that keeps the ledger.
    struct Books {
        let harness: APIHarness
        let responder: GatewayResponder

        init(_ harness: APIHarness, _ state: GatewayState) {
            self.harness = harness
            responder =
                GatewayAPI(
                    state: state,
                    workers: StubWorkers(),
                    metrics: harness.metrics,
                    logger: Logger(label: "test")
                ).responder
        }

        func post(_ body: String) async throws {
            let reply = try await APIHarness.send(responder, .post, "/v1/notifications", body)
            #expect(reply.status == 202)
        }

        func scrape() async throws -> PrometheusSamples {
            try PrometheusSamples(try await APIHarness.send(responder, .get, "/metrics").text)
        }
    }
}
