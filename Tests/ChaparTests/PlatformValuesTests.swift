import Foundation
import PushAPNs
import PushCore
import PushFCM
import PushHMS
import PushSandbox
import Testing

@testable import PushCommands

@Suite("Platforms' own values go through a gateway as their JSON", .timeLimit(.minutes(2)))
struct PlatformValuesTests {
    private static func run(_ body: (SandboxRig, GatewayClient) async throws -> Void) async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            try await body(rig, client)
            await client.close()
        }
    }

    /// A request to one token, with a notification's title and overrides.
    private static func request(_ notification: PushNotification, _ token: String, _ service: String) -> JSONValue {
        var request: JSONObject = ["to": ["tokens": [["token": .string(token), "service": .string(service)]]]]
        if let title = notification.title { request["content"] = ["title": .string(title.resolved(for: nil))] }
        var overrides = JSONObject()
        for (kind, object) in notification.overrides { overrides[kind] = .object(object) }
        request["overrides"] = .object(overrides)
        return .object(request)
    }

    @Test("A Live Activity, an Android channel and a Huawei category arrive as they were said")
    func arrive() async throws {
        let update = try APNsLiveActivity.update(["stopsLeft": 3], at: Date(timeIntervalSince1970: 1_767_225_600))
        let activity = try PushNotification().with(APNsPush(.liveActivity(update), priority: .considerate))
        let order = try PushNotification(title: "Order 42").with(
            FCMAndroid(notification: FCMAndroidNotification(channelID: "orders")),
            HMSAndroid(category: "EXPRESS")
        )
        try await Self.run { rig, client in
            for (notification, token, service) in [
                (activity, SandboxRig.token(1), "ios-apns"), (order, "phone-1", "android-firebase"),
                (order, "IQAAAACy0sample1", "android-huawei"),
            ] {
                let body = Self.request(notification, token, service).bytes
                let answer = try await client.post("/v1/notifications", body, idempotencyKey: "\(UUID())")
                let id = try #require(answer.json["id"]?.stringValue, "\(answer)")
                _ = try await Program.wait("the platform's word") { () -> Bool? in
                    let counts = try await client.get("/v1/notifications/\(id)").json["counts"]
                    let done =
                        (counts?["accepted_by_platform"]?.integerValue ?? 0)
                        + (counts?["delivered"]?.integerValue ?? 0)
                    return done == 1 ? true : nil
                }
            }
            let push = try #require(rig.sandbox.apns.inbox.first)
            #expect(push.header("apns-push-type") == "liveactivity")
            #expect(push.header("apns-topic") == Sandbox.topic + ".push-type.liveactivity")
            #expect(push.header("apns-priority") == "5")
            #expect(
                String(decoding: push.payload, as: UTF8.self)
                    == #"{"aps":{"timestamp":1767225600,"event":"update","content-state":{"stopsLeft":3}}}"#
            )
            let android = try #require(rig.sandbox.fcm.inbox.first?.message["android"])
            #expect(android["notification"]?["channel_id"] == "orders")
            let huawei = try JSONValue(parsing: Array(try #require(rig.sandbox.hms.inbox().first).message.utf8))
            #expect(huawei["android"]?["category"] == "EXPRESS")
        }
    }

    @Test("What a value would be refused for is refused of its JSON with the same field, and nothing is sent")
    func refused() async throws {
        let timeless = APNsPush(.liveActivity(APNsLiveActivity(.update, state: nil, at: Date())))
        let error = #expect(throws: PayloadError.self) { try PushNotification().with(timeless) }
        var written = PushNotification()
        written.overrides["apns"] = timeless.overrides
        try await Self.run { rig, client in
            let body = Self.request(written, SandboxRig.token(1), "ios-apns").bytes
            let answer = try await client.post("/v1/notifications", body, idempotencyKey: "\(UUID())")
            #expect(answer.status == 422)
            let pointers = answer.json["errors"]?.arrayValue?.map { $0["pointer"]?.stringValue }
            #expect(pointers == error?.faults.map(\.pointer), "\(answer)")
            #expect(rig.sandbox.apns.inbox.isEmpty)
        }
    }
}
