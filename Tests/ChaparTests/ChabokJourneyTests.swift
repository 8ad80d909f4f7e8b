import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// The whole way through a gateway and back: specs/chabok.md sections 17, 20, 21.
@Suite("Chabok through a gateway", .timeLimit(.minutes(2)), .about("chabok"))
struct ChabokJourneyTests {
    private static func post(_ client: GatewayClient, _ path: String, _ body: JSONValue) async throws
        -> GatewayClient.Answer
    {
        try await client.post(path, body.bytes, idempotencyKey: UUID().uuidString)
    }

    /// Runs `body` with a gateway, a client and what its event stream has told so far.
    private static func run(
        _ body: (SandboxRig, ServedGateway, GatewayClient, EventTail) async throws -> Void
    ) async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let tail = try EventTail(gateway.url)
            defer { tail.end() }
            try await body(rig, gateway, client, tail)
            await client.close()
        }
    }

    /// Sends a notification through Chabok and waits until it was taken; gives its id and Chabok's.
    private static func send(_ client: GatewayClient, _ to: JSONObject) async throws -> (id: String, message: String) {
        let request: JSONValue = [
            "to": .object(to), "backend": "chabok",
            "content": ["title": "Parcel 7781", "body": "Left Tabriz", "data": ["order": 41]],
        ]
        let answer = try await post(client, "/v1/notifications", request)
        let id = try #require(answer.json["id"]?.stringValue, "\(answer)")
        let message = try await Program.wait("the message at Chabok") { () -> String? in
            let items = try await client.get("/v1/notifications/\(id)/deliveries").json["items"]?.arrayValue
            return items?.first?["attempts"]?.arrayValue?.last?["platform_id"]?.stringValue
        }
        return (id, message)
    }

    private static func wait(_ client: GatewayClient, _ id: String, for state: DeliveryState) async throws {
        try await Program.wait("\(state) of \(id)") { () -> Bool? in
            let counts = try await client.get("/v1/notifications/\(id)").json["counts"]
            return counts?[state.rawValue] == 1 ? true : nil
        }
    }

    @Test("A device is registered, its user gets a message, and the click comes back and goes on")
    func journey() async throws {
        try await Self.run { rig, _, client, events in
            let device: JSONValue = [
                "user": "u-7", "tags": ["gold"], "app_version": "3.3.1",
                "tokens": ["ios-apns": .string(SandboxRig.token(7))],
            ]
            #expect(try await client.put("/v1/devices/phone-7", device.bytes).status == 201)
            let installation = try await Program.wait("the installation") { () -> (String, JSONObject)? in
                rig.sandbox.chabok.installations().first { $0.value["userId"] == "u-7" }.map { ($0.key, $0.value) }
            }
            #expect(installation.1["deviceToken"]?.stringValue == SandboxRig.token(7))
            #expect(installation.1["clientVersion"] == "3.3.1")

            let (id, message) = try await Self.send(client, ["users": ["u-7"]])
            let taken = try #require(rig.sandbox.chabok.messages().last)
            #expect(taken.id == message && taken.user == "u-7" && taken.devices == 1)
            #expect(taken.body["data"] == ["order": 41])
            try await Self.wait(client, id, for: .acceptedByPlatform)

            let click: JSONValue = [
                "device": "phone-7", "action_identifier": "com.apple.UNNotificationDefaultActionIdentifier",
                "user_info": ["message": ["id": .string(message), "content": "Left Tabriz", "data": ["order": 41]]],
            ]
            let answer = try await Self.post(client, "/v1/backends/chabok/clicks", click)
            #expect(answer.status == 200, "\(answer)")
            #expect(answer.json["notification"]?["source"] == "chabok_message")
            #expect(answer.json["notification"]?["action"] == "opened")
            #expect(answer.json["notification"]?["custom_data"] == ["order": 41])
            #expect(answer.json["deliveries"]?.arrayValue?.first?["state"] == "opened")
            #expect(answer.json["forwarding"] == "done")
            try await Self.wait(client, id, for: .opened)
            let told = rig.sandbox.chabok.requests.last { $0.path == "/api/installations/events" }
            #expect(told?.body["installationId"] == .string(installation.0))
            #expect(told?.body["eventData"]?.arrayValue?.first?["actionType"] == "OPENED")
            for name in ["registered", "connection", "reachability", "message_received"] {
                try await Program.wait("the event \(name)") {
                    events.text.contains("\"name\":\"\(name)\"") ? true : nil
                }
            }
            try await Program.wait("delivery.opened") { events.text.contains("delivery.opened") ? true : nil }
        }
    }

    @Test("Users who share a message are told apart by their clicks")
    func shared() async throws {
        try await Self.run { _, _, client, _ in
            let (id, message) = try await Self.send(client, ["users": ["u-1", "u-2", "u-3"]])
            let click: JSONValue = [
                "user_id": "u-2", "action_identifier": "com.apple.UNNotificationDefaultActionIdentifier",
                "user_info": ["message": ["id": .string(message)]],
            ]
            let answer = try await Self.post(client, "/v1/backends/chabok/clicks", click)
            #expect(answer.json["deliveries"]?.arrayValue?.first?["delivery"] == 1, "\(answer)")
            let items = try await client.get("/v1/notifications/\(id)/deliveries").json["items"]?.arrayValue ?? []
            let states = items.map { $0["state"]?.stringValue }
            #expect(states == ["accepted_by_platform", "opened", "accepted_by_platform"])
        }
    }

    @Test("A device by its gateway id is reached through its private channel, and a removed one is unregistered")
    func devices() async throws {
        try await Self.run { rig, _, client, _ in
            let device: JSONValue = ["user": "u-8", "tokens": ["ios-apns": .string(SandboxRig.token(8))]]
            _ = try await client.put("/v1/devices/phone-8", device.bytes)
            let installation = try await Program.wait("the installation") {
                rig.sandbox.chabok.installations().first { $0.value["userId"] == "u-8" }?.key
            }
            _ = try await Self.send(client, ["devices": ["phone-8"]])
            let body = try #require(rig.sandbox.chabok.messages().last?.body)
            #expect(body["user"] == "u-8" && body["channel"] == .string("private/\(installation)"))
            _ = try await client.delete("/v1/devices/phone-8")
            try await Program.wait("the end of the installation") {
                rig.sandbox.chabok.installations()[installation] == nil ? true : nil
            }
        }
    }

    @Test("A webhook needs its secret, settles deliveries, and tells the rest to the event stream")
    func webhook() async throws {
        try await Self.run { rig, _, client, events in
            let (id, message) = try await Self.send(client, ["users": ["u-9"]])
            try await Self.wait(client, id, for: .acceptedByPlatform)
            let path = "/v1/backends/chabok/webhook/"
            let report: JSONValue = [
                ["event": "delivered", "messageId": .string(message), "userId": "u-9"],
                ["type": "newInstall", "deviceId": "i9"], ["name": "somethingNew", "x": 1],
            ]
            #expect(try await Self.post(client, path + "a-wrong-secret-0", report).status == 404)
            try await Self.wait(client, id, for: .acceptedByPlatform)
            let secret = rig.sandbox.chabok.webhookSecret
            #expect(try await Self.post(client, path + secret, report).status == 204)
            try await Self.wait(client, id, for: .delivered)
            for name in ["new_install", "other"] {
                try await Program.wait("the event \(name)") {
                    events.text.contains("\"name\":\"\(name)\"") ? true : nil
                }
            }
            #expect(try await Self.post(client, path + secret, 7).status == 400)
            #expect(!events.text.contains(secret))
        }
    }

    @Test("Clicks that are wrong are refused with every mistake; other backends take none", .about("apns"))
    func wrongClicks() async throws {
        try await Self.run { _, _, client, _ in
            let wrong: JSONValue = ["user_info": 1, "at": "yesterday", "colour": "red"]
            let answer = try await Self.post(client, "/v1/backends/chabok/clicks", wrong)
            #expect(answer.status == 422)
            let fields = (answer.json["errors"]?.arrayValue ?? []).compactMap { $0["pointer"]?.stringValue }
            #expect(fields.sorted() == ["#/at", "#/colour", "#/user_info"])
            let context: JSONValue = ["user_info": [:], "context": ["origin": "above"]]
            #expect(try await Self.post(client, "/v1/backends/chabok/clicks", context).status == 422)
            let local: JSONValue = [
                "user_info": ["message": ["id": "m0"]],
                "context": ["origin": "launch_remote", "os_major": 9, "app_state": "terminated"],
            ]
            let read = try await Self.post(client, "/v1/backends/chabok/clicks", local)
            #expect(
                read.json["notification"]?["arrival"]
                    == ["is_click": true, "navigate_here": false, "will_arrive_again": true]
            )
            #expect(read.json["forwarding"] == "failed" && read.json["error"]?["reason"] == "installation_missing")
            #expect(try await Self.post(client, "/v1/backends/ios/clicks", ["user_info": [:]]).status == 404)
        }
    }
}

/// The events of a gateway's stream from now on, which curl writes into a file.
private final class EventTail: Sendable {
    private let process: Process
    private let file: URL

    init(_ url: String) throws {
        file = FileManager.default.temporaryDirectory.appending(path: "chapar-events-\(UUID().uuidString)")
        try Data().write(to: file)
        process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["curl", "-s", "-N", "--noproxy", "*", "-H", "Last-Event-ID: 0", "\(url)/v1/events"]
        process.standardOutput = try FileHandle(forWritingTo: file)
        try process.run()
    }

    var text: String { (try? Data(contentsOf: file)).map { String(decoding: $0, as: UTF8.self) } ?? "" }

    /// Whether a backend has announced something of this name.
    func names(_ name: String) -> Bool { text.contains("\"name\":\"\(name)\"") }

    func end() {
        process.terminate()
        try? FileManager.default.removeItem(at: file)
    }
}
