import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparCommands

/// Two apps whose devices are of both environments, some of which have moved to another service, over real sockets.
@Suite("A mixed fleet of two apps", .timeLimit(.minutes(2)), .about("apns", "fcm"))
struct MixedFleetTests {
    private static let apps = ["shop": Sandbox.topic, "forum": "com.example.forum"]
    private static let devices = 100

    /// Of a hundred devices thirty are development ones, and ten have moved from Apple to Firebase.
    private static func register(
        _ app: String,
        _ topic: String,
        _ rig: SandboxRig,
        _ client: GatewayClient,
        movesSome: Bool = true
    ) async throws {
        var body: [JSONValue] = []
        var moved: [String] = []
        for number in 0..<devices {
            let token = SandboxRig.token(number, prefix: app == "shop" ? "aa" : "bb")
            var tokens: JSONObject = ["ios-apns": .string(token)]
            let isDevelopment = number < 30
            rig.sandbox.apns.register(
                tokens: [token],
                topic: topic,
                environment: isDevelopment ? .development : .production
            )
            if movesSome, (30..<40).contains(number) {
                moved.append(token)
                tokens["ios-firebase"] = .string("\(app)-moved-\(number):APA91bHun4MxP5")
            }
            body.append(["id": .string("d\(number)"), "app": .string(app), "tokens": .object(tokens)])
        }
        let request: JSONValue = ["devices": .array(body)]
        let answer = try await client.post("/v1/devices/batch", request.bytes, idempotencyKey: UUID().uuidString)
        #expect(answer.json["created"]?.integerValue == Int64(devices), "\(answer.problem)")
        for token in moved { rig.sandbox.apns.unregister(token: token) }
    }

    /// Sends one message to every device of every app; gives how many attempts the platforms saw.
    private static func round(_ rig: SandboxRig, _ client: GatewayClient) async throws -> Int {
        let before = attempts(rig)
        for app in apps.keys.sorted() { try await send(to: app, client) }
        return attempts(rig) - before
    }

    /// Sends one message to every device of an app and waits until all have it.
    private static func send(to app: String, _ client: GatewayClient) async throws {
        let ids = (0..<devices).map { JSONValue.string("d\($0)") }
        let request: JSONValue = [
            "app": .string(app), "to": ["devices": .array(ids)], "content": ["title": "Hello"],
        ]
        let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: UUID().uuidString)
        let id = try #require(answer.json["id"]?.stringValue, "\(answer.problem)")
        let counts = try await Program.wait("the deliveries") { () -> JSONValue? in
            let counts = try await client.get("/v1/notifications/\(id)").json["counts"]
            let ended = (counts?.objectValue ?? JSONObject()).filter { state, _ in
                DeliveryState(rawValue: state)?.isFinal ?? false
            }
            return ended.reduce(0) { $0 + ($1.value.integerValue ?? 0) } == Int64(devices) ? counts : nil
        }
        #expect(counts["accepted_by_platform"]?.integerValue == Int64(devices), "\(app): \(counts.text)")
    }

    /// Waits until what the platforms said of an app's tokens is written, a moment after the deliveries.
    ///
    /// The backend of the other environment refused thirty; ten have moved.
    private static func waitForRefusals(of app: String, _ client: GatewayClient) async throws {
        try await eventually("the refusals of \(app) are written", every: .milliseconds(50)) {
            let page = try await client.get("/v1/devices?app=\(app)&limit=\(devices)").json
            let refused = (page["items"]?.arrayValue ?? []).filter { device in
                let token = device["tokens"]?["ios-apns"]
                return (token?["refused_by"] ?? token?["tombstone"])?.objectValue != nil
            }
            return refused.count == 40
        }
    }

    private static func attempts(_ rig: SandboxRig) -> Int {
        rig.sandbox.apns.counters.requests + rig.sandbox.fcm.counters.sends
    }

    @Test("All arrive; the second round knows the way, also after a restart")
    func rounds() async throws {
        var configuration = Sandbox.Configuration()
        configuration.apns.rules.acceptsAnyToken = false
        configuration.apns.rules.honoursMagicTokens = false
        try await SandboxRig.run(configuration) { rig in
            let old = try String(contentsOfFile: rig.config, encoding: .utf8)
            let start = try #require(old.range(of: "backends:\n"))
            let end = try #require(old.range(of: "  android:\n"))
            let ios = String(old[start.upperBound..<end.lowerBound])
            let next = try #require(old.range(of: "  huawei:\n"))
            let android = String(old[end.lowerBound..<next.lowerBound])
            var text = String(old[..<start.lowerBound]) + "apps: { shop: {}, forum: {} }\nbackends:\n"
            for (app, topic) in Self.apps.sorted(by: { $0.key < $1.key }) {
                let own = ios.replacing(Sandbox.topic, with: topic).replacing(
                    "    kind:",
                    with: "    app: \(app)\n    kind:"
                )
                text += own.replacing("  ios:", with: "  \(app)-ios:")
                text += own.replacing("  ios:", with: "  \(app)-ios-dev:")
                    .replacing("environment: production", with: "environment: development")
                    .replacing(rig.sandbox.apns.url(.production), with: rig.sandbox.apns.url(.development))
                text += android.replacing("  android:", with: "  \(app)-android:")
                    .replacing("    kind:", with: "    app: \(app)\n    kind:")
            }
            try text.write(toFile: rig.config, atomically: true, encoding: .utf8)

            let gateway = try await rig.serve()
            let client = try gateway.client()
            for (app, topic) in Self.apps { try await Self.register(app, topic, rig, client) }
            let deliveries = Self.devices * Self.apps.count
            let first = try await Self.round(rig, client)
            #expect(Double(first) <= 1.40 * Double(deliveries), "\(first) attempts for \(deliveries) deliveries")
            for app in Self.apps.keys { try await Self.waitForRefusals(of: app, client) }
            let second = try await Self.round(rig, client)
            #expect(Double(second) <= 1.01 * Double(deliveries), "\(second) attempts for \(deliveries) deliveries")
            await client.close()
            gateway.child.kill()

            let restarted = try await rig.serve()
            defer { restarted.child.kill() }
            let other = try restarted.client()
            let third = try await Self.round(rig, other)
            #expect(Double(third) <= 1.01 * Double(deliveries), "\(third) attempts for \(deliveries) deliveries")
            let device = try await other.get("/v1/devices/d0?app=forum").json
            #expect(device["tokens"]?["ios-apns"]?["alive"] == true)
            #expect(device["tokens"]?["ios-apns"]?["refused_by"]?["forum-ios"]?["reason"] == "BadDeviceToken")
            await other.close()
        }
    }

    @Test("The documented sample of two apps reaches the devices of both environments, each with its app's key")
    func documentedSample() async throws {
        var configuration = Sandbox.Configuration()
        configuration.apns.rules.acceptsAnyToken = false
        configuration.apns.rules.honoursMagicTokens = false
        try await SandboxRig.run(configuration) { rig in
            let blocks = try Page("docs/Configuration.md").blocks
            var sample = try #require(blocks.first { $0.info == "yaml check" && $0.text.contains("shop-dev:") }).text
            // The sandbox's key and addresses in the place of the sample's.
            let settings = try String(contentsOfFile: rig.config, encoding: .utf8).split(separator: "\n")
            func setting(_ name: String) throws -> String {
                let line = try #require(settings.first { $0.hasPrefix("    \(name): ") })
                return String(line.dropFirst(name.count + 6))
            }
            let (production, development) = (rig.sandbox.apns.url(.production), rig.sandbox.apns.url(.development))
            let identity = try ["team_id", "key_id", "key_file", "ca_file"].map { "\($0): \(try setting($0))" }
            sample.replace(
                "team_id: ABCDE12345, key_id: FGHIJ67890, key_file: AuthKey.p8",
                with: identity.joined(separator: ", ")
            )
            let lines = sample.split(separator: "\n").map { line in
                guard line.contains("kind: apns") else { return String(line) }
                let url = line.contains("environment: development") ? development : production
                return String(line).replacing(" }", with: ", base_url: \"\(url)\" }")
            }
            sample = lines.joined(separator: "\n")
            var keys: [String: Secret] = [:]
            for (app, hash) in [("shop", "5a4d50cb"), ("forum", "6c1f0a3a")] {
                let made = NewAPIKey()
                let old = try #require(sample.firstMatch(of: try Regex("sha256:\(hash)[0-9a-f]*")))
                sample.replaceSubrange(old.range, with: made.hash)
                keys[app] = made.key
            }
            let head = "server: { port: 0 }\nstore: { path: sample.db }\n"
            try (head + sample).write(toFile: rig.config, atomically: true, encoding: .utf8)

            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            for (app, topic) in ["shop": "com.example.shop", "forum": "com.example.forum"] {
                let client = try gateway.client(key: keys[app])
                try await Self.register(app, topic, rig, client, movesSome: false)
                try await Self.send(to: app, client)
                await client.close()
            }
            #expect(rig.sandbox.apns.inbox.count == 2 * Self.devices)
        }
    }
}
