import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparHMS

/// v3, which reaches HarmonyOS 5 and later: messages, answers and configuration, over real sockets.
@Suite("HarmonyOS 5 and later", .timeLimit(.minutes(2)))
struct HMSSceneTests {
    static func harmony(_ number: Int) -> String { "MAMzLgIsample\(number)" }

    private func run(
        _ change: (inout HMSOptions) -> Void = { _ in },
        _ body: (Harness, [Recipient]) async throws -> Void
    ) async throws {
        try await Harness.run(change: { options, simulator in
            let account = try HMSServiceAccount(json: Array(simulator.serviceAccountFile.utf8))
            options.credential = .serviceAccount(account)
            options.api = .v3(projectID: simulator.app.projectID)
            change(&options)
        }) { harness in
            harness.simulator.setDevice(HMSDevice(isHarmony: true), tokens: (0..<3).map(Self.harmony))
            try await body(harness, (0..<3).map { .token(Self.harmony($0), service: .harmonyHuawei) })
        }
    }

    private func message(_ harness: Harness) throws -> JSONValue {
        try JSONValue(parsing: Array(#require(harness.simulator.inbox().last).message.utf8))
    }

    @Test("An alert says all that v3 has a field for, in one request for all")
    func alert() async throws {
        try await run { harness, recipients in
            let notification = PushNotification(
                title: "Parcel",
                body: "Out for delivery",
                image: "https://example.com/42.png",
                sound: "bell.mp3",
                badge: 3,
                category: "express",
                clickURL: "app://orders/42",
                data: ["order": "42"],
                timeToLive: .seconds(7200),
                collapseID: "order-42"
            )
            for outcome in await harness.backend.send(notification, to: recipients) {
                #expect(outcome.acceptance?.platformID != nil)
            }
            #expect(harness.simulator.counters.sends == 1)
            let sent = try message(harness)
            #expect(
                sent == [
                    "payload": [
                        "notification": [
                            "category": "EXPRESS", "title": "Parcel", "body": "Out for delivery",
                            "image": "https://example.com/42.png",
                            "clickAction": ["actionType": 1, "uri": "app://orders/42", "data": ["order": "42"]],
                            "notifyId": .integer(HMSScene.notifyID("order-42")), "badge": ["setNum": 3],
                            "sound": "bell.mp3",
                        ]
                    ], "pushOptions": ["ttl": 7200], "push_type": 0,
                ]
            )
        }
    }

    @Test("Missing fields get defaults: a title alone, no category, a web address, a silent message")
    func defaults() async throws {
        try await run({ $0.defaultCategory = "WORK" }) { harness, recipients in
            _ = await harness.backend.send(
                PushNotification(title: "Hello", category: "orders", clickURL: "https://example.com/o"),
                to: recipients[0]
            )
            let alert = try message(harness)["payload"]?["notification"]
            #expect(alert?["category"] == "WORK" && alert?["body"] == "Hello")
            #expect(alert?["clickAction"] == ["actionType": 0, "data": ["click_url": "https://example.com/o"]])
            let spoken = PushNotification(title: "Paid", category: "play_voice")
            #expect(await harness.backend.send(spoken, to: recipients[0]).acceptance != nil)
            #expect(try message(harness)["payload"]?["notification"]?["category"] == "WORK", "of push type 2 only")
            _ = await harness.backend.send(PushNotification(data: ["n": 1], isSilent: true), to: recipients[0])
            let silent = try message(harness)
            #expect(silent == ["payload": ["extraData": #"{"n":1}"#], "push_type": 6])
        }
    }

    @Test("Another scene is the caller's, under overrides.hms.harmony, which v1 and v2 do not send")
    func scenes() async throws {
        let view: JSONObject = ["activityId": 1, "operation": 0, "event": "TAXI", "status": "DRIVER_ON_THE_WAY"]
        let notification = PushNotification(
            title: "Taxi",
            overrides: [
                "hms": [
                    "harmony": ["push_type": 7, "payload": .object(view), "pushOptions": ["ttl": 60]],
                    "android": ["urgency": "NORMAL"],
                ]
            ]
        )
        try await run { harness, recipients in
            #expect(await harness.backend.send(notification, to: recipients[0]).acceptance != nil)
            let sent = try message(harness)
            #expect(sent == ["payload": .object(view), "pushOptions": ["ttl": 60], "push_type": 7])
        }
        try await Harness.run { harness in
            let phone = harness.register(0..<1)
            #expect(await harness.backend.send(notification, to: phone)[0].acceptance != nil)
            let sent = try message(harness)
            #expect(sent["harmony"] == nil)
        }
    }

    @Test("Tokens of another generation are refused by the platform, and told apart before sending")
    func generations() async throws {
        try await run { harness, recipients in
            harness.register(0..<1)
            let old = Recipient.token(androidToken(0), service: .harmonyHuawei)
            let outcomes = await harness.backend.send(Self.sample, to: [recipients[0], old, .topic("news")])
            #expect(outcomes[0].acceptance != nil)
            #expect(outcomes[1].refusal?.reason == "noRight" && outcomes[1].refusal?.invalidation == nil)
            #expect(outcomes[2].refusal?.reason == "unsupported_recipient")
            #expect(
                await harness.backend.send(Self.sample, to: android(androidToken(0))).refusal?.reason
                    == "unsupported_recipient"
            )
            #expect(harness.backend.topics == nil)
        }
        try await Harness.run { harness in
            harness.simulator.setDevice(HMSDevice(isHarmony: true), tokens: [Self.harmony(0)])
            let good = harness.register(0..<1)
            let moved = await harness.backend.send(Self.sample, to: good + [android(Self.harmony(0))])[1]
            #expect(moved.acceptance == nil)
            let service = Recipient.token(Self.harmony(0), service: .harmonyHuawei)
            #expect(await harness.backend.send(Self.sample, to: service).refusal?.reason == "unsupported_recipient")
        }
    }

    @Test("When all tokens are refused the reasons decide: a missing right invalidates no token")
    func allRefused() async throws {
        try await run { harness, _ in
            harness.simulator.setDevice(
                HMSDevice(state: .refused(reason: "noPushTypeRight"), isHarmony: true),
                tokens: ["a", "b"]
            )
            let recipients = ["a", "b", "gone"].map { Recipient.token($0, service: .harmonyHuawei) }
            let refusals = await harness.backend.send(Self.sample, to: recipients).map(\.refusal)
            #expect(refusals.map { $0?.reason } == ["noPushTypeRight", "noPushTypeRight", "tokenFormatError"])
            #expect(refusals.map { $0?.invalidation != nil } == [false, false, true])
            #expect(refusals[2]?.invalidation?.isCertain == false)
        }
    }

    /// Huawei's page on answers, code 80300007, reason 10.
    @Test("An alert of a category that is spoken is refused for its push type, and invalidates no token")
    func spoken() async throws {
        try await run { harness, recipients in
            var notification = Self.sample
            let alert: JSONValue = [
                "category": "PLAY_VOICE", "title": "T", "body": "B", "clickAction": ["actionType": 0],
            ]
            notification.overrides["hms"] = ["harmony": ["payload": ["notification": alert]]]
            let refusals = await harness.backend.send(notification, to: recipients).map(\.refusal)
            #expect(refusals.allSatisfy { $0?.reason == "notSupportPlayVoice" && $0?.invalidation == nil })
            #expect(refusals[0]?.detail?.contains("push_type 2") == true)
        }
    }

    /// The answer of the live service, as a sender quotes it: https://segmentfault.com/q/1010000045641160, read
    /// 2026-11.
    @Test("A refusal of all tokens is read as the live service writes it")
    func quoted() throws {
        let body =
            #"{"code":"80300007","msg":"{\"illegalTokens\":{\"noRight\":[\"x\"]},\"failure\":1}","requestId":"1"}"#
        let answer = HMSAnswer(HTTPAnswer(status: 400, headers: [], body: Array(body.utf8)), now: .now)
        #expect(answer.partial?.refused.map(\.token) == ["x"])
        #expect(answer.partial?.refused.first?.reason == "noRight")
        #expect(answer.partial?.failures == 1 && answer.partial?.successes == nil)
    }

    @Test("A dry run is checked here and sends nothing; the doctor asks with a token that cannot exist")
    func dryRun() async throws {
        try await run { harness, recipients in
            var notification = Self.sample
            notification.isDryRun = true
            #expect(await harness.backend.send(notification, to: recipients[0]).acceptance?.isDryRun == true)
            #expect(harness.simulator.counters.sends == 0)
            #expect(await harness.backend.diagnose().allSatisfy { $0.verdict == .ok })
            await #expect(throws: PushError.self) {
                try await harness.backend.verify(DeviceToken(Self.harmony(0), service: .harmonyHuawei))
            }
        }
    }

    static let faults: [(PushNotification, String)] = [
        (PushNotification(data: ["a": 1]), "nothing_to_show"),
        (PushNotification(title: "T", image: "http://example.com/i.png"), "not_https"),
        (PushNotification(title: "T", overrides: ["hms": ["harmony": ["push_type": 3]]]), "bad_push_type"),
        (PushNotification(title: "T", overrides: ["hms": ["harmony": ["push_type": 7]]]), "missing"),
        (PushNotification(title: "T", overrides: ["hms": ["harmony": ["target": [:]]]]), "reserved_key"),
        (PushNotification(title: "T", overrides: ["hms": ["harmony": ["ttl": 5]]]), "unknown_override"),
        (PushNotification(title: "T", overrides: ["hms": ["harmony": 5]]), "not_an_object"),
        (PushNotification(title: "T", data: ["x": .string(String(repeating: "x", count: 4096))]), "payload_too_large"),
    ]

    @Test("A message that Huawei would refuse is found before acceptance and before sending", arguments: faults)
    func checks(notification: PushNotification, code: String) async throws {
        try await run { harness, recipients in
            #expect(harness.backend.check(notification, for: .token).faults.first?.code == code)
            #expect(await harness.backend.send(notification, to: recipients[0]).refusal?.reason == code)
            #expect(harness.simulator.counters.sends == 0)
        }
    }

    private static let sample = PushNotification(title: "Parcel", body: "Out for delivery")
}
