import CoreMetrics
import Foundation
import HTTPTypes
import ChaparCore
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The real endpoint shows the metrics of libraries, which come through swift-metrics, and bounds their number.
@Suite("Metrics of libraries", .timeLimit(.minutes(1)), .serialized)
struct LibraryMetricsTests {
    /// swift-metrics takes one backend in the life of a process.
    private static let shared: GatewayMetrics = {
        let metrics = GatewayMetrics()
        metrics.registry.bootstrap()
        return metrics
    }()

    private static func scrape(_ metrics: GatewayMetrics) async throws -> PrometheusSamples {
        let harness = APIHarness(metrics: metrics)
        let reply = try await harness.send(.get, "/metrics")
        #expect(reply.status == 200)
        return try PrometheusSamples(reply.text)
    }

    @Test("are under /metrics, beside the gateway's own")
    func shown() async throws {
        let metrics = Self.shared
        Counter(label: "library.requests", dimensions: [("host", "a.example")]).increment(by: 3)
        Gauge(label: "library.connections").record(7)
        Timer(label: "library.duration").recordSeconds(2)
        let samples = try await Self.scrape(metrics)
        #expect(samples[#"library_requests_total{host="a.example"}"#] == 3)
        #expect(samples["library_connections"] == 7)
        #expect(samples["library_duration_seconds_count"] == 1)
        #expect(samples["library_duration_seconds_sum"] == 2)
    }

    @Test("have a bound on their series, which leaves the gateway's own alone")
    func bounded() async throws {
        let metrics = GatewayMetrics()
        let registry = metrics.registry
        for name in 0..<10 {
            for label in 0..<500 {
                registry.makeCounter(label: "library.n\(name)", dimensions: [("url", "\(label)")]).increment(by: 1)
            }
        }
        registry.makeCounter(label: "library.late", dimensions: []).increment(by: 1)
        metrics.retried(backend: "ios", reason: "busy")
        registry.makeCounter(label: "library.n0", dimensions: [("url", "late")]).increment(by: 1)
        let samples = try await Self.scrape(metrics)
        let series = samples.names.filter { $0.hasPrefix("library_") }
        #expect(series.count == MetricsRegistry.maximumLibrarySeries + 1)
        #expect(samples["library_n0_total{url=\"other\"}"] == 1, "a known name has one more series")
        #expect(samples["library_late_total"] == nil, "a new name beyond the bound is not shown")
        #expect(samples.names.contains { $0.hasPrefix("chapar_retries_total") })
    }

    @Test("that are destroyed make way for others")
    func destroyed() {
        let registry = MetricsRegistry()
        for label in 0..<(3 * MetricsRegistry.maximumLibrarySeries) {
            let counter = registry.makeCounter(label: "library.c", dimensions: [("n", "\(label % 900)")])
            registry.destroyCounter(counter)
        }
        registry.makeMeter(label: "library.last", dimensions: []).set(Int64(1))
        var text = PrometheusText()
        registry.write(to: &text)
        #expect(String(decoding: text.bytes, as: UTF8.self).contains("library_last 1"))
    }
}
