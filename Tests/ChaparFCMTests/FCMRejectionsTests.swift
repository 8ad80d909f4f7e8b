import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparFCM

/// Every row of the error table, as the simulator's own bodies bring it over a real socket.
///
/// Source: specs, FCM, section 5, after Firebase's "FCM error codes", read 2026-08.
@Suite("Meaning of Google's errors", .serialized, .timeLimit(.minutes(1)))
struct FCMRejectionsTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var status: Int
        var word: String?
        var kind: Refusal.Kind
        var advice: Refusal.Advice
        var reason: String?
        var isDead: Bool?
        var retryAfter: Int?
        var isDate = false
        var retryLimit: Refusal.RetryLimit?

        var testDescription: String { "\(status) \(word ?? "-")" + (retryAfter.map { " after \($0)" } ?? "") }
    }

    static let rows: [Row] = [
        Row(
            status: 500,
            word: "UNSPECIFIED_ERROR",
            kind: .platform,
            advice: .retry(after: .seconds(10)),
            retryLimit: Refusal.RetryLimit(attempts: 3, span: .seconds(3600))
        ),
        Row(
            status: 400,
            word: "INVALID_ARGUMENT:token",
            kind: .token,
            advice: .never,
            reason: "INVALID_ARGUMENT",
            isDead: false
        ),
        Row(status: 400, word: "INVALID_ARGUMENT", kind: .message, advice: .never),
        Row(status: 400, word: "INVALID_ARGUMENT:size", kind: .message, advice: .never, reason: "INVALID_ARGUMENT"),
        Row(status: 400, kind: .message, advice: .never, reason: "INVALID_ARGUMENT"),
        Row(status: 400, word: "FAILED_PRECONDITION", kind: .account, advice: .parkBackend),
        Row(status: 401, kind: .account, advice: .parkBackend, reason: "UNAUTHENTICATED"),
        Row(status: 401, word: "ACCESS_TOKEN_SCOPE_INSUFFICIENT", kind: .account, advice: .parkBackend),
        Row(status: 401, word: "THIRD_PARTY_AUTH_ERROR", kind: .account, advice: .retry(after: .seconds(60))),
        Row(status: 403, word: "SENDER_ID_MISMATCH", kind: .token, advice: .never, isDead: false),
        Row(status: 403, kind: .account, advice: .parkBackend, reason: "PERMISSION_DENIED"),
        Row(status: 403, word: "SERVICE_DISABLED", kind: .account, advice: .parkBackend),
        Row(status: 403, word: "BILLING_DISABLED", kind: .account, advice: .parkBackend),
        Row(status: 404, word: "UNREGISTERED", kind: .token, advice: .never, isDead: true),
        Row(status: 404, kind: .account, advice: .parkBackend, reason: "NOT_FOUND"),
        Row(status: 413, kind: .message, advice: .never, reason: "UNKNOWN"),
        Row(status: 429, word: "QUOTA_EXCEEDED", kind: .account, advice: .slowBackend(after: .seconds(60))),
        Row(
            status: 429,
            word: "QUOTA_EXCEEDED:project",
            kind: .account,
            advice: .slowBackend(after: .seconds(90)),
            reason: "QUOTA_EXCEEDED",
            retryAfter: 90
        ),
        Row(
            status: 429,
            word: "QUOTA_EXCEEDED:project",
            kind: .account,
            advice: .slowBackend(after: .seconds(60)),
            reason: "QUOTA_EXCEEDED"
        ),
        Row(
            status: 429,
            word: "QUOTA_EXCEEDED:device",
            kind: .token,
            advice: .slowRecipient(after: .seconds(60)),
            reason: "QUOTA_EXCEEDED"
        ),
        Row(
            status: 429,
            word: "QUOTA_EXCEEDED:device",
            kind: .token,
            advice: .slowRecipient(after: .seconds(7)),
            reason: "QUOTA_EXCEEDED",
            retryAfter: 7
        ),
        Row(
            status: 429,
            word: "QUOTA_EXCEEDED:topic",
            kind: .account,
            advice: .retry(after: .seconds(60)),
            reason: "QUOTA_EXCEEDED"
        ),
        Row(status: 429, kind: .account, advice: .slowBackend(after: .seconds(60)), reason: "RESOURCE_EXHAUSTED"),
        Row(status: 500, word: "INTERNAL", kind: .platform, advice: .retry(after: .seconds(10))),
        Row(status: 500, word: "INTERNAL", kind: .platform, advice: .retry(after: .seconds(30)), retryAfter: 30),
        Row(status: 503, word: "UNAVAILABLE", kind: .platform, advice: .retry(after: .seconds(10))),
        Row(status: 503, word: "UNAVAILABLE", kind: .platform, advice: .retry(after: .seconds(120)), retryAfter: 120),
        Row(status: 400, word: "ADDED_NEXT_YEAR", kind: .message, advice: .never),
        Row(status: 429, word: "ADDED_NEXT_YEAR", kind: .account, advice: .slowBackend(after: .seconds(60))),
        Row(status: 500, word: "ADDED_NEXT_YEAR", kind: .platform, advice: .retry(after: .seconds(10))),
    ]

    @Test("Every row of the table, by the simulator's own bodies", arguments: rows)
    func table(row: Row) async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            var answer = FaultAnswer(row.status, row.word, retryAfter: row.retryAfter)
            answer.retryAfterIsDate = row.isDate
            harness.simulator.add(FaultRule(match: FaultMatch(listener: "send"), .answer(answer)))
            let before = Date()
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.kind == row.kind)
            #expect(refusal.advice == row.advice)
            #expect(refusal.reason == row.reason ?? row.word)
            #expect(refusal.status == row.status)
            #expect(refusal.retryLimit == row.retryLimit)
            #expect(refusal.detail?.isEmpty == false)
            #expect(refusal.invalidation?.isCertain == row.isDead)
            if let asOf = refusal.invalidation?.asOf { #expect(asOf >= before.addingTimeInterval(-1)) }
        }
    }

    @Test("Retry-After as a time counts from the send")
    func retryAfterDate() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            var answer = FaultAnswer(503, "UNAVAILABLE", retryAfter: 100)
            answer.retryAfterIsDate = true
            harness.simulator.add(FaultRule(match: FaultMatch(listener: "send"), .answer(answer)))
            guard case .retry(let after?)? = await harness.send().refusal?.advice else {
                Issue.record("not a retry")
                return
            }
            #expect(after > .seconds(90) && after <= .seconds(101))
        }
    }

    static let pages: [(Int, String)] = [(404, "foreign_answer"), (403, "foreign_answer"), (200, "foreign_answer")]

    @Test("A page of HTML says nothing about a token", arguments: pages)
    func foreign(status: Int, reason: String) async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            let page = Array("<html><body>Sign in to the network</body></html>".utf8)
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: "send"), .answer(FaultAnswer(status, body: page)))
            )
            let refusal = try #require(await harness.send().refusal)
            #expect(refusal.reason == reason)
            #expect(refusal.advice == .parkBackend)
            #expect(refusal.invalidation == nil)
        }
    }

    @Test("When a front end loses the answer, the outcome of the message is unknown", arguments: [502, 504])
    func frontEnd(status: Int) async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.add(
                FaultRule(
                    match: FaultMatch(listener: "send"),
                    .answer(FaultAnswer(status, body: FaultAnswer.htmlPage.body))
                )
            )
            #expect(await harness.send().unknown?.reason == "http_\(status)")
        }
    }

    @Test("A success that is cut off may well be one: unknown, not refused")
    func truncated() async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.add(FaultRule(match: FaultMatch(listener: "send", count: 1), .distort(.truncatedBody)))
            #expect(await harness.send().unknown?.reason == "bad_answer")
            #expect(harness.simulator.counters.accepted == 2)
        }
    }

    @Test("A refusal of a topic kills no token", arguments: ["UNREGISTERED", "INVALID_ARGUMENT:token"])
    func topics(word: String) async throws {
        try await SocketHarness.run { harness in
            await harness.warmUp()
            harness.simulator.add(FaultRule(match: FaultMatch(listener: "send"), .answer(FaultAnswer(404, word))))
            let outcome = await harness.backend.send(PushNotification(title: "x"), to: [.topic("news")])[0]
            let refusal = try #require(outcome.refusal)
            #expect(refusal.kind == .message)
            #expect(refusal.invalidation == nil)
        }
    }

    @Test("A bad token is known by Google's message, with and without a field that is named")
    func badTokens() async throws {
        let words = "The registration token is not a valid FCM registration token"
        let code = #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"INVALID_ARGUMENT"}"#
        let field =
            #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.token"}]}"#
        let bodies = [
            #"{"error":{"code":400,"message":"\#(words)","status":"INVALID_ARGUMENT","details":[\#(code)]}}"#,
            #"{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT","details":[\#(code),\#(field)]}}"#,
        ]
        for body in bodies {
            let answer = HTTPAnswer(status: 400, headers: [], body: Array(body.utf8))
            let context = FCMRejections.Context(started: .now, target: .android, isSecondTry: false)
            guard case .final(let outcome) = FCMRejections.verdict(on: answer, context) else {
                Issue.record("not final: \(body)")
                continue
            }
            #expect(outcome.refusal?.kind == .token && outcome.refusal?.invalidation?.isCertain == false)
        }
    }

    @Test("Devices say themselves what is wrong with them")
    func devices() async throws {
        let states: [(FCMDevice.State, String, Refusal.Kind, String)] = [
            (.unregistered, "ANDROID", .token, "UNREGISTERED"), (.unregistered, "IOS", .token, "UNREGISTERED"),
            (.otherSender, "ANDROID", .token, "SENDER_ID_MISMATCH"),
            (.malformed, "ANDROID", .token, "INVALID_ARGUMENT"),
            (.brokenAppleKey, "IOS", .account, "THIRD_PARTY_AUTH_ERROR"),
        ]
        try await SocketHarness.run { harness in
            for (index, (state, platform, kind, reason)) in states.enumerated() {
                harness.simulator.setDevice(FCMDevice(state: state, platform: platform), token: deviceToken(index))
                let service: TokenService = platform == "IOS" ? .iOSFirebase : .androidFirebase
                let refusal = try #require(await harness.send(deviceToken(index), service).refusal)
                #expect(refusal.kind == kind)
                #expect(refusal.reason == reason)
            }
        }
    }
}
