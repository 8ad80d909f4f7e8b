import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

@Suite("Huawei's receipts reach the deliveries they are about", .timeLimit(.minutes(2)), .about("hms"))
struct HuaweiReceiptTests {
    /// Sends one notification to Huawei tokens through a gateway with the sandbox's configuration.
    private static func run(
        _ tokens: [String],
        plan: (inout HMSReceiptPlan) -> Void = { _ in },
        _ body: (SandboxRig, GatewayClient, _ id: String) async throws -> Void
    ) async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            rig.sandbox.hms.callBack(gatewayPort: gateway.port)
            plan(&rig.sandbox.hms.receipts)
            let client = try gateway.client()
            let request: JSONValue = [
                "to": ["tokens": .array(tokens.map { ["token": .string($0), "service": "android-huawei"] })],
                "content": ["title": "Order 42", "body": "is on its way"],
            ]
            let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: "\(UUID())")
            let id = try #require(answer.json["id"]?.stringValue, "\(answer)")
            try await body(rig, client, id)
            await client.close()
        }
    }

    /// Waits until the counts of a notification are these.
    private static func wait(_ client: GatewayClient, _ id: String, _ counts: JSONObject) async throws {
        var last = JSONValue.null
        do {
            _ = try await Program.wait("the counts") { () -> Bool? in
                last = try await client.get("/v1/notifications/\(id)").json["counts"] ?? .null
                let found = last.objectValue?.members.filter { $0.value != 0 } ?? []
                return found.count == counts.count && found.allSatisfy { counts[$0.name] == $0.value } ? true : nil
            }
        } catch {
            Issue.record("expected \(JSONValue.object(counts).text), found \(last.text)")
            throw error
        }
    }

    @Test("A delivery that was accepted becomes delivered or failed, with the story and the events of it")
    func settles() async throws {
        let tokens = ["IQAAAACy0sampleA", "sim-r6-phone", "sim-r2-phone", "sim-r27-phone", "sim-dead-phone"]
        try await Self.run(tokens) { rig, client, id in
            try await Self.wait(client, id, ["delivered": 1, "failed": 3, "accepted_by_platform": 1])
            #expect(rig.sandbox.hms.counters.sends == 1, "all of them share one request")
            let answer = try await client.get("/v1/notifications/\(id)/deliveries")
            let items = try #require(answer.json["items"]?.arrayValue)
            let ends = items.map { item in
                "\(item["state"]?.stringValue ?? "?") \(item["attempts"]?.arrayValue?.last?["reason"]?.stringValue ?? "-")"
            }
            #expect(
                ends == [
                    "delivered delivered", "failed not_shown", "failed app_not_installed",
                    "accepted_by_platform cached",
                    "failed illegal_token",
                ]
            )
            for item in items.prefix(4) {
                #expect(item["attempts"]?.arrayValue?.map { $0["outcome"]?.stringValue } == ["accepted", "receipt"])
            }
            #expect(rig.sandbox.hms.counters.callbacksLost == 0)
        }
    }

    @Test("Receipts that come doubled, out of order and in the older form change nothing twice")
    func repeats() async throws {
        let tokens = (0..<150).map { "IQAAAACy0sample\($0)" }
        try await Self.run(tokens) { plan in
            plan.isDoubled = true
            plan.isReversed = true
            plan.form = .old
        } _: { rig, client, id in
            try await Self.wait(client, id, ["delivered": 150])
            // Two callbacks of at most 100 statuses, each twice.
            let isThrough = await rig.sandbox.hms.wait(atMost: .seconds(30)) { $0.callbacksTaken == 4 }
            #expect(isThrough)
            let answer = try await client.get("/v1/notifications/\(id)/deliveries?limit=200")
            for item in answer.json["items"]?.arrayValue ?? [] { #expect(item["attempts"]?.arrayValue?.count == 2) }
        }
    }

    @Test(
        "Receipts that are signed wrongly, long ago or not at all change nothing",
        arguments: HMSReceiptPlan.Signature.allCases
    )
    func forged(signature: HMSReceiptPlan.Signature) async throws {
        guard signature != .right else { return }
        try await Self.run(["IQAAAACy0sampleA"]) { plan in
            plan.signature = signature
            plan.attempts = 2
            plan.retryPause = .milliseconds(10)
        } _: { rig, client, id in
            let isThrough = await rig.sandbox.hms.wait(atMost: .seconds(30)) { $0.callbacksLost == 1 }
            #expect(isThrough)
            #expect(rig.sandbox.hms.counters.callbacksTaken == 0)
            try await Self.wait(client, id, ["accepted_by_platform": 1])
        }
    }
}
