import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparFCM

@Suite("FCM over real sockets", .serialized, .timeLimit(.minutes(1)))
struct FCMSocketTests {
    @Test("It keeps the promises of a backend", arguments: BackendConformance.checks)
    func conformance(check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 60)
        let log = RecordedLog()
        try await SocketHarness.run(timeout: timeout, logger: log.logger) { harness in
            let simulator = harness.simulator
            _ = harness.register(1_010)
            simulator.setDevice(FCMDevice(state: .unregistered), token: "d3ad:APA91b")
            var subject = BackendConformance.Subject(
                backend: harness.backend,
                recipient: { recipient(deviceToken($0)) },
                others: [
                    recipient(deviceToken(0), .iOSFirebase), recipient(deviceToken(0), .webFirebase),
                    recipient(deviceToken(0), .anyFirebase), .topic("news"),
                ],
                deadRecipient: recipient("d3ad:APA91b"),
                foreignRecipient: .token(DeviceToken(String(repeating: "9f", count: 32), service: .iOSAPNs)),
                taken: { simulator.counters.accepted },
                payloadLimit: 4096,
                disturb: {
                    simulator.removeRules()
                    let trouble = try #require(FaultRule.Trouble(rawValue: $0.rawValue))
                    let listener = trouble == .unreachable ? nil : FCMListener.send.name
                    simulator.add(FaultRule.trouble(trouble, on: listener))
                }
            )
            subject.deadline = timeout
            subject.log = log
            subject.secrets = [Secret(simulator.credentialsFile)]
            subject.sent = { harness.sent.requests }
            subject.lacks = [.refusalsUnderSuccess, .addresses]
            subject.refuseCredential = { simulator.add(FaultRule(.answer(FaultAnswer(401)))) }
            subject.expireCredential = { simulator.revokeAccessTokens() }
            subject.throttle = { pause in
                let answer = FaultAnswer(429, retryAfter: Int(clamping: pause.components.seconds))
                simulator.add(FaultRule(match: FaultMatch(listener: FCMListener.send.name), .answer(answer)))
            }
            subject.means.member = DeviceToken(deviceToken(3), service: .androidFirebase)
            subject.means.imported = DeviceToken(String(repeating: "4f", count: 32), service: .iOSAPNs)
            try await check.run(subject)
        }
    }

    @Test("A message arrives as it was meant, with Google's id in the outcome")
    func happyPath() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken])
            let notification = PushNotification(
                title: "Parcel",
                body: "Out for delivery",
                sound: "default",
                data: ["order": "4711", "count": 2],
                timeToLive: .seconds(3600),
                collapseID: "order-4711"
            )
            let outcome = await harness.backend.send(notification, to: [recipient()])[0]
            let acceptance = try #require(outcome.acceptance)
            let delivery = try #require(harness.simulator.inbox.first)
            #expect(acceptance.platformID == delivery.messageID)
            #expect(delivery.target == .token(goodToken))
            #expect(
                delivery.message.text
                    == #"{"notification":{"title":"Parcel","body":"Out for delivery"},"data":{"order":"4711","count":"2"},"android":{"priority":"HIGH","collapse_key":"order-4711","ttl":"3600s","notification":{"tag":"order-4711","sound":"default"}},"token":"dR3v0Q:APA91bSampleToken-with_signs"}"#
            )
        }
    }

    @Test("Tokens, installation IDs, topics and conditions each go into their own field")
    func targets() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken, "cQ1-22charactersOfFID_"])
            let recipients: [Recipient] = [
                recipient(), recipient("fid:cQ1-22charactersOfFID_"), .topic("news"), .topic("/topics/news.de"),
                .topic("'news' in topics && !('de' in topics)"),
            ]
            let outcomes = await harness.backend.send(PushNotification(title: "x"), to: recipients)
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(outcomes.map { $0.acceptance?.isForAudience } == [false, false, true, true, true])
            #expect(
                Set(harness.simulator.inbox.map(\.target)) == [
                    .token(goodToken), .fid("cQ1-22charactersOfFID_"), .topic("news"), .topic("news.de"),
                    .condition("'news' in topics && !('de' in topics)"),
                ]
            )
        }
    }

    @Test("A message to every user is refused without a request to Google, others go out; no overrides change that")
    func everybody() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken])
            let sly = PushNotification(title: "x", overrides: ["fcm": ["condition": "!('a' in topics)"]])
            #expect(harness.backend.check(sly, for: .topic).faults.contains { $0.code == "target_reserved" })
            let recipients = [recipient(), .topic("!('news' in topics)"), .topic("news")]
            let outcomes = await harness.backend.send(PushNotification(title: "x"), to: recipients)
            #expect(outcomes.map { $0.acceptance != nil } == [true, false, true])
            #expect(outcomes[1].refusal?.reason == BroadcastRule.refusalReason)
            #expect(harness.simulator.inbox.count == 2)
        }
    }

    @Test("A thousand messages share few connections, keep to the stream limit, and need one access token")
    func multiplexing() async throws {
        try await SocketHarness.run(connections: 2) { harness in
            let recipients = harness.register(1000)
            let outcomes = await harness.backend.send(PushNotification(title: "x"), to: recipients)
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.simulator.counters.accepted == 1000)
            #expect(harness.simulator.counters.tokensIssued == 1)
            #expect(harness.simulator.counters.duplicates == 0)
            #expect(harness.simulator.traffic.streamsRefused == 0, "never more streams than allowed")
            let connections = Set(harness.simulator.inbox.map(\.connection))
            #expect((1...2).contains(connections.count))
        }
    }

    @Test("A dry run asks Google and sends nothing")
    func dryRun() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken])
            harness.simulator.setDevice(FCMDevice(state: .unregistered), token: deviceToken(1))
            let notification = PushNotification(title: "x", isDryRun: true)
            let outcomes = await harness.backend.send(notification, to: [recipient(), recipient(deviceToken(1))])
            let acceptance = try #require(outcomes[0].acceptance)
            #expect(acceptance.isDryRun)
            #expect(acceptance.platformID == "fake_message_id")
            #expect(outcomes[1].refusal?.reason == "UNREGISTERED")
            #expect(harness.simulator.counters.validated == 1)
            #expect(harness.simulator.counters.accepted == 0)
        }
    }

    // MARK: Connections that end

    static let goAways: [SandboxGoAway] = [
        SandboxGoAway(last: .current), SandboxGoAway(last: .middle), SandboxGoAway(last: .none),
        SandboxGoAway(last: .maximum), SandboxGoAway(last: .middle, ending: .now),
        SandboxGoAway(last: .none, code: 11, debugData: Array("exceeded_max_concurrent_streams".utf8)),
    ]

    @Test("A GOAWAY in mid-stream loses nothing and doubles nothing", arguments: goAways)
    func goAway(frame: SandboxGoAway) async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            let recipients = harness.register(300)
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: "send", tokenPrefix: "fT0", requests: 100...100), .goAway(frame))
            )
            let outcomes = await harness.backend.send(PushNotification(title: "x"), to: recipients)
            let lost = outcomes.filter { $0.acceptance == nil }
            if frame.ending != .now {
                #expect(lost.isEmpty, "a caller does not see it: \(lost.first.map { "\($0)" } ?? "")")
            } else {
                #expect(lost.allSatisfy { $0.unknown != nil }, "what was owed an answer is unknown, the rest is sent")
            }
            #expect(harness.simulator.counters.duplicates == 0)
        }
    }

    static let ends: [(FaultRule.Point, FaultStep, Bool)] = [
        (.request, .end(.reset), true), (.request, .end(.fin), true), (.request, .resetStream(code: 2), true),
        (.processed, .end(.reset), true), (.answerHeaders, .resetStream(code: 2), true),
        (.request, .resetStream(code: 7), false),
    ]

    @Test("A cut connection leaves the outcome open; a refused stream is sent again", arguments: ends)
    func cut(point: FaultRule.Point, step: FaultStep, isUnknown: Bool) async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.add(FaultRule(at: point, match: FaultMatch(listener: "send", count: 1), step))
            let outcome = await harness.send()
            #expect((outcome.unknown != nil) == isUnknown)
            if !isUnknown { #expect(outcome.acceptance != nil) }
            #expect(await harness.send().acceptance != nil, "the next message finds a way")
        }
    }

    @Test("Silence ends with the deadline, and the outcome of the message is unknown")
    func silence() async throws {
        // Long enough for two handshakes and an access token on a busy machine.
        try await SocketHarness.run(timeout: .seconds(4)) { harness in
            #expect(await harness.warmUp().acceptance != nil)
            harness.simulator.add(FaultRule(match: FaultMatch(listener: "send", count: 1), .silence))
            #expect(await harness.send().unknown?.reason == "deadline")
        }
    }

    @Test("An untrusted certificate parks the worker before a token is fetched")
    func untrusted() async throws {
        try await SocketHarness.run(trusts: false) { harness in
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.kind == .platform)
            #expect(refusal.advice == .slowBackend(after: nil))
            #expect(harness.simulator.counters.sends == 0)
        }
    }

    // MARK: Parts of a project

    @Test("A broken Apple key stops iOS alone, and fetches no other access token")
    func brokenAppleKey() async throws {
        let time = ManualTime(Date())
        try await SocketHarness.run(time: time) { harness in
            await harness.warmUp()
            harness.simulator.setDevice(FCMDevice(state: .brokenAppleKey, platform: "IOS"), token: "iOS:1")
            let refusal = try #require(await harness.send("iOS:1", .iOSFirebase).refusal)
            #expect(refusal.advice == .retry(after: .seconds(60)))
            #expect(harness.backend.health.status == .degraded)
            #expect(harness.backend.health.detail?.contains("InvalidProviderToken") == true)
            harness.simulator.register(tokens: ["iOS:2"], platform: "IOS")
            let early = try #require(await harness.send("iOS:2", .iOSFirebase).refusal)
            #expect(early.advice == .retry(after: .milliseconds(500)), "one odd answer stops the others for no longer")
            time.advance(by: .milliseconds(500))
            #expect(await harness.send("iOS:2", .iOSFirebase).acceptance != nil)
            #expect(await harness.send("iOS:1", .iOSFirebase).refusal != nil, "a second one is a broken key")
            let sends = harness.simulator.counters.sends
            time.advance(by: .seconds(20))
            let held = try #require(await harness.send("iOS:2", .iOSFirebase).refusal)
            #expect(held.reason == "THIRD_PARTY_AUTH_ERROR")
            #expect(held.advice == .retry(after: .seconds(40)), "the rest of the pause")
            #expect(harness.simulator.counters.sends == sends, "what is held never leaves")
            #expect(await harness.send().acceptance != nil, "Android goes on")
            #expect(harness.simulator.counters.tokensIssued == 1, "no refresh: the access token is good")
            time.advance(by: .seconds(41))
            harness.simulator.register(tokens: ["iOS:1"], platform: "IOS")
            #expect(await harness.send("iOS:1", .iOSFirebase).acceptance != nil, "tried again after the pause")
            #expect(harness.backend.health.status == .ok)
        }
    }

    @Test("A broken web push key stops browsers alone")
    func brokenWebKey() async throws {
        let time = ManualTime(Date())
        try await SocketHarness.run(time: time) { harness in
            await harness.warmUp()
            harness.simulator.setDevice(FCMDevice(state: .brokenAppleKey, platform: "WEB"), token: "web:1")
            #expect(await harness.send("web:1", .webFirebase).refusal?.reason == "THIRD_PARTY_AUTH_ERROR")
            let sends = harness.simulator.counters.sends
            #expect(await harness.send("web:2", .webFirebase).refusal?.reason == "THIRD_PARTY_AUTH_ERROR")
            #expect(harness.simulator.counters.sends == sends, "what is held never leaves")
            harness.simulator.register(tokens: ["iOS:1"], platform: "IOS")
            #expect(await harness.send("iOS:1", .iOSFirebase).acceptance != nil)
            #expect(await harness.send().acceptance != nil)
        }
    }

    @Test("The quota of topics stops topics alone")
    func topicQuota() async throws {
        var configuration = FCMSimulatorConfiguration()
        configuration.quotas.topics = 2
        // The quota is for a minute, and a new one must not begin in between.
        try await SocketHarness.run(configuration, time: ManualTime(Date())) { harness in
            await harness.warmUp()
            var outcomes: [DeliveryOutcome] = []
            for _ in 0..<4 {
                outcomes += await harness.backend.send(PushNotification(title: "x"), to: [.topic("news")])
            }
            #expect(outcomes.map { $0.acceptance != nil } == [true, true, false, false])
            #expect(outcomes[2].refusal?.advice == .retry(after: .seconds(60)))
            #expect(harness.simulator.counters.refusedTotal == 1, "the fourth was held")
            #expect(await harness.send().acceptance != nil)
        }
    }

    @Test("The quota of one device slows that device")
    func deviceQuota() async throws {
        var configuration = FCMSimulatorConfiguration()
        configuration.quotas.device = 1
        configuration.quotas.retryAfter = 17
        try await SocketHarness.run(configuration, time: ManualTime(Date())) { harness in
            await harness.warmUp()
            #expect(await harness.send().refusal?.advice == .slowRecipient(after: .seconds(17)))
            harness.simulator.register(tokens: [deviceToken(1)])
            #expect(await harness.send(deviceToken(1)).acceptance != nil)
        }
    }

    // MARK: Projects

    @Test("Another project is told from one that does not exist; no token is at fault")
    func projects() async throws {
        for (project, reason) in [("somebody-elses-project", "PERMISSION_DENIED"), ("no-such-project", "NOT_FOUND")] {
            try await SocketHarness.run(projectID: project) { harness in
                harness.simulator.register(tokens: [goodToken])
                let refusal = try #require(await harness.send().refusal)
                #expect(refusal.reason == reason)
                #expect(refusal.advice == .parkBackend)
                #expect(refusal.invalidation == nil)
            }
        }
    }

    @Test("The project's number does as well as its id")
    func projectNumber() async throws {
        try await SocketHarness.run(projectID: FCMSimulatorConfiguration().projectNumber) { harness in
            harness.simulator.register(tokens: [goodToken])
            #expect(await harness.send().acceptance != nil)
        }
    }

    @Test("A second attempt takes the place of the first on the device")
    func repeats() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken])
            for notification in [PushNotification(title: "x"), PushNotification(data: ["a": "b"])] {
                var addressee = Addressee(recipient())
                _ = await harness.backend.send([PushRequest(notification, to: [addressee])])
                addressee.isReplay = true
                _ = await harness.backend.send([PushRequest(notification, to: [addressee])])
            }
            #expect(harness.simulator.counters.accepted == 4)
            #expect(harness.simulator.counters.duplicates == 2, "the same id each time")
            #expect(harness.simulator.counters.doubledOnDevice == 0, "nobody sees it twice")
        }
    }
}
