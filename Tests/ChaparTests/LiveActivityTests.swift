import Foundation
import ChaparAPNs
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// Tokens of Live Activities and of calls beside a device's own, over real sockets.
@Suite("Tokens of several kinds", .timeLimit(.minutes(2)), .about("apns"))
struct LiveActivityTests {
    private static let now = Date(timeIntervalSince1970: 1_767_225_600)
    private static let own = SandboxRig.token(1)
    private static let start = SandboxRig.token(2)
    private static let call = SandboxRig.token(3)
    private static let order = SandboxRig.token(4)

    /// A gateway over a simulator that knows what each token is for.
    private static func run(
        _ body: (SandboxRig, GatewayClient) async throws -> Void
    ) async throws {
        var configuration = Sandbox.Configuration()
        configuration.apns.rules.acceptsAnyToken = false
        configuration.apns.rules.honoursMagicTokens = false
        try await SandboxRig.run(configuration) { rig in
            rig.sandbox.apns.register(tokens: [own], topic: Sandbox.topic)
            rig.sandbox.apns.register(tokens: [start, order], topic: Sandbox.topic + ".push-type.liveactivity")
            rig.sandbox.apns.register(tokens: [call], topic: Sandbox.topic + ".voip")
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let device: JSONValue = [
                "tokens": [
                    "ios-apns": .string(own), "ios-apns/voip": .string(call),
                    "ios-apns/live_activity_start/OrderAttributes": .string(start),
                ]
            ]
            let answer = try await client.put("/v1/devices/phone", device.bytes)
            #expect(answer.status == 201, "\(answer.problem)")
            try await body(rig, client)
            await client.close()
        }
    }

    /// The overrides of a push that a Swift program would make.
    private static func overrides(_ push: APNsPush) throws -> JSONValue {
        let members = try PushNotification().with(push).overrides
        return .object(members.reduce(into: JSONObject()) { $0[$1.key] = .object($1.value) })
    }

    /// Sends a notification and waits for its end; gives its story's only delivery.
    private static func send(
        _ to: JSONValue,
        _ push: APNsPush? = nil,
        _ client: GatewayClient
    ) async throws -> JSONValue {
        // Others would take it as an ordinary message.
        var request: JSONObject = ["to": to, "content": ["title": "Order 42"], "backend": "ios"]
        if let push { request["overrides"] = try overrides(push) }
        let answer = try await client.post(
            "/v1/notifications",
            JSONValue.object(request).bytes,
            idempotencyKey: UUID().uuidString
        )
        let id = try #require(answer.json["id"]?.stringValue, "\(answer.problem)")
        return try await Program.wait("the delivery") { () -> JSONValue? in
            let items = try await client.get("/v1/notifications/\(id)/deliveries").json["items"]?.arrayValue
            guard let item = items?.first, let state = item["state"]?.stringValue.flatMap(DeliveryState.init) else {
                return nil
            }
            return state.isFinal ? .some(item) : .none
        }
    }

    private static func refusal(
        _ to: JSONValue,
        _ push: APNsPush?,
        _ client: GatewayClient
    ) async throws -> JSONValue {
        // Others would take it as an ordinary message.
        var request: JSONObject = ["to": to, "content": ["title": "Order 42"], "backend": "ios"]
        if let push { request["overrides"] = try overrides(push) }
        let bytes = JSONValue.object(request).bytes
        let answer = try await client.post("/v1/notifications", bytes, idempotencyKey: UUID().uuidString)
        #expect(answer.status == 422, "\(answer.json.text)")
        return answer.json["errors"]?.arrayValue?.first ?? .null
    }

    private static func activity(_ activity: APNsLiveActivity) -> APNsPush { APNsPush(.liveActivity(activity)) }

    @Test("A start goes to the device, an update and the end to the activity, whose token ends with it")
    func life() async throws {
        try await Self.run { rig, client in
            let attributes: JSONValue = ["order": "42"]
            let starting = try APNsLiveActivity.start(
                attributes,
                type: "OrderAttributes",
                state: ["stops": 3],
                at: Self.now,
                alert: .init(title: "Order 42", body: "is being packed"),
                updates: .token
            )
            let update = Self.activity(try .update(["stops": 1], at: Self.now.addingTimeInterval(60)))
            let end = Self.activity(.end(at: Self.now.addingTimeInterval(120)))
            let phone: JSONValue = ["devices": ["phone"]]
            let order: JSONValue = ["activity": "order-42"]

            let started = try await Self.send(phone, Self.activity(starting), client)
            #expect(started["state"] == "accepted_by_platform", "\(started.text)")
            // Before the app has registered its token, no device shows the activity.
            #expect(try await Self.refusal(order, update, client)["code"] == "audience_empty")

            let token: JSONValue = ["tokens": ["ios-apns/live_activity_update/order-42": .string(Self.order)]]
            #expect(try await client.patch("/v1/devices/phone", token.bytes).status == 200)
            // As an app that starts again: what it does not name stays.
            let again: JSONValue = ["tokens": ["ios-apns": .string(Self.own)]]
            let kept = try await client.put("/v1/devices/phone", again.bytes).json["tokens"]?.objectValue
            #expect(kept?.count == 4)

            let updated = try await Self.send(order, update, client)
            #expect(updated["state"] == "accepted_by_platform", "\(updated.text)")
            let message = try await Self.send(phone, nil, client)
            #expect(message["state"] == "accepted_by_platform", "\(message.text)")
            let ended = try await Self.send(order, end, client)
            #expect(ended["state"] == "accepted_by_platform", "\(ended.text)")

            #expect(rig.sandbox.apns.inbox.map(\.token) == [Self.start, Self.order, Self.own, Self.order])
            let left = try await Program.wait("the token to go") { () -> [String]? in
                let tokens = try await client.get("/v1/devices/phone").json["tokens"]?.objectValue
                let names = (tokens?.members ?? []).map(\.name)
                return names.contains("ios-apns/live_activity_update/order-42") ? .none : names
            }
            #expect(left == ["ios-apns", "ios-apns/live_activity_start/OrderAttributes", "ios-apns/voip"])
            #expect(try await Self.refusal(order, update, client)["code"] == "audience_empty")
        }
    }

    @Test("A call goes to the token for calls; without one it is refused, as is an update without its activity")
    func calls() async throws {
        try await Self.run { rig, client in
            let phone: JSONValue = ["devices": ["phone"]]
            #expect(try await Self.send(phone, APNsPush(.voip), client)["state"] == "accepted_by_platform")
            #expect(rig.sandbox.apns.inbox.map(\.token) == [Self.call])

            let none: JSONValue = ["tokens": ["ios-apns/voip": .null]]
            #expect(try await client.patch("/v1/devices/phone", none.bytes).status == 200)
            let refusal = try await Self.refusal(phone, APNsPush(.voip), client)
            #expect(refusal["code"] == "no_token_of_kind", "\(refusal.text)")
            #expect(refusal["pointer"] == "#/to/devices/0")
            let update = Self.activity(try .update(["stops": 1], at: Self.now))
            let other = try await Self.refusal(phone, update, client)
            #expect(other["code"] == "no_token_of_kind", "\(other.text)")
            #expect(other["detail"]?.stringValue?.contains("to.activity") == true)
            // An ordinary message is none for an activity.
            let token: JSONValue = ["tokens": ["ios-apns/live_activity_update/order-42": .string(Self.order)]]
            #expect(try await client.patch("/v1/devices/phone", token.bytes).status == 200)
            let plain = try await Self.refusal(["activity": "order-42"], nil, client)
            #expect(plain["code"] == "no_token_of_kind", "\(plain.text)")
            #expect(plain["detail"]?.stringValue?.hasPrefix("This is no update") == true, "\(plain.text)")
            #expect(rig.sandbox.apns.inbox.count == 1)
        }
    }

    @Test("A dead activity's token leaves the device's own alone")
    func dead() async throws {
        try await Self.run { rig, client in
            let token: JSONValue = ["tokens": ["ios-apns/live_activity_update/order-42": .string(Self.order)]]
            #expect(try await client.patch("/v1/devices/phone", token.bytes).status == 200)
            rig.sandbox.apns.unregister(token: Self.order)
            let update = Self.activity(try .update(["stops": 1], at: Self.now))
            let failed = try await Self.send(["activity": "order-42"], update, client)
            #expect(failed["state"] == "failed", "\(failed.text)")
            let tokens = try await Program.wait("the tombstone") { () -> JSONValue? in
                let tokens = try await client.get("/v1/devices/phone").json["tokens"]
                let isAlive = tokens?["ios-apns/live_activity_update/order-42"]?["alive"]?.boolValue
                return isAlive == false ? tokens : .none
            }
            #expect(tokens["ios-apns"]?["alive"] == true)
            #expect(try await Self.send(["devices": ["phone"]], nil, client)["state"] == "accepted_by_platform")
        }
    }

    private static let update =
        #"apns={"headers":{"apns-push-type":"liveactivity"},"payload":{"aps":{"event":"update","timestamp":1767225660,"#
        + #""content-state":{"stops":1}}}}"#

    @Test("By the command line: a device's token, an update of its activity, and one to a broadcast channel")
    func commandLine() async throws {
        var configuration = Sandbox.Configuration()
        configuration.apns.rules.honoursMagicTokens = false
        try await SandboxRig.run(configuration) { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            func chapar(_ arguments: String...) async throws -> Program.Result {
                let result = try await Program.run(arguments + ["--url", gateway.url])
                #expect(result.status == 0, "\(arguments.joined(separator: " ")): \(result.output)\(result.errors)")
                return result
            }
            let token = "ios-apns/live_activity_update/order-42:\(Self.order)"
            _ = try await chapar("devices", "put", "phone", "--token", "ios-apns:\(Self.own)", "--token", token)
            _ = try await chapar("send", "--activity", "order-42", "--override", Self.update)
            #expect(rig.sandbox.apns.inbox.map(\.token) == [Self.order])
            _ = try await chapar("send", "--device", "phone", "Hello")
            #expect(rig.sandbox.apns.inbox.map(\.token) == [Self.order, Self.own])

            let made = try await chapar("channels", "create", "--storage", "newest", "--backend", "ios")
            let channel = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
            _ = try await chapar("send", "--platform-id", channel, "--backend", "ios", "--override", Self.update)
            #expect(rig.sandbox.apns.counters.broadcasts == 1)
        }
    }
}
