import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// The whole way of a device whose subscription Altcraft keeps: from an app's server over the gateway to the platform.
@Suite("Devices at Altcraft through the gateway", .serialized, .timeLimit(.minutes(5)), .about("altcraft"))
struct AltcraftDevicesTests {
    /// How the sandbox's configuration finds the profile of the user `ada`, and that of the device without a user.
    private static let (ada, nobody) = ("custom user_id/ada", "custom device_id/phone")

    private struct Bench {
        let rig: SandboxRig
        let client: GatewayClient
        let child: Child
        let url: String

        var simulator: AltcraftSimulator { rig.sandbox.altcraft }

        @discardableResult
        func put(_ path: String, _ body: String, status: Int) async throws -> JSONValue {
            let answer = try await client.put(path, Array(body.utf8))
            #expect(answer.status == status, "\(path): \(answer.json.text)")
            return answer.json
        }

        @discardableResult
        func post(_ path: String, _ body: String, status: Int) async throws -> JSONValue {
            let answer = try await client.post(path, Array(body.utf8), idempotencyKey: UUID().uuidString)
            #expect(answer.status == status, "\(path): \(answer.json.text)")
            return answer.json
        }

        /// Returns the result of the one operation of a call that waited.
        func subscribe(_ status: String, _ options: String = "{}") async throws -> JSONValue {
            let body = #"{"status":"\#(status)","backend":"crm","options":\#(options)}"#
            let answer = try await put("/v1/devices/phone/subscription?wait=30", body, status: 200)
            return try #require(answer["operations"]?.arrayValue?.first)
        }

        /// Gives the phone to a user; how Altcraft took it.
        func switchUser(_ user: String) async throws -> JSONValue {
            let body = #"{"device":"phone","options":{"custom_fields":{"plan":"gold"}}}"#
            let answer = try await post("/v1/users/\(user)/switch", body, status: 200)
            try await told("phone")
            return try #require(answer["backends"]?.arrayValue?.first { $0["backend"] == "crm" })
        }

        /// Waits until nothing waits to be told about a device.
        func told(_ device: String) async throws {
            _ = try await Program.wait("what \(device) waits for") {
                let items = try await client.get("/v1/devices/\(device)/operations").json["items"]?.arrayValue
                return items?.isEmpty == true ? true : nil
            }
        }

        func status(of key: String, in database: Int64) -> String? {
            simulator.profile(key, in: database)?.subscriptions.first?.status
        }

        /// Returns the notices of Altcraft's backend on the stream of events, once there are `count`.
        func notices(_ count: Int) async throws -> [JSONValue] {
            let output = rig.folder.appending(path: "events")
            try Data().write(to: output)
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/curl")
            process.arguments = [
                "-sN", "--noproxy", "*", "--max-time", "40", url + "/v1/events?last=1000&types=backend.notice",
            ]
            process.standardOutput = try FileHandle(forWritingTo: output)
            try process.run()
            defer { process.terminate() }
            return try await Program.wait("\(count) notices") {
                let lines = String(decoding: try Data(contentsOf: output), as: UTF8.self).split(separator: "\n")
                let found = lines.filter { $0.hasPrefix("data: ") }.compactMap {
                    try? JSONValue(parsing: Array($0.dropFirst(6).utf8))
                }
                return found.count >= count ? found.filter { $0["backend"] == "crm" } : nil
            }
        }
    }

    /// Runs a gateway with Altcraft as the one platform that is told about devices.
    private func run(_ keys: String = "", _ body: (Bench) async throws -> Void) async throws {
        try await SandboxRig.run { rig in
            try Self.configure(rig, keys)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            try await body(Bench(rig: rig, client: client, child: gateway.child, url: gateway.url))
            await client.close()
        }
    }

    /// Adds keys to the backend `crm`, and leaves devices out of the others'.
    private static func configure(_ rig: SandboxRig, _ keys: String) throws {
        let others = ["campaigns", "idpush"].map { "  \($0):" }
        let more = keys.isEmpty ? "" : "\n    \(keys)"
        let text = try String(contentsOfFile: rig.config, encoding: .utf8).components(separatedBy: "\n")
            .filter { !$0.contains("register_devices:") }
            .map { others.contains($0) ? $0 + "\n    register_devices: false" : $0 == "  crm:" ? $0 + more : $0 }
            .joined(separator: "\n")
        try text.write(toFile: rig.config, atomically: true, encoding: .utf8)
    }

    /// A phone as its app's server registers it; no user is logged in.
    private static func phone(_ tokens: String = #""ios-apns":"\#(SandboxRig.token(1))""#) -> String {
        #"{"platform":"ios","locale":"ru-RU","time_zone":"Europe/Moscow","app_version":"1.4.0","#
            + #""attributes":{"os_version":"18.6.2","model":"iPhone14,7","ad_track":false},"tokens":{\#(tokens)}}"#
    }

    @Test("Log-in and log-out: two databases, two identities, the subscription goes with the user and comes back")
    func story() async throws {
        try await run { bench in
            try await bench.put("/v1/devices/phone", Self.phone(), status: 201)
            try await bench.told("phone")
            #expect(bench.simulator.counters.requests == 0, "a device that never subscribed is nothing to Altcraft")

            let first = try await bench.subscribe(
                "subscribed",
                #"{"profile_fields":{"bonus":{"action":"incr","value":50}},"custom_fields":{"plan":"gold"},"#
                    + #""cats":[{"name":"sport","active":true}]}"#
            )
            #expect(first["status"] == "done" && first["detail"]?["http_code"] == 200, "\(first)")
            let anonymous = try #require(bench.simulator.profile(Self.nobody, in: 11))
            let fields = try #require(anonymous.subscriptions.first?.fields)
            #expect(fields["_os_ver"] == "18.6.2" && fields["_os_tz"] == "+0300" && fields["_os_language"] == "ru")
            #expect(fields["_device_model"] == "iPhone14,7" && fields["_app_ver"] == "1.4.0")
            #expect(fields["_device_name"] == nil, "what the app does not report is not made up")
            #expect(fields["plan"] == "gold" && anonymous.fields["bonus"] == 50)

            let login = try await bench.switchUser("ada")
            #expect(login["status"] == .null && login["subscribing"] == true, "ada has no subscription yet: \(login)")
            #expect(bench.status(of: Self.ada, in: 12) == "subscribed")
            #expect(bench.status(of: Self.nobody, in: 11) == "suspended")
            #expect(bench.simulator.profile(Self.ada, in: 12)?.subscriptions.first?.fields["plan"] == "gold")

            let logout = try await bench.switchUser("anonymous")
            #expect(logout["status"] == "subscribed" && logout["subscribing"] == false)
            #expect(bench.status(of: Self.ada, in: 12) == "suspended")
            #expect(bench.status(of: Self.nobody, in: 11) == "subscribed")

            let again = try await bench.switchUser("ada")
            #expect(again["status"] == "subscribed" && again["subscribing"] == false)
            #expect(bench.simulator.profiles.count == 2)
            for (query, expected) in [
                ("current", "subscribed"), ("latest", "subscribed"), ("latest&service=ios-apns", "subscribed"),
                ("latest&service=ios-firebase", nil),
            ] {
                let path = "/v1/devices/phone/subscription?backend=crm&query=\(query)"
                let answer = try await bench.client.get(path)
                #expect(answer.json["status"]?.stringValue == expected, "\(query): \(answer.json.text)")
            }

            bench.simulator.add([FaultRule(.answer(FaultAnswer(503, "busy")))])
            let failed = try await bench.switchUser("anonymous")
            #expect(failed["error"]?["reason"] == "433", "asked once, and the caller decides: \(failed)")
        }
    }

    @Test("A subscription that the platform takes only after the log-out does not undo the log-out")
    func late() async throws {
        try await run { bench in
            try await bench.put("/v1/devices/phone", Self.phone(), status: 201)
            #expect(try await bench.subscribe("subscribed")["status"] == "done")
            let path = "/subscription/push/subscribe/"
            bench.simulator.add([FaultRule(match: FaultMatch(pathPrefix: path), .answer(FaultAnswer(503)))])
            for user in ["ada", "anonymous"] {
                try await bench.post("/v1/users/\(user)/switch", #"{"device":"phone"}"#, status: 200)
            }
            bench.simulator.removeFaults()
            try await bench.told("phone")
            #expect(bench.status(of: Self.ada, in: 12) == "suspended")
            #expect(bench.status(of: Self.nobody, in: 11) == "subscribed")
            #expect(try await bench.switchUser("ada")["status"] == "subscribed", "and it is there for the next log-in")
        }
    }

    @Test(
        "A phone's reports of a raw push with the marker reach Altcraft once; each step is an event",
        .about("apns")
    )
    func events() async throws {
        try await run("profile_update: true") { bench in
            try await bench.put("/v1/devices/phone", Self.phone(), status: 201)
            #expect(try await bench.subscribe("subscribed")["status"] == "done")
            _ = try await bench.switchUser("ada")
            let message =
                #"{"to":{"devices":["phone"]},"backend":"ios","content":{"title":"Order 42","#
                + #""data":{"_ac_push":true,"_uid":"m-7f31c0","_click-url":"shop://orders/42"}}}"#
            try await bench.post("/v1/notifications", message, status: 202)
            let pushed = try await Program.wait("the push") { bench.rig.sandbox.apns.inbox.first?.payload }
            let payload = String(decoding: pushed, as: UTF8.self)
            for event in ["delivered", "delivered", "opened"] {
                let body = #"{"event":"\#(event)","at":"2026-01-05T10:00:00Z","payload":\#(payload)}"#
                try await bench.post("/v1/devices/phone/events", body, status: 202)
            }
            try await bench.told("phone")
            let kept = bench.simulator.events
            #expect(kept.map(\.type) == ["delivery", "open"] && kept.allSatisfy { $0.smid == "m-7f31c0" })
            #expect(kept.map(\.count) == [1, 1] && kept.map(\.time) == [1_767_607_200, 1_767_607_200])

            let tags = #"{"backend":"crm","tags":{"bonus":{"action":"incr","value":5},"city":"Kazan"}}"#
            let edited = try await bench.client.patch("/v1/devices/phone/tags?wait=30", Array(tags.utf8))
            #expect(edited.status == 200, "\(edited.json.text)")
            let profile = try #require(bench.simulator.profile(Self.ada, in: 12))
            #expect(profile.fields == ["bonus": 5, "city": "Kazan"])

            // Altcraft's own push is a campaign, started for a user or a profile.
            for audience in [#"{"users":["ada"]}"#, #"{"platform_ids":["\#(profile.id)"]}"#] {
                let body = #"{"to":\#(audience),"backend":"crm","content":{"title":"Sale"}}"#
                try await bench.post("/v1/notifications", body, status: 202)
            }
            _ = try await Program.wait("the campaigns") { bench.simulator.launches.count == 2 ? true : nil }
            #expect(bench.simulator.launches.map(\.reached) == [1, 1])

            let notices = try await bench.notices(7)
            let codes = notices.compactMap { $0["detail"]?["code"]?.integerValue }
            #expect(codes == [201, 230, 233, 230, 232, 232, 238], "\(notices)")
            #expect(notices.allSatisfy { $0["device"] == "phone" && !$0.text.contains(SandboxRig.token(1)) })
        }
    }

    @Test("A new token, another order at a reload, a clearing and a removal each reach the subscription as they should")
    func tokens() async throws {
        try await run("provider_priority: [ios-apns, ios-firebase]") { bench in
            let both = #""ios-apns":"\#(SandboxRig.token(2))","ios-firebase":"fcm-41d0-of-the-phone""#
            try await bench.put("/v1/devices/phone", Self.phone(), status: 201)
            #expect(try await bench.subscribe("subscribed")["status"] == "done")
            func subscription() -> AltcraftSubscription? {
                bench.simulator.profile(Self.nobody, in: 11)?.subscriptions.first
            }
            try await bench.put("/v1/devices/phone", Self.phone(both), status: 200)
            try await bench.told("phone")
            #expect(subscription()?.token == SandboxRig.token(2))

            let text = try String(contentsOfFile: bench.rig.config, encoding: .utf8)
            try text.replacing("[ios-apns, ios-firebase]", with: "[ios-firebase, ios-apns]")
                .write(toFile: bench.rig.config, atomically: true, encoding: .utf8)
            bench.child.send(SIGHUP)
            _ = try await Program.wait("the other service") { subscription()?.provider == "ios-firebase" ? true : nil }
            #expect(subscription()?.token == "fcm-41d0-of-the-phone" && subscription()?.status == "subscribed")
            try await bench.told("phone")

            let requests = bench.simulator.counters.requests
            let cleared = try await bench.post("/v1/backends/crm/clear", #"{"device":"phone"}"#, status: 200)
            #expect(cleared["removed"] == 0)
            #expect(bench.simulator.counters.requests == requests, "Altcraft is told nothing")
            try await bench.put("/v1/devices/phone", Self.phone(), status: 200)
            try await bench.told("phone")
            #expect(bench.simulator.counters.requests == requests, "what was cleared is not moved")

            #expect(try await bench.subscribe("subscribed")["status"] == "done")
            #expect(try await bench.client.delete("/v1/devices/phone").status == 204)
            _ = try await Program.wait("the removal") {
                let all = bench.simulator.profile(Self.nobody, in: 11)?.subscriptions ?? []
                return all.first { $0.token == SandboxRig.token(1) }?.status == "suspended" ? true : nil
            }
        }
    }

    static let wrong: [(options: String, errors: [String])] = [
        (#"{"custom_fields":{"a":{"b":1}}}"#, ["#/options/custom_fields/a not_primitive"]),
        (#"{"custom_fields":[],"sync":"yes"}"#, ["#/options/custom_fields wrong_type", "#/options/sync wrong_type"]),
        (#"{"cats":[{"name":" "}]}"#, ["#/options/cats/0/name invalid_category"]),
        (
            #"{"profile_fields":{"bonus":{"action":"incr","value":"x"}}}"#,
            ["#/options/profile_fields/bonus invalid_field"]
        ),
        (#"{"replce":true}"#, ["#/options/replce unknown_field"]),
    ]

    @Test("A wrong request is refused by field and leaves nothing; what only the platform knows fails in its words")
    func refusals() async throws {
        try await run { bench in
            try await bench.put("/v1/devices/phone", Self.phone(), status: 201)
            try await bench.told("phone")
            for (options, errors) in Self.wrong {
                let body = #"{"status":"subscribed","backend":"crm","options":\#(options)}"#
                let answer = try await bench.put("/v1/devices/phone/subscription", body, status: 422)
                let found = (answer["errors"]?.arrayValue ?? []).map {
                    "\($0["pointer"]?.stringValue ?? "") \($0["code"]?.stringValue ?? "")"
                }
                for error in errors { #expect(found.contains { $0.hasPrefix(error) }, "\(options): \(found)") }
                #expect(found.count == errors.count, "\(options): \(found)")
            }
            let waiting = try await bench.client.get("/v1/devices/phone/operations")
            #expect(waiting.json["items"] == [] && bench.simulator.counters.requests == 0)

            let unknown = try await bench.subscribe("subscribed", #"{"cats":[{"name":"chess"}]}"#)
            #expect(unknown["status"] == "failed" && unknown["error"]?["reason"] == "430", "\(unknown)")
            #expect(unknown["error"]?["message"]?.stringValue?.contains("category not found in resource") ?? false)
            #expect(bench.simulator.profiles.isEmpty && bench.simulator.counters.requests == 1, "never repeated")
        }
    }

    @Test("kill -9 between a 503 and its repeat: everything is told, in order, under the first request's id")
    func killed() async throws {
        try await SandboxRig.run { rig in
            try Self.configure(rig, "")
            let simulator = rig.sandbox.altcraft
            let first = try await rig.serve()
            let client = try first.client()
            let names = (1...12).map { "phone-\($0)" }
            for (number, name) in names.enumerated() {
                let body: JSONValue = ["tokens": ["ios-apns": .string(SandboxRig.token(number, prefix: "ac"))]]
                #expect(try await client.put("/v1/devices/\(name)", body.bytes).status == 201)
            }
            simulator.add([FaultRule(.answer(FaultAnswer(503, "unavailable")))])
            var ids: [String] = []
            for status in ["subscribed", "suspended"] {
                for name in names {
                    let body: JSONValue = ["status": .string(status), "backend": "crm"]
                    let answer = try await client.put("/v1/devices/\(name)/subscription", body.bytes)
                    #expect(answer.status == 202)
                    ids.append(try #require(answer.json["operations"]?.arrayValue?.first?["id"]?.stringValue))
                }
            }
            try await Program.wait("a try of each device's first") {
                ids.prefix(names.count).allSatisfy { simulator.requestIDs[$0] != nil } ? true : nil
            }
            await client.close()
            first.child.kill()
            _ = try await first.child.end()
            #expect(simulator.profiles.isEmpty)
            let before = simulator.requestIDs

            simulator.removeFaults()
            let second = try await rig.serve()
            defer { second.child.kill() }
            try await Program.wait("the end of all operations", within: .seconds(120)) {
                simulator.profiles.count(where: { $0.subscriptions.first?.status == "suspended" }) == names.count
                    ? true : nil
            }
            for id in ids { #expect(simulator.requestIDs[id, default: 0] > before[id, default: 0], "\(id) was lost") }
            for id in ids.suffix(names.count) {
                #expect(before[id] == nil, "what comes after an operation of the same device waits for it")
            }
        }
    }
}
