import Foundation
import PushCore
import PushSandbox
import Testing

@testable import chapar

/// The whole way of a device that OneSignal keeps: from an app's server over the gateway and IDPush to OneSignal.
@Suite("Devices at OneSignal through the gateway", .serialized, .timeLimit(.minutes(5)))
struct OneSignalDevicesTests {
    private struct Bench {
        let simulator: OneSignalSimulator
        let client: GatewayClient

        func send(_ audience: String, _ more: String = #""backend":"idpush""#) async throws -> [JSONValue] {
            let body = #"{"to":\#(audience),"content":{"title":"Order 42"},\#(more)}"#
            let answer = try await client.post("/v1/notifications", Array(body.utf8), idempotencyKey: UUID().uuidString)
            #expect(answer.status == 202, "\(answer.json.text)")
            let id = try #require(answer.json["id"]?.stringValue)
            return try await Program.wait("the deliveries") {
                let items = try await client.get("/v1/notifications/\(id)/deliveries").json["items"]?.arrayValue ?? []
                let states = items.compactMap { DeliveryState(rawValue: $0["state"]?.stringValue ?? "") }
                return !items.isEmpty && states.allSatisfy(\.isFinal) ? items : nil
            }
        }

        func put(_ path: String, _ body: String, status: ClosedRange<Int> = 200...202) async throws {
            let answer = try await client.put(path, Array(body.utf8))
            #expect(status.contains(answer.status), "\(answer.json.text)")
        }

        /// Waits until the platform has been told everything about a device.
        func told(_ device: String) async throws {
            _ = try await Program.wait("what \(device) waits for") {
                let items = try await client.get("/v1/devices/\(device)/operations").json["items"]?.arrayValue
                return items?.isEmpty == true ? true : nil
            }
        }

        func player(_ token: String) -> OneSignalPlayer? { simulator.players.first { $0.token == token } }
    }

    /// Runs a gateway with IDPush as the one platform that keeps devices.
    private func run(_ more: String = "", _ body: (Bench) async throws -> Void) async throws {
        try await SandboxRig.run { rig in
            rig.sandbox.oneSignal.rules.enforcesBudgets = false
            let others = ["campaigns", "crm"].map { "  \($0):" }
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
                .components(separatedBy: "\n")
                .map { others.contains($0) ? $0 + "\n    register_devices: false" : $0 }
                .joined(separator: "\n")
            try text.write(toFile: rig.config, atomically: true, encoding: .utf8)
            try rig.append("queue: { first_retry: 0.2, max_retry: 1 }\n" + more)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            try await body(Bench(simulator: rig.sandbox.oneSignal, client: client))
            await client.close()
        }
    }

    @Test("A device is registered through IDPush, gets what OneSignal sends, opts out and in, is tagged, and goes")
    func life() async throws {
        try await run { bench in
            let token = SandboxRig.token(42)
            try await bench.put(
                "/v1/devices/phone",
                #"{"user":"mina","platform":"ios","locale":"fa-IR","app_version":"3.4.1","tags":["city:tehran","vip"],"#
                    + #""tokens":{"ios-apns":"\#(token)"}}"#,
                status: 201...201
            )
            try await bench.told("phone")
            let player = try #require(bench.player(token))
            #expect(player.project == bench.simulator.rules.projectID && player.isSubscribed)
            #expect(player.fields["language"] == "fa" && player.fields["game_version"] == "3.4.1")
            #expect(bench.simulator.aliases(of: player.id) == ["external_id": "mina"])
            #expect(bench.simulator.tags(of: player.id) == ["city": "tehran", "vip": "1"])

            let first = try await bench.send(#"{"devices":["phone"]}"#)
            #expect(first[0]["state"] == "accepted_by_platform", "\(first)")
            #expect(bench.simulator.player(player.id)?.received == ["Order 42"])
            let request = bench.simulator.messages[0].request
            #expect(request["include_subscription_ids"] == [.string(player.id)])
            let byID = try await bench.send(#"{"platform_ids":["\#(player.id)"]}"#)
            #expect(byID[0]["state"] == "accepted_by_platform", "\(byID)")

            try await bench.put("/v1/devices/phone/subscription", #"{"status":"unsubscribed","backend":"idpush"}"#)
            try await bench.told("phone")
            #expect(bench.simulator.player(player.id)?.notificationTypes == -2)
            let refused = try await bench.send(#"{"devices":["phone"]}"#)
            #expect(refused[0]["state"] == "failed")
            #expect(refused[0]["attempts"]?.arrayValue?.last?["reason"] == "unsubscribed")
            let apple = try await bench.send(#"{"users":["mina"]}"#, #""backend":"ios""#)
            #expect(apple[0]["state"] == "accepted_by_platform", "Apple is not affected")
            try await bench.put("/v1/devices/phone/subscription", #"{"status":"subscribed","backend":"idpush"}"#)
            try await bench.told("phone")
            let back = try await bench.send(#"{"devices":["phone"]}"#)
            #expect(back[0]["state"] == "accepted_by_platform")

            try await bench.put(
                "/v1/devices/phone",
                #"{"user":"sara","platform":"ios","tags":["city:shiraz"],"tokens":{"ios-apns":"\#(token)"}}"#
            )
            try await bench.told("phone")
            #expect(bench.simulator.aliases(of: player.id) == ["external_id": "sara"])
            #expect(bench.simulator.tags(of: player.id) == ["city": "shiraz"])

            #expect(try await bench.client.delete("/v1/devices/phone").status < 300)
            _ = try await Program.wait("the removal") {
                bench.simulator.player(player.id)?.isSubscribed == false ? true : nil
            }
        }
    }

    @Test("A message to a device that IDPush is about to be told of waits for that")
    func waitsForRegistration() async throws {
        try await run { bench in
            bench.simulator.add([FaultRule(match: FaultMatch(listener: "idpush", count: 1), .answer(FaultAnswer(503)))])
            let token = SandboxRig.token(43)
            try await bench.put(
                "/v1/devices/phone",
                #"{"platform":"ios","tokens":{"ios-apns":"\#(token)"}}"#,
                status: 201...201
            )
            let items = try await bench.send(#"{"devices":["phone"]}"#)
            #expect(items[0]["state"] == "accepted_by_platform", "\(items)")
            #expect(bench.player(token)?.received == ["Order 42"])
        }
    }

    @Test("Devices of several platforms each take their way, and OneSignal stands in where Firebase calls a token dead")
    func mixed() async throws {
        let routes = "routes:\n  - name: all\n    use: { fallback: [android, idpush], on_unknown: retry }\n"
        try await run(routes) { bench in
            let apple = SandboxRig.token(44)
            let devices: [(String, String)] = [
                ("a", #"{"platform":"android","tokens":{"android-firebase":"alive-1"}}"#),
                ("b", #"{"platform":"ios","tokens":{"ios-firebase":"sim-unregistered-1","ios-apns":"\#(apple)"}}"#),
                ("c", #"{"platform":"android","tokens":{"android-huawei":"cd34"}}"#),
            ]
            for (id, body) in devices {
                try await bench.put("/v1/devices/\(id)", body, status: 201...201)
                try await bench.told(id)
            }
            #expect(Set(bench.simulator.players.map(\.type)) == ["AndroidPush", "iOSPush", "HuaweiPush"])
            let items = try await bench.send(#"{"devices":["a","b","c"]}"#, #""route":"all""#)
            let ways = items.map { item in
                (item["attempts"]?.arrayValue ?? []).compactMap { $0["backend"]?.stringValue }
            }
            #expect(items.allSatisfy { $0["state"] == "accepted_by_platform" }, "\(items)")
            #expect(Set(ways) == [["android"], ["android", "idpush"], ["idpush"]])
        }
    }
}
