import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparChabok

/// Sending, by what the simulator saw: specs/chabok.md sections 9, 18 and 19.
@Suite("Chabok: sending", .timeLimit(.minutes(1)))
struct ChabokSendTests {
    /// A simulator that knows everybody.
    static let open: ChabokSimulator.Rules = .demonstration

    // MARK: Forms

    @Test("One user is one object, with everything that the notification says")
    func oneUser() async throws {
        try await Harness.run(Self.open) { harness in
            let notification = PushNotification(
                title: "Parcel 7781",
                subtitle: "On its way",
                body: "Left Tabriz, arrives tomorrow",
                image: "https://example.com/a.JPG?x=1",
                sound: "bell.caf",
                badge: 3,
                category: "parcel",
                clickURL: "shop://parcel/7781",
                actions: [.init(id: "map", title: "Map", url: "shop://map/7781"), .init(id: "ok", title: "OK")],
                data: ["kind": "parcel", "id": 7781],
                timeToLive: .milliseconds(7_199_500),
                collapseID: "parcels",
                overrides: ["chabok": ["trackId": "parcel-flow", "notification": ["color": "#ff0000"]]]
            )
            let addressee = Addressee(.user("989120001122"))
            let outcomes = await harness.backend.send([PushRequest(notification, to: [addressee])])
            #expect(outcomes[0][0].acceptance?.platformID == "m1")
            let expected = try JSONValue.parsed(
                """
                {"user":"989120001122","content":"Left Tabriz, arrives tomorrow","channel":"default",
                 "data":{"kind":"parcel","id":7781},"trackId":"parcel-flow","clientId":"\(addressee.messageID)","ttl":7200,
                 "notification":{"title":"Parcel 7781","subtitle":"On its way","body":"Left Tabriz, arrives tomorrow",
                 "badge":3,"sound":"bell.caf","groupId":"parcels","category":"parcel","clickUrl":"shop://parcel/7781",
                 "mediaUrl":"https://example.com/a.JPG?x=1","mediaType":"jpeg","mutableContent":true,"color":"#ff0000",
                 "actions":[{"id":"map","title":"Map","url":"shop://map/7781","options":4},{"id":"ok","title":"OK"}]}}
                """
            )
            #expect(harness.bodies("push/toUsers") == [expected])
        }
    }

    @Test("Many users with one text share calls of 500, and a user named twice is sent to once")
    func manyUsers() async throws {
        try await Harness.run(Self.open) { harness in
            let users = (0..<1_001).map { Recipient.user("u-\($0)") } + [.user("u-0")]
            let outcomes = await harness.backend.send(.sample, to: users)
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(outcomes[0] == outcomes[1_001])
            let bodies = harness.bodies("push/toUsers")
            let counts = bodies.map { $0["users"]?.arrayValue?.count ?? ($0["user"] == nil ? 0 : 1) }
            #expect(counts.sorted() == [1, 500, 500])
            let named = bodies.flatMap { body in
                (body["users"]?.arrayValue ?? [body["user"] ?? .null]).compactMap(\.stringValue)
            }
            #expect(named.count == 1_001 && Set(named) == Set((0..<1_001).map { "u-\($0)" }))
        }
    }

    @Test("Different texts to single users are one array, each with its own id")
    func array() async throws {
        try await Harness.run(Self.open) { harness in
            let requests = (0..<3).map { number in
                PushRequest(PushNotification(body: .plain("Code \(number)")), to: [Addressee(.user("u-\(number)"))])
            }
            let outcomes = await harness.backend.send(requests).flatMap(\.self)
            #expect(outcomes.map { $0.acceptance?.platformID } == ["m1", "m2", "m3"])
            let bodies = harness.bodies("push/toUsers")
            #expect(bodies.count == 1)
            #expect(bodies.first?.arrayValue?.map { $0["content"]?.stringValue } == ["Code 0", "Code 1", "Code 2"])
            #expect(bodies.first?.arrayValue?[1]["useAsAlert"] == true, "a text alone is the alert")
        }
    }

    @Test("Languages make bodies of their own")
    func languages() async throws {
        try await Harness.run(Self.open) { harness in
            let text = LocalizedText.localized(default: "Hello", languages: ["fa": "درود"])
            let recipients = [("a", "fa"), ("b", "en"), ("c", "fa-IR")].map { Addressee(.user($0), language: $1) }
            _ = await harness.backend.send([PushRequest(PushNotification(body: text), to: recipients)])
            let bodies = harness.bodies("push/toUsers")
            let byText = Dictionary(bodies.map { ($0["content"]?.stringValue ?? "", $0) }) { first, _ in first }
            #expect(byText["Hello"]?["user"] == "b")
            #expect(bodies.count == 2 && byText["درود"]?["users"] == ["a", "c"])
        }
    }

    static let audiences: [(Recipient, ChabokOptions.Mechanism, String, String)] = [
        (.topic("news"), .message, "push/toUsers", #"{"user":"*","channel":"public/news"}"#),
        (.topic("public/news"), .message, "push/toUsers", #"{"user":"*","channel":"public/news"}"#),
        (
            .tags(TagFilter(all: ["gold", "city:Yazd"], none: ["old"])), .message, "push/byQuery",
            """
            {"channel":"default","segment":{"all":[{"name":"tags","operator":"include","value":["gold"]},
            {"name":"tags","operator":"include","value":["city_Yazd"]},
            {"name":"tags","operator":"not_include","value":["old"]}]}}
            """
        ),
        (
            .tags(TagFilter(any: ["a", "b"])), .notification, "push/notifyUsers",
            #"{"segment":{"all":[{"name":"tags","operator":"include","value":["a","b"]}]}}"#
        ),
        (.everyone, .message, "push/notifyUsers", #"{"target":{}}"#),
        (.user("u-1"), .notification, "push/notifyUsers", #"{"user":"u-1"}"#),
    ]

    @Test("Each audience has its call and its form", arguments: audiences)
    func audience(recipient: Recipient, way: ChabokOptions.Mechanism, path: String, form: String) async throws {
        try await Harness.run(Self.open, adjust: { ($0.mechanism, $0.allowsBroadcast) = (way, true) }) { harness in
            let outcome = await harness.backend.send(PushNotification(body: "B"), to: [recipient])[0]
            #expect(outcome.acceptance != nil, "\(outcome)")
            var body = try #require(harness.bodies(path).first?.objectValue)
            #expect(body["content"] == "B" && body["useAsAlert"] == true)
            for name in ["content", "useAsAlert", "clientId"] { body[name] = nil }
            #expect(.object(body) == (try JSONValue.parsed(form)))
        }
    }

    @Test("A smart message brings its fallback, and goes to one user at a time")
    func smart() async throws {
        let adjust = { (options: inout ChabokOptions) in
            options.mechanism = .smart
            options.fallback = .init(media: .sms, delay: 45, content: "Code 4410")
        }
        try await Harness.run(Self.open, adjust: adjust) { harness in
            let code = PushNotification(title: "Sign-in", body: "Code 4410", timeToLive: .seconds(120))
            let outcomes = await harness.backend.send(code, to: [.user("98912"), .user("98913"), .topic("news")])
            #expect(outcomes.map(\.word) == ["accepted", "accepted", "message unsupported_mechanism"])
            let expected = try JSONValue.parsed(
                """
                {"user":"98912","content":"Code 4410","ttl":120,"fallback":{"content":"Code 4410","delay":45,"media":"sms",
                "policy":"NOTIFICATION_SHOWN"},"notification":{"title":"Sign-in","body":"Code 4410"}}
                """
            )
            #expect(harness.bodies("push/notifyToUsers").contains(expected))
            #expect(harness.bodies("push/notifyToUsers").count == 2)
            let bare = await harness.backend.send(.sample, to: [.user("98912")])[0]
            #expect(bare.word == "message ttl_missing")
        }
    }

    @Test("A registered device is its user's private channel; an unknown one is refused")
    func devices() async throws {
        try await Harness.run { harness in
            let id = try await harness.backend.installations.register(.sample())
            let outcomes = await harness.backend.send(
                .sample,
                to: [.device("d-1"), .platformID(id), .device("d-2"), .platformID("nobody")]
            )
            #expect(
                outcomes.map(\.word) == ["accepted", "accepted", "token not_registered", "token unknown_installation"]
            )
            let bodies = harness.bodies("push/toUsers")
            #expect(bodies.allSatisfy { $0["user"] == "u-1" && $0["channel"] == .string("private/\(id)") })
        }
    }

    @Test("A time of zero asks for those who are there now, a silent message shows nothing")
    func specials() async throws {
        try await Harness.run(Self.open) { harness in
            let now = PushNotification(body: "B", timeToLive: .zero)
            let silent = PushNotification(data: ["a": 1], isSilent: true)
            _ = await harness.backend.send(now, to: [.user("a")])
            _ = await harness.backend.send(silent, to: [.user("b")])
            let bodies = harness.bodies("push/toUsers")
            #expect(bodies[0]["live"] == true && bodies[0]["ttl"] == nil)
            #expect(bodies[1]["silent"] == true && bodies[1]["notification"] == ["contentAvailable": true])
        }
    }

    // MARK: Answers

    @Test("All four shapes of success are read", arguments: ChabokSimulator.Shape.allCases)
    func shapes(shape: ChabokSimulator.Shape) async throws {
        var rules = Self.open
        rules.shape = shape
        try await Harness.run(rules) { harness in
            let outcome = await harness.backend.send(.sample, to: [.user("a")])[0]
            #expect(outcome.acceptance?.platformID == (shape == .count ? nil : "m1"))
            let sent = try await harness.backend.messages.send(.sample, to: .users(["a", "b"]))
            #expect(sent.devices == (shape == .ids ? nil : 2))
        }
    }

    @Test("A count of no devices is no success")
    func nobody() async throws {
        try await Harness.run { harness in
            harness.simulator.addInstallation(of: "known")
            let outcomes = await harness.backend.send(.sample, to: [.user("stranger")])
            #expect(outcomes[0].word == "token no_recipients")
            #expect(outcomes[0].refusal?.advice == .never)
            #expect(await harness.backend.send(.sample, to: [.user("known")])[0].acceptance != nil)
        }
    }

    static let errors: [(FaultAnswer, String, Refusal.Advice)] = [
        (FaultAnswer(400, "bad"), "message invalid_request", .never),
        (FaultAnswer(422, "bad"), "message invalid_request", .never),
        (FaultAnswer(401, "Authorization Required"), "account unauthorized", .parkBackend),
        (FaultAnswer(403, "no"), "account unauthorized", .parkBackend),
        (FaultAnswer(404, "Unknown"), "message not_found", .never), (FaultAnswer(413), "message too_large", .never),
        (FaultAnswer(429, retryAfter: 7), "platform rate_limited", .slowBackend(after: .seconds(7))),
        (FaultAnswer(500, "Error"), "platform server_fault", .retry(after: nil)),
        (FaultAnswer(503, retryAfter: 3), "platform unavailable", .retry(after: .seconds(3))),
        (.htmlPage, "platform unavailable", .retry(after: nil)),
        (FaultAnswer(302), "account redirected", .parkBackend),
    ]

    @Test("A count beyond every number of recipients is bounded, and its sum does not end the process")
    func largeCounts() {
        let body = #"[{"id":"a","count":9223372036854775807},{"id":"b","count":1}]"#
        #expect(ChabokAnswer(HTTPAnswer(status: 200, body: Array(body.utf8)), retryAfter: nil).count == (1 << 48) + 1)
    }

    @Test("Every error of the table has its outcome, after one request", arguments: errors)
    func errorTable(answer: FaultAnswer, word: String, advice: Refusal.Advice) async throws {
        try await Harness.run(Self.open) { harness in
            harness.simulator.add([FaultRule(.answer(answer))])
            let outcome = await harness.backend.send(.sample, to: [.user("a")])[0]
            #expect(outcome.word == word)
            #expect(outcome.refusal?.advice == advice)
            #expect(harness.calls.count == 1)
        }
    }

    @Test("A fault of the server has one second chance for each delivery")
    func secondChance() async throws {
        try await Harness.run(Self.open) { harness in
            harness.simulator.add([FaultRule(.answer(FaultAnswer(500)))])
            let request = PushRequest(.sample, to: [Addressee(.user("a"))])
            #expect(await harness.backend.send([request])[0][0].refusal?.advice == .retry(after: nil))
            #expect(await harness.backend.send([request])[0][0].refusal?.advice == .never)
        }
    }

    static let ambiguous: [FaultRule] = [
        FaultRule(at: .processed, .end(.reset)), FaultRule(at: .processed, .silence),
        FaultRule(at: .processed, .distort(.truncatedBody)), FaultRule(at: .processed, .distort(.emptyBody)),
        FaultRule(.answer(FaultAnswer(200, body: Array("<html>".utf8)))),
    ]

    @Test("A send without a readable answer is unknown, sent once, and not to be repeated", arguments: ambiguous)
    func unknown(rule: FaultRule) async throws {
        for resends in [false, true] {
            let adjust = { (options: inout ChabokOptions) in
                options.resendsAmbiguous = resends
                options.common.timeout = .seconds(5)
            }
            try await Harness.run(Self.open, adjust: adjust) { harness in
                // The connection is there before, so that the short deadline is for the answer alone.
                _ = try await harness.backend.installations.tags()
                harness.simulator.add([rule])
                let outcome = await harness.backend.send(.sample, to: [.user("a")])[0]
                #expect(outcome.unknown?.isRepeatHarmful == !resends, "\(outcome)")
                #expect(harness.bodies("push/toUsers").count == 1)
                #expect(harness.backend.isRepeatHarmful(.sample) == !resends)
            }
        }
    }

    @Test("A host that refuses connections has certainly not got the message")
    func unreachable() async throws {
        let nowhere = HTTPBaseURL(HTTPEndpoint(host: "127.0.0.1", port: 1), path: "/api")
        // It tries again and again for as long as the deadline allows.
        try await Harness.run(adjust: { ($0.base, $0.common.timeout) = (nowhere, .seconds(3)) }) { harness in
            let outcome = await harness.backend.send(.sample, to: [.user("a")])[0]
            // Both words say that nothing was sent: the deadline may pass in the middle of a try to connect.
            #expect(["platform connect_failed", "platform deadline"].contains(outcome.word), "\(outcome)")
            #expect(outcome.refusal?.advice == .retry(after: nil))
            #expect(harness.backend.health.status == .down)
        }
    }

    // MARK: Before any request

    static let refused: [(Recipient, String)] = [
        (.user(""), "message bad_user"), (.user("a/b"), "message bad_user"), (.user("*"), "message bad_user"),
        (.user(String(repeating: "a", count: 65)), "message bad_user"), (.user("a b"), "message bad_user"),
        (.everyone, "message broadcast_not_allowed"), (.topic("private/x"), "message bad_channel"),
        (.topic("a/b/c"), "message bad_channel"), (.tags(TagFilter()), "message audience_empty"),
        (.token(DeviceToken("secret-token", service: .iOSAPNs)), "token wrong_token_service"),
    ]

    @Test("A recipient that Chabok refuses is refused without it, and alone", arguments: refused)
    func recipients(recipient: Recipient, word: String) async throws {
        try await Harness.run(Self.open) { harness in
            let outcomes = await harness.backend.send(.sample, to: [recipient, .user("good")])
            #expect(outcomes.map(\.word) == [word, "accepted"])
            #expect(harness.calls.count == 1)
        }
    }

    @Test(
        "All mistakes of a notification are told at once, what cannot be expressed is a warning, or strictly an error"
    )
    func check() async throws {
        try await Harness.run { harness in
            let bad = PushNotification(
                subtitle: "no title",
                actions: [.init(id: "", title: "A"), .init(id: "x", title: "")],
                timeToLive: .seconds(-1),
                overrides: ["chabok": ["user": "x", "inapp": true, "silent": 1, "channel": "a/b/c"]]
            )
            let found = harness.backend.check(bad, for: .user).faults.map(\.code)
            for code in [
                "nothing_to_show", "title_missing", "bad_action", "bad_ttl", "reserved_key", "unknown_override",
                "bad_value", "bad_channel",
            ] {
                #expect(found.contains(code), "\(code)")
            }
            let sly = PushNotification(title: "T", overrides: ["chabok": ["allow_broadcast": true]])
            #expect(harness.backend.check(sly, for: .everyone).faults.map(\.code) == ["reserved_key"])
            let slow = PushNotification(title: "T", body: "B", priority: .normal)
            #expect(harness.backend.check(slow, for: .user).warnings.map(\.code) == ["priority_dropped"])
        }
        try await Harness.run(adjust: { $0.isStrict = true }) { harness in
            let slow = PushNotification(title: "T", body: "B", priority: .normal)
            #expect(harness.backend.check(slow, for: .user).faults.map(\.code) == ["priority_dropped"])
        }
    }

    // MARK: In code

    @Test("Queries are checked before they go out, and everybody must be meant")
    func queries() async throws {
        try await Harness.run(Self.open) { harness in
            let messages = harness.backend.messages
            let rules: [ChabokSegment.Rule] = [
                .init("clientVersion", .lesserThan, "3.4.0"), .init("tags", .include, ["GOLD"]),
                .init("launchTime", .after, "72h"), .init("purchase.count", .greaterThan, 2),
            ]
            _ = try await messages.send(.sample, to: .segment(ChabokSegment(rules)))
            #expect(harness.bodies("push/byQuery").first?["segment"]?["all"]?.arrayValue?.count == 4)
            _ = try await messages.send(.sample, to: .target(["deviceType": "ios"]), mechanism: .notification)
            #expect(harness.bodies("push/notifyUsers").first?["target"] == ["deviceType": "ios"])
            let wrong: [ChabokAudience] = [
                .segment(ChabokSegment([])), .segment(ChabokSegment([.init("colour", .equalTo, "red")])),
                .segment(ChabokSegment([.init("launchTime", .after, "3 days")])),
                .segment(ChabokSegment([.init("tags", .before, "3h")])),
                .segment(ChabokSegment([.init("tags", .include, "GOLD")])), .target([:]), .target("{}"), .everyone,
                .users([]), .user("a/b"), .channel("private/x"),
            ]
            let before = harness.calls.count
            for audience in wrong {
                let error = await failure { () throws(PushError) in _ = try await messages.send(.sample, to: audience) }
                #expect(error?.code == .invalidRequest, "\(audience)")
            }
            #expect(harness.calls.count == before)
            _ = try await messages.send(.sample, to: .everyone, allowsBroadcast: true)
            #expect(harness.bodies("push/notifyUsers").last?["target"] == [:])
        }
    }

    @Test("Taking notifications away is a wish that an app understands, not a call")
    func cancellation() async throws {
        try await Harness.run(Self.open) { harness in
            _ = try await harness.backend.messages.requestCancellation(of: ["m1"], at: "a")
            _ = try await harness.backend.messages.requestCancellation(of: nil, at: "a")
            let data = harness.bodies("push/toUsers").map { $0["data"] }
            #expect(data == [["gw_op": "cancel", "ids": ["m1"]], ["gw_op": "cancelAll"]])
            #expect(harness.backend.cancellation == nil)
        }
    }

    // MARK: Conformance

    @Test("The backend keeps what every backend promises", arguments: BackendConformance.checks)
    func conformance(_ check: BackendConformance.Check) async throws {
        let timeout = Duration.seconds(check.wantsHaste ? 3 : 60)
        let log = RecordedLog()
        let adjust: (inout ChabokOptions) -> Void = { options in
            options.common.timeout = timeout
            options.allowsBroadcast = true
            options.forwardsClicks = true
            options.webhookSecret = Secret("0123456789abcdef")
        }
        try await Harness.run(Self.open, state: MemoryState(), adjust: adjust, logger: log.logger) { harness in
            let simulator = harness.simulator
            let installation = simulator.addInstallation(of: "u-1")
            _ = try await harness.backend.devices?.register(.sample())
            var subject = BackendConformance.Subject(
                backend: harness.backend,
                recipient: { .user("u-\($0)") },
                others: [
                    .device("d-1"), .platformID(installation), .topic("news"), .tags(TagFilter(any: ["a"])), .everyone,
                ],
                foreignRecipient: .token(DeviceToken("foreign-device-token", service: .iOSFirebase)),
                taken: { simulator.messages().count },
                requests: { simulator.requests.count },
                payloadLimit: ChabokCheck.limit,
                givesPlatformIDs: false,
                disturb: {
                    simulator.removeFaults()
                    simulator.add(FaultRule.trouble(try #require(FaultRule.Trouble(rawValue: $0.rawValue))))
                }
            )
            subject.deadline = timeout
            subject.log = log
            subject.secrets = [Secret(simulator.rules.accessTokens[ChabokSimulator.sandbox] ?? "")]
            subject.sent = { harness.sent.requests }
            subject.now = { harness.time.now }
            subject.lacks = [.expiringCredentials, .addresses]
            subject.refuseCredential = { simulator.add(FaultRule(.answer(FaultAnswer(401)))) }
            subject.throttle = { pause in
                let answer = FaultAnswer(429, retryAfter: Int(clamping: pause.components.seconds))
                simulator.add(FaultRule(.answer(answer)))
            }
            subject.means.device = .sample("d-2")
            subject.means.tags = ["vip": nil, "plan": "gold"]
            subject.means.reported = { "m7" }
            subject.means.recallUser = "u-1"
            subject.means.tracked = {
                _ = await harness.backend.send(.sample, to: [.user("u-1")])
                return simulator.messages().last?.id ?? ""
            }
            subject.means.callback = {
                ReceiptCallback(
                    headers: [HTTPHeader("x-webhook-secret", "0123456789abcdef")],
                    body: Array(#"{"event":"message_delivery","messageId":"m1","deliveredAt":1000000}"#.utf8),
                    receivedAt: Date(timeIntervalSince1970: 2_000)
                )
            }
            subject.means.click = ReportedClick(
                ["message": ["id": "m7", "data": ["order": 41]]],
                action: "map",
                device: "d-1",
                at: Date(timeIntervalSince1970: 1_767_225_600)
            )
            try await check.run(subject)
        }
    }
}
