import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// Rows of the checklist in specs/webpush.md that need a whole gateway.
@Suite("Web Push through the program", .timeLimit(.minutes(2)), .about("webpush"))
struct WebPushProgramTests {
    /// A changed subscription, and the words of its refusal.
    private static let mistakes: [(endpoint: String?, key: String, value: String, words: String)] = [
        (nil, "p256dh", String(repeating: "B", count: 87), "no point of the curve"),
        (nil, "p256dh", String(repeating: "B", count: 86), "64 octets"),
        (nil, "auth", String(repeating: "A", count: 20), "15 octets"),
        ("http://fcm.googleapis.com/hidden", "", "", "does not begin with https://"),
        ("https://fcm.googleapis.com:8443/hidden", "", "", "the port 8443"),
        ("https://10.0.0.1/hidden", "", "", "an address in the place"),
        ("https://user@fcm.googleapis.com/hidden", "", "", "has a user"),
    ]

    /// Registers and sends to a text that is no subscription; returns the errors of both answers.
    private static func errors(_ token: String, _ client: GatewayClient) async throws -> [JSONValue] {
        let message: JSONValue = [
            "to": ["tokens": [["token": .string(token), "service": "web-push"]]], "content": ["title": "x"],
        ]
        let device: JSONValue = ["platform": "web", "tokens": ["web-push": .string(token)]]
        let sent = try await client.post("/v1/notifications", message.bytes, idempotencyKey: UUID().uuidString)
        let registered = try await client.put("/v1/devices/wrong", device.bytes)
        #expect(sent.status == 422 && registered.status == 422, "\(sent.json.text)\(registered.json.text)")
        return (sent.json["errors"]?.arrayValue ?? []) + (registered.json["errors"]?.arrayValue ?? [])
    }

    private static func refusals(_ subscription: String, _ client: GatewayClient) async throws {
        for mistake in mistakes {
            var wrong = try #require(JSONValue(parsing: Array(subscription.utf8)).objectValue)
            var keys = try #require(wrong["keys"]?.objectValue)
            if let endpoint = mistake.endpoint { wrong["endpoint"] = .string(endpoint) }
            if mistake.endpoint == nil { keys[mistake.key] = .string(mistake.value) }
            wrong["keys"] = .object(keys)
            let errors = try await errors(JSONValue.object(wrong).text, client)
            #expect(errors.map { $0["pointer"] } == ["#/to/tokens/0/token", "#/tokens/web-push"], "\(mistake)")
            for error in errors {
                let words = error["detail"]?.stringValue ?? ""
                #expect(words.contains(mistake.words) && !words.contains("hidden"), "\(mistake): \(words)")
            }
        }
    }

    @Test("A wrong subscription is 422 with its place, at a registration and at a message; so is a silent message")
    func refused() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let subscription = rig.sandbox.webPush.subscription("checked", at: .apple)
            try await Self.refusals(subscription, client)
            let silent: JSONValue = [
                "to": ["tokens": [["token": .string(subscription), "service": "web-push"]]],
                "content": ["data": ["order": "42"]], "options": ["silent": true],
            ]
            let answer = try await client.post("/v1/notifications", silent.bytes, idempotencyKey: UUID().uuidString)
            let error = answer.json["errors"]?.arrayValue?.first
            #expect(answer.status == 422 && error?["pointer"] == "#/options/silent", "\(answer.json.text)")
            #expect(error?["detail"]?.stringValue?.contains("Browsers must show something") == true)
            await client.close()
            #expect(rig.sandbox.webPush.inbox().isEmpty)
        }
    }

    /// Registers a user's browsers; returns the parts of their subscriptions that nothing may show.
    private static func register(_ rig: SandboxRig, _ client: GatewayClient) async throws -> [String] {
        var hidden: [String] = []
        let browsers: [(String, WebPushService)] = [
            ("hidden-browser", .apple), ("sim-gone-hidden", .mozilla), ("sim-busy1-hidden", .wns),
            ("sim-otherkey-hidden", .fcm),
        ]
        for (id, service) in browsers {
            let text = rig.sandbox.webPush.subscription(id, at: service)
            let keys = try JSONValue(parsing: Array(text.utf8))["keys"]
            hidden += [id] + [keys?["p256dh"], keys?["auth"]].compactMap { $0?.stringValue }
            let device: JSONValue = ["user": "omid", "platform": "web", "tokens": ["web-push": .string(text)]]
            #expect(try await client.put("/v1/devices/at-\(service)", device.bytes).status == 201)
        }
        return hidden
    }

    @Test("Neither the log at its most talkative nor the metrics have an endpoint or a key of a browser")
    func hidden() async throws {
        try await SandboxRig.run { rig in
            try rig.append("log: { level: trace }\n")
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let hidden = try await Self.register(rig, client)
            let message: JSONValue = ["to": ["users": ["omid"]], "content": ["title": "Parcel"]]
            let answer = try await client.post("/v1/notifications", message.bytes, idempotencyKey: UUID().uuidString)
            let id = try #require(answer.json["id"]?.stringValue, "\(answer.json.text)")
            try await Program.wait("the attempts") {
                let found = try await client.get("/v1/notifications/\(id)/deliveries")
                let items = found.json["items"]?.arrayValue ?? []
                return items.count == 4 && items.allSatisfy { $0["attempts"]?.arrayValue?.isEmpty == false }
                    ? true : nil
            }
            let metrics = try await Script.run("curl -s \(gateway.url)/metrics", in: rig.folder, path: "/usr/bin:/bin")
            #expect(metrics.contains("vapid_key_mismatch"), "the reasons are counted")
            gateway.child.send(SIGTERM)
            let ended = try await gateway.child.end()
            await client.close()
            for text in hidden {
                #expect(!metrics.contains(text), "\(text)")
                #expect(!ended.errors.contains(text) && !ended.output.contains(text), "\(text)")
            }
        }
    }
}
