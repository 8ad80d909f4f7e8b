import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparWebPush

@Suite("Answers of push services", .timeLimit(.minutes(1)))
struct WebPushAnswerTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let service: WebPushService
        let answer: FaultAnswer
        let word: String
        let advice: Refusal.Advice?
        let isDead: Bool
        /// The number of requests for one message.
        let requests: Int

        init(
            _ service: WebPushService,
            _ answer: FaultAnswer,
            _ word: String,
            _ advice: Refusal.Advice? = nil,
            dead isDead: Bool = false,
            requests: Int = 1
        ) {
            self.service = service
            self.answer = answer
            self.word = word
            self.advice = advice
            self.isDead = isDead
            self.requests = requests
        }

        var testDescription: String { "\(service) \(answer.status) \(answer.reason ?? "")" }
    }

    static let mismatch = Array(#"{"errno":109,"message":"VAPID public key mismatch"}"#.utf8)
    static let rows: [Row] = [
        Row(.mozilla, FaultAnswer(400, "101"), "message errno_101", .never),
        Row(.mozilla, FaultAnswer(400, "111"), "message errno_111", .never),
        Row(.mozilla, FaultAnswer(400, "113"), "message errno_113", .never, requests: 2),
        Row(.mozilla, FaultAnswer(401, "109"), "account errno_109", .parkBackend, requests: 2),
        Row(.mozilla, FaultAnswer(401, body: mismatch), "token vapid_key_mismatch", .never),
        Row(.mozilla, FaultAnswer(404, "102"), "token errno_102", .never, dead: true),
        Row(.mozilla, FaultAnswer(410, "103"), "token errno_103", .never, dead: true),
        Row(.mozilla, FaultAnswer(410, "106"), "token errno_106", .never, dead: true),
        Row(.mozilla, FaultAnswer(413, "104"), "message too_large", .never),
        Row(.mozilla, FaultAnswer(500, "999"), "platform errno_999", .retry(after: nil)),
        Row(.mozilla, FaultAnswer(502, "900"), "platform errno_900", .retry(after: nil)),
        Row(.mozilla, FaultAnswer(502, "903"), "unknown errno_903"),
        Row(
            .mozilla,
            FaultAnswer(503, "201", retryAfter: 120),
            "platform errno_201",
            .slowBackend(after: .seconds(120))
        ),
        Row(.mozilla, FaultAnswer(503, "202"), "platform errno_202", .retry(after: nil)),
        Row(.mozilla, FaultAnswer(429), "platform throttled", .slowBackend(after: nil)),
        Row(.apple, FaultAnswer(400, "BadWebPushTopic"), "message BadWebPushTopic", .never, requests: 2),
        Row(.apple, FaultAnswer(400, "BadTtl"), "message BadTtl", .never),
        Row(.apple, FaultAnswer(400, "VapidPkHashMismatch"), "token vapid_key_mismatch", .never),
        Row(.apple, FaultAnswer(403, "BadJwtToken"), "account BadJwtToken", .parkBackend, requests: 2),
        Row(.apple, FaultAnswer(410, "Unregistered"), "token Unregistered", .never, dead: true),
        Row(.apple, FaultAnswer(410), "token gone", .never, dead: true),
        Row(
            .apple,
            FaultAnswer(429, "TooManyRequests", retryAfter: 30),
            "token TooManyRequests",
            .slowRecipient(after: .seconds(30))
        ),
        Row(.fcm, FaultAnswer(400, "UnauthorizedRegistration"), "account UnauthorizedRegistration", .parkBackend),
        Row(.fcm, FaultAnswer(401), "token unauthorized", .retry(after: nil), requests: 2),
        Row(.fcm, FaultAnswer(403, "the credentials do not correspond to"), "token vapid_key_mismatch", .never),
        Row(.fcm, FaultAnswer(404, "NotRegistered"), "token gone", .never, dead: true),
        Row(
            .wns,
            FaultAnswer(400, headers: [HTTPHeader("x-wns-error-description", "Ttl")]),
            "message wns_rejected",
            .never
        ),
        Row(
            .wns,
            FaultAnswer(406, "appthrottled", retryAfter: 900),
            "platform appthrottled",
            .slowBackend(after: .seconds(900))
        ),
        Row(
            .wns,
            FaultAnswer(406, "channelthrottled", retryAfter: 900),
            "token channelthrottled",
            .slowRecipient(after: .seconds(900))
        ),
        Row(.wns, FaultAnswer(410), "token gone", .never, dead: true),
        Row(
            .plain,
            FaultAnswer(302, headers: [HTTPHeader("location", "https://127.0.0.1/")]),
            "account redirect",
            .parkBackend
        ),
        Row(.plain, FaultAnswer(200), "accepted"), Row(.plain, FaultAnswer(202), "accepted"),
        Row(.plain, FaultAnswer(204), "accepted"),
        Row(.plain, FaultAnswer(200, body: Array("<html>".utf8)), "unknown bad_answer"),
        Row(.plain, FaultAnswer(418), "message rejected", .never), Row(.plain, FaultAnswer(502), "unknown bad_gateway"),
        Row(.plain, FaultAnswer(503, retryAfter: 7), "platform unavailable", .slowBackend(after: .seconds(7))),
    ]

    @Test("Each answer has its meaning", arguments: rows)
    func answers(row: Row) async throws {
        try await Harness.run { harness in
            harness.fault(row.service, row.answer)
            var notification = PushNotification.sample
            notification.collapseID = "order-4711"
            let outcome = await harness.send(notification, at: row.service)
            #expect(outcome.word == row.word)
            #expect(outcome.refusal?.advice == row.advice)
            #expect((outcome.refusal?.invalidation != nil) == row.isDead)
            #expect(outcome.refusal?.invalidation?.isCertain ?? row.isDead == row.isDead)
            #expect(harness.sent.requests.count == row.requests)
            #expect(!"\(outcome)".contains("b-1"), "no endpoint in an outcome")
        }
    }

    @Test("The simulator's own refusals are in the table too", arguments: WebPushService.allCases)
    func strict(service: WebPushService) async throws {
        try await Harness.run(.demonstration) { harness in
            for (id, isDead) in [
                ("sim-gone1", true), ("sim-unknown1", true), ("sim-large1", false), ("sim-otherkey1", false),
            ] {
                let refusal = await harness.send(to: id, at: service).refusal
                #expect((refusal?.invalidation != nil) == isDead, "\(id)")
            }
            #expect(await harness.send(to: "sim-busy1", at: service).refusal != nil)
            #expect(await harness.send(to: "sim-busy1", at: service).isAccepted)
        }
    }

    @Test("An acceptance has the id of the service's message, and no address")
    func ids() async throws {
        try await Harness.run { harness in
            #expect(await harness.send(at: .apple).acceptance?.platformID == "message-0")
            #expect(await harness.send(at: .mozilla).acceptance?.platformID == "message-1")
        }
    }

    @Test("A refused VAPID token is signed anew once")
    func signsAnew() async throws {
        try await Harness.run { harness in
            harness.fault(.apple, FaultAnswer(403, "BadJwtToken"), count: 1)
            #expect(await harness.send(at: .apple).isAccepted)
            harness.fault(.fcm, FaultAnswer(401), count: 1)
            #expect(await harness.send(at: .fcm).isAccepted)
            harness.fault(.apple, FaultAnswer(400, "BadWebPushTopic"), count: 1)
            var notification = PushNotification.sample
            notification.collapseID = "a"
            #expect(await harness.send(notification, at: .apple).isAccepted)
            #expect(harness.simulator.inbox().last?.topic == nil)
        }
    }

    @Test("TTL, urgency and topic are those of the message; Microsoft gets the policy that fits")
    func fields() async throws {
        try await Harness.run { harness in
            var notification = PushNotification.sample
            notification.collapseID = "order-4711"
            notification.timeToLive = .zero
            for service in WebPushService.allCases {
                #expect(await harness.send(notification, at: service).isAccepted, "\(service)")
                let taken = try #require(harness.simulator.inbox().last)
                #expect((taken.timeToLive, taken.urgency) == (0, "high"))
                #expect(taken.topic?.utf8.count == 32)
            }
            #expect(Set(harness.simulator.inbox().map(\.topic)).count == 1)
            notification.timeToLive = .seconds(60)
            notification.priority = .normal
            notification.collapseID = "order-4712"
            #expect(await harness.send(notification, at: .wns).isAccepted)
            let taken = try #require(harness.simulator.inbox().last)
            #expect((taken.timeToLive, taken.urgency) == (60, "normal"))
            #expect(taken.topic != harness.simulator.inbox().first?.topic)
            notification.timeToLive = nil
            notification.overrides["webpush"] = ["urgency": "very-low"]
            #expect(await harness.send(notification).isAccepted)
            #expect(harness.simulator.inbox().last?.timeToLive == 2_419_200)
            #expect(harness.simulator.inbox().last?.urgency == "very-low")
        }
    }

    @Test("A service of HTTP/1.1 alone gets its messages")
    func older() async throws {
        var configuration = WebPushSimulator.Configuration()
        configuration.protocols = ["http/1.1"]
        try await Harness.run(configuration) { harness in
            #expect(await harness.send().isAccepted)
            #expect(await harness.send().isAccepted)
            #expect(harness.backend.health.status == .ok)
        }
    }

    @Test("A browser's end of a subscription ends it here")
    func ended() async throws {
        try await Harness.run { harness in
            let recipient = harness.subscribe("b-2", at: .mozilla)
            harness.simulator.end("b-2", at: .mozilla)
            #expect(await harness.backend.send(.sample, to: recipient).deadToken(of: recipient) != nil)
        }
    }
}
