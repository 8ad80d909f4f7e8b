import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// The whole way of a device that OneSignal keeps: from an app's server over the gateway and IDPush to OneSignal.
@Suite("Devices at OneSignal through the gateway", .serialized, .timeLimit(.minutes(5)), .about("onesignal", "idpush"))
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

    /// Runs a gateway with one platform that keeps devices.
    private func run(
        _ more: String = "",
        platform: String = "idpush",
        _ body: (Bench) async throws -> Void
    ) async throws {
        try await SandboxRig.run { rig in
            try Self.configure(rig, more, platform: platform)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            try await body(Bench(simulator: rig.sandbox.oneSignal, client: client))
            await client.close()
        }
    }

    private static func configure(_ rig: SandboxRig, _ more: String = "", platform: String = "idpush") throws {
        rig.sandbox.oneSignal.rules.enforcesBudgets = false
        let others = ["campaigns", "idpush", "crm"].filter { $0 != platform }.map { "  \($0):" }
        let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            .components(separatedBy: "\n")
            .map { others.contains($0) ? $0 + "\n    register_devices: false" : $0 }
            .joined(separator: "\n")
        try text.write(toFile: rig.config, atomically: true, encoding: .utf8)
        try rig.append("queue: { first_retry: 0.2, max_retry: 1 }\n" + more)
    }

    @Test(
        "A device is registered through IDPush, gets what OneSignal sends, opts out and in, is tagged, and goes",
        .about("apns")
    )
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

    @Test(
        "Devices of several platforms each take their way, and OneSignal stands in where Firebase calls a token dead",
        .about("fcm")
    )
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

    static let wrongTags: [(String, [String])] = [
        (#"{"city":{"name":"x"}}"#, ["#/tags/city bad_tag_value"]),
        (#"{"city":["x"],"user":"y","ok":"z"}"#, ["#/tags/city bad_tag_value", "#/tags/user reserved_tag"]),
        (#"{" ":"x"}"#, ["#/tags/  bad_tag_name"]),
        ("{\"long\":\"\(String(repeating: "x", count: 1025))\"}", ["#/tags/long bad_tag_value"]),
    ]

    @Test("Wrong tags are refused by field and leave nothing; more than the plan has fail; none opts a user in")
    func tags() async throws {
        try await run { bench in
            let token = SandboxRig.token(45)
            try await bench.put(
                "/v1/devices/phone",
                #"{"user":"mina","platform":"ios","tokens":{"ios-apns":"\#(token)"}}"#,
                status: 201...201
            )
            try await bench.told("phone")
            let player = try #require(bench.player(token)?.id)
            let before = bench.simulator.counters.idPushRequests
            for (tags, errors) in Self.wrongTags {
                let body = #"{"backend":"idpush","tags":\#(tags)}"#
                let answer = try await bench.client.patch("/v1/devices/phone/tags", Array(body.utf8))
                let found = (answer.json["errors"]?.arrayValue ?? []).map {
                    "\($0["pointer"]?.stringValue ?? "") \($0["code"]?.stringValue ?? "")"
                }
                #expect(answer.status == 422 && found.sorted() == errors.sorted(), "\(answer.json.text)")
            }
            #expect(bench.simulator.counters.idPushRequests == before, "nothing was sent")

            try await bench.put("/v1/devices/phone/subscription", #"{"status":"unsubscribed","backend":"idpush"}"#)
            try await bench.told("phone")
            let good = #"{"backend":"idpush","tags":{"city":"تهران","level":7,"vip":true,"trial":null}}"#
            let answer = try await bench.client.patch("/v1/devices/phone/tags?wait=30", Array(good.utf8))
            #expect(answer.json["operations"]?.arrayValue?.first?["status"] == "done", "\(answer.json.text)")
            #expect(bench.simulator.tags(of: player) == ["city": "تهران", "level": "7", "vip": "true"])
            #expect(bench.simulator.player(player)?.notificationTypes == -2)

            bench.simulator.rules.maximumTags = 3
            let many = #"{"backend":"idpush","tags":{"one":1}}"#
            let refused = try await bench.client.patch("/v1/devices/phone/tags?wait=30", Array(many.utf8))
            let operation = refused.json["operations"]?.arrayValue?.first
            #expect(operation?["status"] == "failed", "\(refused.json.text)")
            #expect(operation?["error"]?["reason"] == "refused_by_idpush", "\(refused.json.text)")
            #expect(bench.simulator.tags(of: player).count == 3)
            #expect(bench.simulator.player(player)?.notificationTypes == -2)
        }
    }

    @Test("A phone that changes hands gets the messages of its present user, and none after a log-out")
    func changesHands() async throws {
        try await run { bench in
            let token = SandboxRig.token(46)
            try await bench.put(
                "/v1/devices/phone",
                #"{"user":"mina","platform":"ios","tokens":{"ios-apns":"\#(token)"}}"#,
                status: 201...201
            )
            try await bench.told("phone")
            let player = try #require(bench.player(token)?.id)
            for (user, alias) in [("sara", "sara"), ("anonymous", nil), ("mina", "mina")] {
                let answer = try await bench.client.post(
                    "/v1/users/\(user)/switch",
                    Array(#"{"device":"phone"}"#.utf8),
                    idempotencyKey: UUID().uuidString
                )
                #expect(answer.status == 200, "\(answer.json.text)")
                try await bench.told("phone")
                #expect(bench.simulator.aliases(of: player)["external_id"] == alias, "\(user)")
            }
            #expect(bench.simulator.players.count == 1, "it is the same subscription all the time")
        }
    }

    @Test("kill -9 before IDPush took a device: it is registered after the restart, and what was sent to it arrives")
    func killed() async throws {
        try await SandboxRig.run { rig in
            try Self.configure(rig)
            let simulator = rig.sandbox.oneSignal
            simulator.add([FaultRule(match: FaultMatch(listener: "idpush"), .answer(FaultAnswer(503)))])
            let first = try await rig.serve()
            let bench = Bench(simulator: simulator, client: try first.client())
            let tokens = (50..<60).map { SandboxRig.token($0) }
            for (number, token) in tokens.enumerated() {
                let body = #"{"platform":"ios","tokens":{"ios-apns":"\#(token)"}}"#
                try await bench.put("/v1/devices/phone-\(number)", body, status: 201...201)
            }
            let devices = (0..<10).map { #""phone-\#($0)""# }.joined(separator: ",")
            let message = #"{"to":{"devices":[\#(devices)]},"content":{"title":"Order 43"},"backend":"idpush"}"#
            let answer = try await bench.client.post(
                "/v1/notifications",
                Array(message.utf8),
                idempotencyKey: UUID().uuidString
            )
            #expect(answer.status == 202)
            _ = try await Program.wait("a try at IDPush") { simulator.counters.idPushRequests > 0 ? true : nil }
            await bench.client.close()
            first.child.kill()
            _ = try await first.child.end()
            #expect(simulator.players.isEmpty)

            simulator.removeFaults()
            let second = try await rig.serve()
            defer { second.child.kill() }
            _ = try await Program.wait("ten messages", within: .seconds(120)) {
                simulator.counters.delivered >= 10 ? true : nil
            }
            #expect(Set(simulator.players.map(\.token)) == Set(tokens))
            #expect(simulator.players.allSatisfy { $0.received == ["Order 43"] }, "each once")
        }
    }

    @Test("OneSignal itself keeps devices as well: registered, sent to, unsubscribed, deleted")
    func withoutIDPush() async throws {
        try await run(platform: "campaigns") { bench in
            let token = SandboxRig.token(47)
            try await bench.put(
                "/v1/devices/phone",
                #"{"user":"mina","platform":"ios","tags":["city:tehran"],"tokens":{"ios-apns":"\#(token)"}}"#,
                status: 201...201
            )
            let campaigns = #""backend":"campaigns""#
            let items = try await bench.send(#"{"devices":["phone"]}"#, campaigns)
            #expect(items[0]["state"] == "accepted_by_platform", "\(items)")
            try await bench.told("phone")
            let player = try #require(bench.player(token))
            #expect(player.received == ["Order 42"] && player.project != bench.simulator.rules.projectID)
            #expect(bench.simulator.tags(of: player.id) == ["city": "tehran"])
            let byUser = try await bench.send(#"{"users":["mina"]}"#, campaigns)
            #expect(byUser[0]["state"] == "accepted_by_platform", "\(byUser)")
            #expect(bench.simulator.counters.idPushRequests == 0)

            try await bench.put(
                "/v1/devices/phone/subscription",
                #"{"status":"unsubscribed","backend":"campaigns"}"#
            )
            try await bench.told("phone")
            #expect(bench.simulator.player(player.id)?.notificationTypes == -31)
            let refused = try await bench.send(#"{"devices":["phone"]}"#, campaigns)
            #expect(refused[0]["attempts"]?.arrayValue?.last?["reason"] == "unsubscribed")

            #expect(try await bench.client.delete("/v1/devices/phone").status < 300)
            _ = try await Program.wait("the removal") { bench.player(token) == nil ? true : nil }
        }
    }

    @Test("Who turned messages off and on again on the phone comes back with the app's next registration")
    func comesBack() async throws {
        try await run { bench in
            func register(_ number: Int, _ status: ClosedRange<Int>) async throws {
                let body = #"{"platform":"ios","tokens":{"ios-apns":"\#(SandboxRig.token(60 + number))"}}"#
                try await bench.put("/v1/devices/phone-\(number)", body, status: status)
            }
            for number in 0..<4 { try await register(number, 201...201) }
            for number in 0..<4 { try await bench.told("phone-\(number)") }
            let player = try #require(bench.player(SandboxRig.token(61))?.id)
            bench.simulator.setSubscribed(false, player)
            let everybody = #"{"devices":["phone-0","phone-1","phone-2","phone-3"]}"#
            let refused = try await bench.send(everybody)
            #expect(refused.count { $0["state"] == "failed" } == 1, "\(refused)")

            bench.simulator.setSubscribed(true, player)
            let before = bench.simulator.counters
            let still = try await bench.send(#"{"devices":["phone-1"]}"#)
            #expect(still[0]["attempts"]?.arrayValue?.last?["reason"] == "unsubscribed", "nobody has said otherwise")
            try await register(1, 200...200)
            try await bench.told("phone-1")
            let back = try await bench.send(#"{"devices":["phone-1"]}"#)
            #expect(back[0]["state"] == "accepted_by_platform", "\(back)")
            #expect(bench.simulator.counters.idPushRequests == before.idPushRequests, "nobody was opted in")
        }
    }
}
