import Foundation
import ChaparAPNs
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

@Suite("Apple's own values go through a gateway as their JSON", .timeLimit(.minutes(2)))
struct APNsValuesTests {
    @Test("A Live Activity arrives as it was said")
    func arrives() async throws {
        let update = try APNsLiveActivity.update(["stopsLeft": 3], at: Date(timeIntervalSince1970: 1_767_225_600))
        let activity = try PushNotification().with(APNsPush(.liveActivity(update), priority: .considerate))
        try await PlatformValues.run { rig, client in
            try await PlatformValues.send(activity, to: SandboxRig.token(1), "ios-apns", client)
            let push = try #require(rig.sandbox.apns.inbox.first)
            #expect(push.header("apns-push-type") == "liveactivity")
            #expect(push.header("apns-topic") == Sandbox.topic + ".push-type.liveactivity")
            #expect(push.header("apns-priority") == "5")
            #expect(
                String(decoding: push.payload, as: UTF8.self)
                    == #"{"aps":{"timestamp":1767225600,"event":"update","content-state":{"stopsLeft":3}}}"#
            )
        }
    }

    @Test("The JSON of a wrong value is refused with the same field as the value, and nothing is sent")
    func refused() async throws {
        let timeless = APNsPush(.liveActivity(APNsLiveActivity(.update, state: nil, at: Date())))
        let error = #expect(throws: PayloadError.self) { try PushNotification().with(timeless) }
        var written = PushNotification()
        written.overrides["apns"] = timeless.overrides
        try await PlatformValues.run { rig, client in
            let body = PlatformValues.request(written, SandboxRig.token(1), "ios-apns").bytes
            let answer = try await client.post("/v1/notifications", body, idempotencyKey: "\(UUID())")
            #expect(answer.status == 422)
            let pointers = answer.json["errors"]?.arrayValue?.map { $0["pointer"]?.stringValue }
            #expect(pointers == error?.faults.map(\.pointer), "\(answer)")
            #expect(rig.sandbox.apns.inbox.isEmpty)
        }
    }
}
