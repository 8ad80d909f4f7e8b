import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The times of deliveries", .timeLimit(.minutes(1)))
struct DeliveryTimesTests {
    private static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p-1", status: 200))

    private static func samples(_ metrics: GatewayMetrics) throws -> PrometheusSamples {
        var text = PrometheusText()
        metrics.registry.write(to: &text)
        return try PrometheusSamples(String(decoding: text.bytes, as: UTF8.self))
    }

    private static func rig(_ metrics: GatewayMetrics) async throws -> DispatcherRig {
        try await DispatcherRig(observer: metrics)
    }

    @Test("are those until the first attempt, and until the answer that ended it, by backend and priority")
    func byPriority() async throws {
        let metrics = GatewayMetrics()
        let rig = try await Self.rig(metrics)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let backend = ScriptedBackend { addressee, attempt in
            switch addressee.recipient {
            case .topic("late") where attempt == 1:
                .refused(Refusal(.platform, reason: "Busy", status: 503, advice: .retry(after: .seconds(30))))
            case .topic("dead"): .refused(Refusal(.token, reason: "Gone", status: 410, advice: .never))
            default: Self.accepted
            }
        }
        let urgent = try await rig.accept([.topic("late"), .topic("dead")], plan: DeliveryPlan(["a"]))
        let normal = try await rig.accept([.topic("n")], plan: DeliveryPlan(["a"]), priority: .normal)
        rig.time.advance(by: .seconds(12))
        try await rig.run(["a": backend]) {
            try await rig.expect(urgent, [.retrying: 1, .failed: 1])
            try await rig.expect(normal, [.acceptedByPlatform: 1])
            rig.time.advance(by: .seconds(45))
            try await rig.expect(urgent, [.acceptedByPlatform: 1, .failed: 1])
        }
        await rig.store.close()

        let samples = try Self.samples(metrics)
        func value(_ family: String, _ part: String, _ priority: String, _ more: String = "") -> Double? {
            samples[#"chapar_\#(family)_seconds_\#(part){backend="a",priority="\#(priority)"\#(more)}"#]
        }
        #expect(value("queue_wait", "count", "high") == 2, "a retry is no first attempt")
        #expect(value("queue_wait", "count", "normal") == 1)
        #expect(value("queue_wait", "bucket", "high", #",le="10""#) == 0)
        #expect(value("queue_wait", "bucket", "high", #",le="30""#) == 2)
        #expect(value("delivery_duration", "count", "high") == 2, "a refusal for now ends nothing")
        #expect(value("delivery_duration", "bucket", "high", #",le="30""#) == 1)
        #expect(value("delivery_duration", "bucket", "high", #",le="60""#) == 2)
        #expect(value("delivery_duration", "count", "normal") == 1)
    }

    @Test("of a scheduled message count from its time")
    func scheduled() async throws {
        let metrics = GatewayMetrics()
        let rig = try await Self.rig(metrics)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(["a": ScriptedBackend { _, _ in Self.accepted }]) {
            let id = try await rig.accept(dueIn: .seconds(600))
            rig.time.advance(by: .seconds(601))
            try await rig.expect(id, [.acceptedByPlatform: 1])
        }
        await rig.store.close()
        let samples = try Self.samples(metrics)
        for family in ["queue_wait", "delivery_duration"] {
            let name = #"chapar_\#(family)_seconds_bucket{backend="a",priority="high",le="5"}"#
            #expect(samples[name] == 1, "\(family)")
        }
    }
}
