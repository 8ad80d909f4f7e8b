import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparAPNs

@Suite("Live Activities over real sockets", .timeLimit(.minutes(1)))
struct APNsLiveActivitySocketTests {
    private struct Ride: Codable, Equatable {
        var stopsLeft: Int
        var eta: Date
    }

    @Test("A start, an update and an end arrive with their push type, topic and state")
    func life() async throws {
        try await SocketHarness.run { harness in
            let topic = "\(bundleID).push-type.liveactivity"
            let (pushToStart, running) = (deviceToken(1), deviceToken(2))
            harness.simulator.register(tokens: [pushToStart, running], topic: topic)
            let now = Date(timeIntervalSince1970: 1_767_225_600)
            let state = Ride(stopsLeft: 3, eta: now)
            let start = try APNsLiveActivity.start(
                ["line": "42"],
                type: "RideAttributes",
                state: state,
                at: now,
                alert: .init(title: "On the way", body: "3 stops", sound: "default"),
                updates: .token
            )
            let update = try APNsLiveActivity.update(Ride(stopsLeft: 1, eta: now), at: now.addingTimeInterval(60))
            let end = APNsLiveActivity.end(at: now.addingTimeInterval(120), dismissal: now)
            for (activity, token) in [(start, pushToStart), (update, running), (end, running)] {
                let notification = try PushNotification().with(APNsPush(.liveActivity(activity)))
                let outcome = await harness.backend.send(notification, to: recipient(token))
                #expect(outcome.acceptance != nil, "\(outcome)")
            }
            let pushes = harness.simulator.inbox
            #expect(pushes.map { $0.header("apns-topic") } == [topic, topic, topic])
            #expect(pushes.map { $0.header("apns-push-type") } == Array(repeating: "liveactivity", count: 3))
            let sent = try pushes.map { try JSONValue(parsing: $0.payload) }
            #expect(sent.map { $0["aps"]?["event"]?.stringValue } == ["start", "update", "end"])
            // The system's default decoder, as the app has it.
            let shown = try #require(sent[0]["aps"]?["content-state"])
            #expect(try JSONDecoder().decode(Ride.self, from: Data(shown.bytes)) == state)
        }
    }

    @Test("One update to a channel reaches all who follow it")
    func broadcast() async throws {
        try await SocketHarness.run { harness in
            let channel = try await #require(harness.backend.channels).create()
            let update = try APNsLiveActivity.update(["score": [2, 1]], at: Date(timeIntervalSince1970: 1_767_225_600))
            let goal = try PushNotification(title: "2:1").with(APNsPush(.liveActivity(update)))
            let outcome = await harness.backend.send(goal, to: .platformID(channel))
            #expect(outcome.acceptance?.isForAudience == true, "\(outcome)")
            #expect(harness.simulator.counters.broadcasts == 1)
        }
    }

    @Test("Every push type that a value can choose is taken by Apple's rules")
    func types() async throws {
        try await SocketHarness.run { harness in
            let contents: [APNsPush.Content] = [
                .alert(APNsAlert(title: "x", interruptionLevel: .timeSensitive, relevanceScore: 1)), .background,
                .controls, .complication, .fileProvider(container: "root"), .location, .mdm(pushMagic: "magic"),
                .pushToTalk, .voip, .widgets,
            ]
            for (number, content) in contents.enumerated() {
                harness.simulator.register(tokens: [deviceToken(number)])
                let notification = try PushNotification(data: ["n": 1]).with(APNsPush(content))
                let outcome = await harness.backend.send(notification, to: recipient(deviceToken(number)))
                #expect(outcome.acceptance != nil, "\(content): \(outcome)")
            }
            #expect(harness.simulator.inbox.count == contents.count)
        }
    }
}
