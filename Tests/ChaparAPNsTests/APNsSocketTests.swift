import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPNs

@Suite("APNs over real sockets", .timeLimit(.minutes(1)))
struct APNsSocketTests {
    @Test("It keeps the promises of a backend", arguments: BackendConformance.checks)
    func conformance(check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 60)
        let log = RecordedLog()
        try await SocketHarness.run(timeout: timeout, logger: log.logger) { harness in
            let simulator = harness.simulator
            _ = harness.register(1_010)
            let dead = String(repeating: "d", count: 64)
            simulator.unregister(token: dead)
            var subject = BackendConformance.Subject(
                backend: harness.backend,
                recipient: { recipient(deviceToken($0)) },
                deadRecipient: recipient(dead),
                foreignRecipient: .token(DeviceToken("fcm:APA91bHun4MxP5", service: .iOSFirebase)),
                taken: { simulator.counters.accepted },
                payloadLimit: 4096,
                disturb: {
                    simulator.removeRules()
                    // Apple's 200 is decisive: an unreadable body comes from a proxy.
                    simulator.add(
                        FaultRule.trouble(try #require(FaultRule.Trouble(rawValue: $0.rawValue)), nonsense: .htmlPage)
                    )
                }
            )
            if let channels = harness.backend.channels, check.source == "PushBackend.audience" {
                subject.others = [.platformID(try await channels.create(storage: .none))]
                subject.messages = [.platformID: APNsCredentialSocketTests.update()]
            }
            subject.deadline = timeout
            subject.log = log
            subject.secrets = [Secret(simulator.key.pem)]
            subject.sent = { harness.sent.requests }
            // The provider token is signed here, and a success is one.
            subject.lacks = [.expiringCredentials, .refusalsUnderSuccess, .addresses]
            subject.refuseCredential = {
                simulator.add(FaultRule(.answer(FaultAnswer(403, "InvalidProviderToken"))))
            }
            subject.throttle = { pause in
                let seconds = Int(clamping: pause.components.seconds)
                simulator.add(FaultRule(.answer(FaultAnswer(503, "ServiceUnavailable", retryAfter: seconds))))
            }
            try await check.run(subject)
        }
    }

    @Test("A message arrives as it was meant, with Apple's id in the outcome")
    func happyPath() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken], topic: bundleID)
            let notification = PushNotification(
                title: "Parcel",
                body: "Out for delivery",
                sound: "default",
                data: ["order": "4711"],
                collapseID: "order-4711"
            )
            let addressee = Addressee(recipient())
            let request = PushRequest(notification, to: [addressee], expiration: .at(4_000_000_000))
            let acceptance = try #require(await harness.backend.send([request])[0][0].acceptance)
            #expect(acceptance.platformID == addressee.messageID.description)
            #expect(acceptance.trackingID == nil)
            let push = try #require(harness.simulator.inbox.first)
            #expect(push.apnsID == addressee.messageID.description)
            #expect(push.header("apns-expiration") == "4000000000")
            #expect(push.header("apns-collapse-id") == "order-4711")
            #expect(
                String(decoding: push.payload, as: UTF8.self)
                    == #"{"aps":{"alert":{"title":"Parcel","body":"Out for delivery"},"sound":"default"},"order":"4711"}"#
            )
        }
    }

    @Test("Apple's development host gives a second id, which is kept")
    func development() async throws {
        try await SocketHarness.run(environment: .development) { harness in
            harness.simulator.register(tokens: [goodToken], environment: .development)
            #expect(await harness.send().acceptance?.trackingID?.isEmpty == false)
        }
    }

    @Test("A thousand messages on a new connection wait for the first accept; nothing fails, nothing is doubled")
    func firstPush() async throws {
        try await SocketHarness.run(connections: 1) { harness in
            let outcomes = await harness.backend.send(PushNotification(title: "x"), to: harness.register(1000))
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            let counters = harness.simulator.counters
            #expect(counters.accepted == 1000)
            #expect(counters.streamsRefused == 0, "never more streams than allowed")
            #expect(counters.duplicateIDs == 0)
            #expect(counters.connectionsOpened == 1)
            #expect(harness.backend.window == 1000)
        }
    }

    @Test("While the stream limit moves, also to 0 and back, nothing is lost or doubled")
    func movingLimit() async throws {
        try await SocketHarness.run(connections: 1) { harness in
            await harness.warmUp()
            let recipients = harness.register(200)
            harness.simulator.setMaximumStreams(0)
            async let outcomes = harness.backend.send(PushNotification(title: "x"), to: recipients)
            for limit in [3, 0, 50] {
                // Each frame goes out behind the last; the server's own loop keeps the order.
                harness.simulator.setMaximumStreams(limit)
            }
            #expect(await outcomes.allSatisfy { $0.acceptance != nil })
            // A limit that shrinks while streams are on their way refuses some: those go out again, once.
            #expect(harness.simulator.counters.accepted == 201)
            #expect(harness.simulator.counters.duplicateIDs == 0)
        }
    }

    // MARK: Section 6, row by row

    @Test("Every reason of the table comes through the wire with its outcome", arguments: APNsRejectionsTests.rows)
    func reason(row: APNsRejectionsTests.Row) async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.add(
                FaultRule(match: FaultMatch(tokenPrefix: "5e"), .answer(FaultAnswer(row.status, row.reason)))
            )
            let before = Date()
            let refusal = try #require(await harness.send(deviceToken(1)).refusal)
            #expect(refusal.kind == row.kind)
            #expect(refusal.advice == row.advice)
            #expect((refusal.invalidation != nil) == row.invalidates)
            if let invalidation = refusal.invalidation {
                #expect(!invalidation.isCertain)
                #expect(abs(invalidation.asOf.timeIntervalSince(before)) < 60)
            }
            // A fresh token that is refused twice is held for a second.
            guard row.reason != "ExpiredProviderToken" else { return }
            #expect(await harness.send(goodToken).acceptance != nil, "others go on")
        }
    }

    @Test("410 tells since when, before and after a registration", arguments: [-3600, 3600])
    func gone(offset: Int) async throws {
        try await SocketHarness.run { harness in
            let time = Date(timeIntervalSince1970: Double(Int(Date().timeIntervalSince1970) + offset) + 0.123)
            harness.simulator.unregister(token: goodToken, at: time)
            let invalidation = try #require(await harness.send().refusal?.invalidation)
            #expect(invalidation.isCertain)
            #expect(invalidation.asOf.millisecondsSince1970 == time.millisecondsSince1970)
        }
    }

    @Test("503 with Retry-After hands the wish on")
    func retryAfter() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.add(FaultRule(.answer(FaultAnswer(503, "ServiceUnavailable", retryAfter: 17))))
            #expect(await harness.send().refusal?.advice == .retry(after: .seconds(17)))
        }
    }

    @Test("A middlebox's answer is a refusal of the platform and invalidates no token")
    func middlebox() async throws {
        try await SocketHarness.run { harness in
            let page = Array("<html><body>Blocked</body></html>".utf8)
            harness.simulator.add(
                FaultRule(match: FaultMatch(count: 1), .answer(.htmlPage)),
                FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(404, body: page)))
            )
            let bad = try #require(await harness.send().refusal)
            #expect(bad.kind == .platform)
            let foreign = try #require(await harness.send().refusal)
            #expect(foreign.reason == "foreign_answer")
            #expect(foreign.advice == .parkBackend)
            #expect(foreign.invalidation == nil)
        }
    }

    @Test("Odd but harmless answers are taken", arguments: [FaultDistortion.withoutID, .upperCaseID])
    func oddSuccess(distortion: FaultDistortion) async throws {
        try await SocketHarness.run { harness in
            harness.simulator.add(FaultRule(.distort(distortion)))
            let addressee = Addressee(recipient())
            harness.simulator.register(tokens: [goodToken])
            let acceptance = try #require(await harness.send(addressee).acceptance)
            let expected = distortion == .withoutID ? nil : addressee.messageID.description
            #expect(acceptance.platformID?.lowercased() == expected)
        }
    }

    @Test(
        "A refusal without a body, or with half of one, is judged by its status",
        arguments: [
            FaultDistortion.emptyBody, .truncatedBody,
        ]
    )
    func oddRefusal(distortion: FaultDistortion) async throws {
        try await SocketHarness.run { harness in
            harness.simulator.add(FaultRule(.distort(distortion)))
            let refusal = try #require(await harness.send("00").refusal)
            #expect(refusal.reason == "http_400")
            #expect(refusal.invalidation == nil)
        }
    }

    // MARK: Below HTTP

    @Test("GOAWAY in mid-batch: what was not processed goes out again, nothing is lost or doubled")
    func goAway() async throws {
        for last in [SandboxGoAway.LastStream.middle, .none, .current] {
            try await SocketHarness.run { harness in
                await harness.warmUp()
                let recipients = harness.register(400)
                let frame = SandboxGoAway(reason: "Shutdown", last: last)
                harness.simulator.add(
                    FaultRule(match: FaultMatch(tokenPrefix: "5e", requests: 100...100), .goAway(frame))
                )
                let outcomes = await harness.backend.send(PushNotification(title: "x"), to: recipients)
                #expect(outcomes.count { $0.acceptance != nil } == 400)
                let counters = harness.simulator.counters
                #expect(counters.goAways >= 1)
                #expect(counters.duplicateIDs == 0)
                #expect(Set(harness.simulator.inbox.map(\.token)).count == 401)
                #expect(counters.connectionsOpened >= 2)
            }
        }
    }

    @Test("After a GOAWAY the next message finds another connection")
    func afterGoAway() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.goAway(SandboxGoAway(reason: "IdleTimeout", ending: .linger))
            #expect(await harness.simulator.wait { $0.goAways >= 1 })
            for _ in 0..<20 { #expect(await harness.send().acceptance != nil) }
            #expect(harness.simulator.counters.accepted == 21)
        }
    }

    @Test("503 Shutdown: try again, on another connection")
    func shutdown() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.add(FaultRule.shutdown())
            #expect(await harness.send().refusal?.advice == .retry(after: nil))
            #expect(await harness.send().acceptance != nil)
            #expect(harness.simulator.counters.connectionsOpened == 2)
        }
    }

    static let losses: [(FaultStep, String)] = [
        (.resetStream(code: 2), "stream_reset"), (.end(.reset), "connection_lost"), (.end(.fin), "connection_lost"),
        (.end(.close), "connection_lost"), (.silence, "deadline"), (.blackHole, "deadline"),
    ]

    @Test("No answer after the message was out: unknown, neither success nor failure", arguments: losses)
    func unknown(step: FaultStep, reason: String) async throws {
        try await SocketHarness.run(timeout: .seconds(reason == "deadline" ? 3 : 30)) { harness in
            #expect(await harness.warmUp().acceptance != nil)
            harness.simulator.add(FaultRule(match: FaultMatch(tokenPrefix: "5e", count: 1), step))
            _ = harness.register(1)
            let outcome = await harness.send(deviceToken(0))
            guard case .unknown(let unknown) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(unknown.reason == reason)
            #expect(!unknown.isRepeatHarmful)
        }
    }

    @Test("A call without an answer must not ring twice")
    func harmful() async throws {
        try await SocketHarness.run(timeout: .seconds(3)) { harness in
            #expect(await harness.warmUp().acceptance != nil)
            harness.simulator.add(FaultRule(.silence))
            let outcome = await harness.backend.send(APNsHeadersTests.typed("voip"), to: [recipient()])[0]
            guard case .unknown(let unknown) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(unknown.isRepeatHarmful)
        }
    }

    @Test("REFUSED_STREAM is sent again within the send, since it was surely not processed")
    func refusedStream() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.add(FaultRule(match: FaultMatch(count: 1), .resetStream(code: 7)))
            #expect(await harness.send().acceptance != nil)
            #expect(harness.simulator.counters.duplicateIDs == 0)
        }
    }

    @Test("A message that may have been delivered shows once: its second copy replaces the first")
    func replay() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            var addressee = Addressee(harness.register(1)[0])
            // Accepted, but the answer is lost on the way.
            harness.simulator.add(FaultRule(at: .answerHeaders, match: FaultMatch(count: 1), .resetStream(code: 2)))
            guard case .unknown = await harness.send(addressee) else {
                Issue.record("half an answer is none")
                return
            }
            addressee.isReplay = true
            let outcome = await harness.send(addressee)
            #expect(outcome.acceptance?.platformID == addressee.messageID.description)
            let copies = harness.simulator.inbox.filter { $0.token == deviceToken(0) }
            #expect(copies.map(\.presentation) == [.replaced, .shown])
            #expect(harness.simulator.counters.doubledOnDevice == 0)
        }
    }

    @Test("A slow answer is waited for")
    func slow() async throws {
        try await SocketHarness.run { harness in
            harness.simulator.register(tokens: [goodToken])
            harness.simulator.add(FaultRule(match: FaultMatch(count: 1), .delay(.milliseconds(300))))
            #expect(await harness.send().acceptance != nil)
        }
    }

    @Test("Answers are reported as they come, not at the end")
    func streaming() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            let recipients = harness.register(2)
            harness.simulator.add(
                FaultRule(match: FaultMatch(tokenPrefix: deviceToken(0)), .delay(.seconds(1)))
            )
            let groups = Mutex<[[Int]]>([])
            let request = PushRequest(PushNotification(title: "x"), to: recipients.map { Addressee($0) })
            await harness.backend.send([request]) { reports in
                groups.withLock { $0.append(reports.map(\.recipient)) }
            }
            #expect(groups.withLock { $0 } == [[1], [0]])
        }
    }

    @Test("While no connection can be made, messages are certainly not sent, and one attempt is made at a time")
    func outage() async throws {
        try await SocketHarness.run(timeout: .seconds(1)) { harness in
            harness.simulator.add(FaultRule.refuseConnections(listener: .production))
            let outcomes = await harness.backend.send(PushNotification(title: "x"), to: harness.register(100))
            #expect(outcomes.allSatisfy { $0.refusal?.kind == .platform && $0.refusal?.advice == .retry(after: nil) })
            #expect(harness.simulator.counters.connectionAttempts <= 5)
            #expect(harness.backend.health.status == .down)
            #expect(harness.backend.health.detail?.isEmpty == false)
        }
    }

    @Test("A wish to stop is obeyed, and everyone is told")
    func cancellation() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            // What goes out before the client knows of the limit is refused by the server, and not as cancelled.
            #expect(await harness.hasWindow(1000))
            harness.simulator.setMaximumStreams(0)
            #expect(await harness.hasWindow(1))
            let recipients = harness.register(50)
            let sending = Task { await harness.backend.send(PushNotification(title: "x"), to: recipients) }
            sending.cancel()
            let outcomes = await sending.value
            #expect(outcomes.count == 50)
            #expect(outcomes.allSatisfy { $0.refusal?.reason == "cancelled" })
        }
    }
}
