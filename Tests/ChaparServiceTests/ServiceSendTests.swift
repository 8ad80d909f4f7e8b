import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparService

@Suite("A service of one's own: sending", .timeLimit(.minutes(1)))
struct ServiceSendTests {
    @Test("The conformance kit passes over a socket", arguments: BackendConformance.checks)
    func kit(check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 60)
        let log = RecordedLog()
        let adjust: (inout ServiceOptions) -> Void = { options in
            options.maximumMessageBytes = 4_096
            options.common.timeout = timeout
        }
        try await Harness.run(adjust: adjust, logger: log.logger) { harness in
            let simulator = harness.simulator
            var subject = BackendConformance.Subject(
                backend: harness.backend,
                recipient: { Harness.token("t-\($0)") },
                others: [.user("u-1"), .topic("news")],
                deadRecipient: Harness.token("gone-1"),
                foreignRecipient: .token(DeviceToken("00fc13adff785122", service: .iOSAPNs)),
                taken: { simulator.counters.messages },
                payloadLimit: 4_096,
                disturb: {
                    simulator.removeFaults()
                    simulator.add(FaultRule.trouble(try #require(FaultRule.Trouble(rawValue: $0.rawValue))))
                }
            )
            subject.deadline = timeout
            subject.log = log
            subject.secrets = [Secret(ServiceSimulator.secret)]
            subject.takesRepeatsOnce = true
            subject.sent = { harness.sent.requests }
            subject.lacks = [.expiringCredentials, .addresses]
            subject.refuseCredential = { simulator.add(FaultRule(.answer(FaultAnswer(401)))) }
            subject.throttle = { pause in
                let answer = FaultAnswer(429, retryAfter: Int(clamping: pause.components.seconds))
                simulator.add(FaultRule(.answer(answer)))
            }
            subject.refusedUnderSuccess = Harness.token("fault-1")
            // Each request has a time and a signature of its own, and the contract marks a replay.
            subject.stripped = { request in
                var request = request
                request.headers.removeAll { $0.name.hasPrefix("webhook-") }
                request.body = Array(request.text.replacing(#","replay":true"#, with: "").utf8)
                return request
            }
            let skip = try await check.run(subject)
            #expect(skip?.isUndeclared != false, "the simulator can do all that the kit asks for")
        }
    }

    @Test("Fields common to all languages are encoded once, however many languages there are")
    func encodingWork() throws {
        let languages = Dictionary(uniqueKeysWithValues: (0..<200).map { ("l\($0)", "text \($0)") })
        let notification = PushNotification(
            body: .localized(default: "text", languages: languages),
            data: ["blob": .string(String(repeating: "x", count: 60_000))]
        )
        var message = ServicePayload(notification, expiration: nil)
        #expect(message.largestSize() > 60_000)
        #expect(message.encodedBytes < 70_000)
    }

    static let shapes: [PushNotification] = [
        .sample, PushNotification(badge: 1), PushNotification(data: ["a": 1], isSilent: true),
        PushNotification(), PushNotification(title: "T", image: "https://x.test/p.png", overrides: ["http": ["a": 1]]),
    ]

    @Test("A message is JSON of the size that was said, with and without texts", arguments: shapes)
    func sizes(notification: PushNotification) throws {
        var message = ServicePayload(notification, expiration: .at(7))
        let texts = message.texts(in: "fa")
        let bytes = message.bytes(with: texts)
        #expect(bytes.count == message.size(with: texts))
        let json = try JSONValue(parsing: bytes)
        #expect(json["content"]?["title"] == notification.title.map { .string($0.resolved(for: nil)) })
        #expect(json["options"]?["expires_at"] == 7)
        #expect(json.objectValue?.members.map(\.name).starts(with: ["content", "options"]) == true)
    }

    @Test("Every field of a message arrives, in the recipient's language")
    func fields() async throws {
        try await Harness.run { harness in
            let notification = PushNotification(
                title: .localized(default: "Order", languages: ["fa": "سفارش"]),
                subtitle: "118",
                body: "On its way",
                image: "https://x.test/p.png",
                sound: "bell",
                badge: 3,
                category: "order",
                clickURL: "app://orders/118",
                actions: [.init(id: "ok", title: "OK", url: "app://ok")],
                data: ["n": 1.5, "deep": ["a": [nil, true]]],
                priority: .normal,
                collapseID: "o-118",
                isSilent: true,
                overrides: ["http": ["template": 7]]
            )
            let ids = (0..<2).map { _ in MessageID.random() }
            let request = PushRequest(
                notification,
                to: [
                    Addressee(Harness.token("a"), messageID: ids[0], language: "fa-IR"),
                    Addressee(.user("u"), messageID: ids[1], isReplay: true),
                ],
                expiration: .at(4_000_000_000)
            )
            let outcomes = await harness.backend.send([request])[0]
            #expect(outcomes.map { $0.acceptance?.platformID } == ids.map { "s-\($0.description.prefix(8))" })
            let taken = harness.simulator.taken
            let message: JSONObject = [
                "content": [
                    "title": "Order", "subtitle": "118", "body": "On its way", "image": "https://x.test/p.png",
                    "sound": "bell", "badge": 3, "category": "order", "click_url": "app://orders/118",
                    "actions": [["id": "ok", "title": "OK", "url": "app://ok"]],
                    "data": ["n": 1.5, "deep": ["a": [nil, true]]],
                ],
                "options": [
                    "priority": "normal", "collapse_id": "o-118", "silent": true, "expires_at": 4_000_000_000,
                ],
                "overrides": ["template": 7],
            ]
            var persian = message
            persian["content"] = .object(
                (message["content"]?.objectValue ?? [:]).merging(["title": "سفارش"])
            )
            #expect(
                taken == [
                    [
                        "message": .object(persian),
                        "recipient": [
                            "id": .string("\(ids[0])"), "to": ["token": "a", "service": "x-pager"],
                            "language": "fa-IR",
                        ],
                    ],
                    [
                        "message": .object(message),
                        "recipient": ["id": .string("\(ids[1])"), "to": ["user": "u"], "replay": true],
                    ],
                ]
            )
        }
    }

    @Test("Requests are as few as the batch size allows", arguments: [(1, 1), (100, 1), (101, 2), (1_050, 11)])
    func batches(recipients: Int, requests: Int) async throws {
        try await Harness.run { harness in
            let outcomes = await harness.backend.send(.sample, to: (0..<recipients).map { Harness.token("t-\($0)") })
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            let seen = harness.simulator.counters
            #expect(seen.batches == requests && seen.messages == recipients)
            #expect(seen.largestBatch == min(recipients, 100))
        }
    }

    @Test("Many small notifications share requests")
    func shared() async throws {
        try await Harness.run { harness in
            let requests = (0..<250).map { number in
                PushRequest(PushNotification(title: .plain("n \(number)")), to: [Addressee(Harness.token("t"))])
            }
            let outcomes = await harness.backend.send(requests)
            #expect(outcomes.allSatisfy { $0[0].acceptance != nil })
            #expect(harness.simulator.counters.batches == 3)
        }
    }

    @Test("A message that comes again is not sent again, and hears the same")
    func repeats() async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(at: .processed, match: FaultMatch(count: 1), .end(.reset))])
            var request = PushRequest(.sample, to: [Addressee(Harness.token("a"))])
            let first = await harness.backend.send([request])[0][0]
            #expect(first.unknown?.reason == "connection_lost" && first.unknown?.isRepeatHarmful == false)
            request.recipients[0].isReplay = true
            #expect(await harness.backend.send([request])[0][0].acceptance != nil)
            let seen = harness.simulator.counters
            #expect(seen.messages == 1 && seen.repeats == 1)
        }
    }

    @Test("The service's words become outcomes, one by one")
    func words() async throws {
        try await Harness.run { harness in
            let addresses = ["gone-1", "a", "busy-1", "fault-1", "closed-1", "doubt-1", "silent-1", "b"]
            let outcomes = await harness.backend.send(.sample, to: addresses.map { Harness.token($0) })
            #expect(outcomes[0].refusal?.kind == .token && outcomes[0].refusal?.invalidation?.isCertain == true)
            #expect(outcomes[1].acceptance != nil && outcomes[7].acceptance != nil)
            #expect(outcomes[2].refusal?.advice == .retry(after: .seconds(1)))
            #expect(outcomes[3].refusal?.kind == .message && outcomes[3].refusal?.reason == "no_such_template")
            #expect(outcomes[4].refusal?.kind == .account && outcomes[4].refusal?.advice == .parkBackend)
            #expect(outcomes[5].unknown?.reason == "no_answer_from_the_operator")
            #expect(outcomes[6].unknown?.reason == "not_reported")
        }
    }

    static let statuses: [(FaultAnswer, Refusal.Kind?, Refusal.Advice?, String)] = [
        (FaultAnswer(400), .message, .never, "rejected"), (FaultAnswer(422), .message, .never, "rejected"),
        (FaultAnswer(401), .account, .parkBackend, "unauthorized"),
        (FaultAnswer(403), .account, .parkBackend, "unauthorized"),
        (FaultAnswer(404), .account, .parkBackend, "wrong_address"),
        (FaultAnswer(301), .account, .parkBackend, "wrong_address"),
        (FaultAnswer(413), .message, .never, "message_too_large"),
        (FaultAnswer(408), .platform, .retry(after: nil), "not_taken"),
        (FaultAnswer(429, retryAfter: 7), .platform, .slowBackend(after: .seconds(7)), "rate_limited"),
        (FaultAnswer(503, retryAfter: 9), .platform, .slowBackend(after: .seconds(9)), "unavailable"),
        (FaultAnswer(500), nil, nil, "status_500"), (FaultAnswer(502), nil, nil, "status_502"),
        (FaultAnswer(202), nil, nil, "bad_answer"),
        (FaultAnswer(200, body: Array("<html>".utf8)), nil, nil, "bad_answer"),
        (FaultAnswer(200, body: Array(#"{"outcomes":{}}"#.utf8)), nil, nil, "bad_answer"),
        (FaultAnswer(200, body: Array(#"{"outcomes":[3,{"id":"x"}]}"#.utf8)), nil, nil, "not_reported"),
    ]

    @Test("A status for the whole request means the same for each message", arguments: statuses)
    func status(answer: FaultAnswer, kind: Refusal.Kind?, advice: Refusal.Advice?, reason: String) async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(.answer(answer))])
            let outcome = await harness.outcome()
            if let kind {
                let refusal = try #require(outcome.refusal, "\(outcome)")
                #expect(refusal.kind == kind && refusal.reason == reason)
                #expect(refusal.advice == advice)
                #expect(refusal.invalidation == nil)
            } else {
                let unknown = try #require(outcome.unknown, "\(outcome)")
                #expect(unknown.reason == reason && !unknown.isRepeatHarmful)
            }
        }
    }

    @Test("A batch that is too large parks the backend, for a smaller one may pass")
    func large() async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(.answer(FaultAnswer(413)))])
            for outcome in await harness.backend.send(.sample, to: [Harness.token("a"), Harness.token("b")]) {
                #expect(outcome.refusal?.reason == "batch_too_large" && outcome.refusal?.advice == .parkBackend)
            }
        }
    }

    @Test("A service that knows only the previous or only the new secret accepts messages")
    func rotation() async throws {
        let other = Secret("another secret of enough bytes")
        for (secret, previous) in [
            (other, Secret(ServiceSimulator.secret)), (Secret(ServiceSimulator.secret), other),
        ] {
            try await Harness.run(adjust: { ($0.secret, $0.previousSecret) = (secret, previous) }) { harness in
                #expect(await harness.outcome().acceptance != nil)
                #expect(harness.simulator.counters.unsigned == 0 && harness.simulator.counters.messages == 1)
            }
        }
    }

    @Test("A wrong secret is told by doctor, and parks the backend")
    func secret() async throws {
        try await Harness.run(adjust: { $0.secret = Secret("another secret of enough bytes") }) { harness in
            #expect(await harness.outcome().refusal?.reason == "unauthorized")
            #expect(await harness.backend.diagnose().map(\.check) == ["secret"])
            #expect(harness.simulator.counters.unsigned == 2 && harness.simulator.counters.messages == 0)
        }
        try await Harness.run { harness in
            #expect(await harness.backend.diagnose().map(\.verdict) == [.ok])
            #expect(harness.simulator.counters.messages == 0)
        }
    }
}
