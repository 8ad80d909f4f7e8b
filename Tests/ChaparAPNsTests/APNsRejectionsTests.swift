import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPNs

/// Source of the rows: specs, APNs section 6; Apple, "Handling notification responses from APNs".
@Suite("Meaning of APNs answers", .timeLimit(.minutes(1)))
struct APNsRejectionsTests {
    struct Row: Sendable, CustomStringConvertible {
        var status: Int
        var reason: String
        var kind: Refusal.Kind
        var advice: Refusal.Advice
        var invalidates = false
        var description: String { "\(status) \(reason)" }
    }

    static let rows: [Row] = [
        Row(status: 400, reason: "BadCollapseId", kind: .message, advice: .never),
        Row(status: 400, reason: "BadDeviceToken", kind: .token, advice: .never, invalidates: true),
        Row(status: 400, reason: "BadExpirationDate", kind: .message, advice: .never),
        Row(status: 400, reason: "BadMessageId", kind: .message, advice: .never),
        Row(status: 400, reason: "BadPriority", kind: .message, advice: .never),
        Row(status: 400, reason: "BadTopic", kind: .account, advice: .parkBackend),
        Row(status: 400, reason: "DeviceTokenNotForTopic", kind: .token, advice: .never, invalidates: true),
        Row(status: 400, reason: "DuplicateHeaders", kind: .account, advice: .parkBackend),
        Row(status: 400, reason: "IdleTimeout", kind: .platform, advice: .retry(after: nil)),
        Row(status: 400, reason: "InvalidPushType", kind: .message, advice: .never),
        Row(status: 400, reason: "MissingDeviceToken", kind: .message, advice: .never),
        Row(status: 400, reason: "MissingTopic", kind: .account, advice: .parkBackend),
        Row(status: 400, reason: "PayloadEmpty", kind: .message, advice: .never),
        Row(status: 400, reason: "TopicDisallowed", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "BadCertificate", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "BadCertificateEnvironment", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "ExpiredProviderToken", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "Forbidden", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "InvalidProviderToken", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "MissingProviderToken", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "UnrelatedKeyIdInToken", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "BadEnvironmentKeyIdInToken", kind: .account, advice: .parkBackend),
        Row(status: 403, reason: "BadEnvironmentKeyInToken", kind: .account, advice: .parkBackend),
        Row(status: 404, reason: "BadPath", kind: .account, advice: .parkBackend),
        Row(status: 405, reason: "MethodNotAllowed", kind: .account, advice: .parkBackend),
        Row(status: 410, reason: "ExpiredToken", kind: .token, advice: .never, invalidates: true),
        Row(status: 410, reason: "Unregistered", kind: .token, advice: .never, invalidates: true),
        Row(status: 413, reason: "PayloadTooLarge", kind: .message, advice: .never),
        Row(
            status: 429,
            reason: "TooManyProviderTokenUpdates",
            kind: .account,
            advice: .slowBackend(after: nil)
        ),
        Row(status: 429, reason: "TooManyRequests", kind: .token, advice: .slowRecipient(after: .seconds(60))),
        Row(status: 500, reason: "InternalServerError", kind: .platform, advice: .retry(after: nil)),
        Row(status: 503, reason: "ServiceUnavailable", kind: .platform, advice: .retry(after: nil)),
        Row(status: 503, reason: "Service Unavailable", kind: .platform, advice: .retry(after: nil)),
        Row(status: 503, reason: "Shutdown", kind: .platform, advice: .retry(after: nil)),
        // Unknown reasons, by their status.
        Row(status: 400, reason: "AddedNextYear", kind: .message, advice: .never),
        Row(status: 403, reason: "AddedNextYear", kind: .account, advice: .parkBackend),
        Row(status: 410, reason: "AddedNextYear", kind: .token, advice: .never),
        Row(status: 429, reason: "AddedNextYear", kind: .token, advice: .slowRecipient(after: .seconds(60))),
        Row(status: 500, reason: "AddedNextYear", kind: .platform, advice: .retry(after: nil)),
        Row(status: 599, reason: "AddedNextYear", kind: .platform, advice: .retry(after: nil)),
    ]

    static let started = Date(timeIntervalSince1970: 1_767_225_600)

    static func context(own: Bool = true, broadcast: Bool = false, second: Bool = true) -> APNsRejections.Context {
        .init(started: started, isOwnTopic: own, isBroadcast: broadcast, isSecondTry: second)
    }

    static func refusal(_ answer: HTTPAnswer, _ context: APNsRejections.Context = context()) throws -> Refusal {
        guard case .final(let outcome) = APNsRejections.verdict(on: answer, context) else {
            throw ConformanceFailure("a second try is final")
        }
        return try #require(outcome.refusal)
    }

    @Test("Every reason has its outcome", arguments: rows)
    func reason(row: Row) throws {
        let refusal = try Self.refusal(.apns(row.status, row.reason))
        #expect(refusal.kind == row.kind)
        #expect(refusal.advice == row.advice)
        #expect(refusal.status == row.status)
        #expect(refusal.reason == row.reason.filter { $0 != " " })
        #expect(refusal.detail?.isEmpty == false, "an operator is told what to do")
        let expected = row.invalidates ? Refusal.Invalidation(asOf: Self.started, isCertain: false) : nil
        #expect(
            refusal.invalidation == expected,
            "without a time of Apple's the request's start counts, and is no proof"
        )
    }

    @Test("410 invalidates since Apple's time, surely", arguments: ["Unregistered", "ExpiredToken", "AddedNextYear"])
    func gone(reason: String) throws {
        let refusal = try Self.refusal(.apns(410, reason, timestamp: 1_767_220_000_123))
        let time = Date(millisecondsSince1970: 1_767_220_000_123)
        #expect(refusal.invalidation == .init(asOf: time, isCertain: true))
        #expect(refusal.advice == .never)
    }

    @Test(
        "Credentials that can be mended ask for one replay",
        arguments: ["ExpiredProviderToken", "UnrelatedKeyIdInToken"]
    )
    func replay(reason: String) {
        let verdict = APNsRejections.verdict(on: .apns(403, reason), Self.context(second: false))
        guard case .replay(let otherwise) = verdict else {
            Issue.record("the first refusal is not final")
            return
        }
        #expect(otherwise.refusal?.advice == .parkBackend)
    }

    @Test("Too many token updates ask for one replay, then for single messages")
    func tooManyUpdates() {
        let answer = HTTPAnswer.apns(429, "TooManyProviderTokenUpdates")
        guard case .replay(let otherwise) = APNsRejections.verdict(on: answer, Self.context(second: false)) else {
            Issue.record("the first refusal is not final")
            return
        }
        #expect(otherwise.refusal?.advice == .slowBackend(after: nil))
        #expect(otherwise.refusal?.detail?.contains("one token for 30 minutes") == true, "what to do")
    }

    @Test("A topic of the caller's own is the caller's mistake", arguments: ["BadTopic", "TopicDisallowed"])
    func callersTopic(reason: String) throws {
        let refusal = try Self.refusal(.apns(400, reason), Self.context(own: false))
        #expect(refusal.kind == .message)
        #expect(refusal.advice == .never)
    }

    @Test("A token that is not for the caller's own topic stays valid")
    func callersTopicAndToken() throws {
        let refusal = try Self.refusal(.apns(400, "DeviceTokenNotForTopic"), Self.context(own: false))
        #expect(refusal.invalidation == nil)
    }

    @Test("Retry-After is the floor of a retry, in seconds or as a date")
    func retryAfter() throws {
        for text in ["90", "Thu, 01 Jan 2026 00:01:30 GMT"] {
            var answer = HTTPAnswer.apns(503, "ServiceUnavailable")
            answer.headers = [HTTPHeader("retry-after", text)]
            #expect(try Self.refusal(answer).advice == .retry(after: .seconds(90)))
        }
        var limit = HTTPAnswer.apns(429, "TooManyProviderTokenUpdates")
        limit.headers = [HTTPHeader("retry-after", "5")]
        #expect(try Self.refusal(limit).advice == .slowBackend(after: .seconds(5)))
        #expect(try Self.refusal(limit, Self.context(second: false)).advice == .slowBackend(after: .seconds(5)))
    }

    static let oddBodies: [(status: Int, body: String, kind: Refusal.Kind, reason: String)] = [
        (404, "<html><body>Not Found</body></html>", .account, "foreign_answer"),
        (400, "<html>blocked</html>", .account, "foreign_answer"),
        (403, "Blocked by policy", .account, "foreign_answer"),
        (410, "<html>Gone</html>", .account, "foreign_answer"),
        (200, "<html>Welcome to the hotel</html>", .account, "foreign_answer"),
        (302, "", .account, "http_302"),
        (502, "<html>502 Bad Gateway</html>", .platform, "http_502"),
        (400, "", .message, "http_400"),
        (404, "", .account, "http_404"),
        (405, "", .account, "http_405"),
        (410, "", .token, "http_410"),
        (400, #"{"reason":"BadDevi"#, .message, "http_400"),
        (500, #"{"reason":12}"#, .platform, "http_500"),
        (400, #"{"reason":"<script> of any length"}"#, .message, "http_400"),
    ]

    @Test("Odd bodies are judged by their status, and kill no token", arguments: oddBodies)
    func oddBody(status: Int, body: String, kind: Refusal.Kind, reason: String) throws {
        let refusal = try Self.refusal(HTTPAnswer(status: status, body: Array(body.utf8)))
        #expect(refusal.kind == kind)
        #expect(refusal.reason == reason)
        #expect(refusal.invalidation == nil)
    }

    static let channelRows: [Row] = [
        Row(status: 400, reason: "BadChannelId", kind: .token, advice: .never),
        Row(status: 400, reason: "ChannelNotRegistered", kind: .token, advice: .never),
        Row(status: 400, reason: "MissingChannelId", kind: .message, advice: .never),
        Row(status: 400, reason: "MissingPushType", kind: .message, advice: .never),
        Row(status: 400, reason: "BadRequestParams", kind: .message, advice: .never),
        Row(status: 400, reason: "BadRequestPayload", kind: .message, advice: .never),
        // What the app may not broadcast stops its broadcasts only, a refused credential everything.
        Row(status: 400, reason: "FeatureNotEnabled", kind: .account, advice: .slowRecipient(after: .seconds(60))),
        Row(status: 400, reason: "TopicDisallowed", kind: .account, advice: .slowRecipient(after: .seconds(60))),
        Row(status: 400, reason: "BadTopic", kind: .account, advice: .slowRecipient(after: .seconds(60))),
        Row(status: 400, reason: "CannotCreateChannelConfig", kind: .message, advice: .never),
        Row(status: 403, reason: "TopicMismatch", kind: .account, advice: .slowRecipient(after: .seconds(60))),
        Row(status: 403, reason: "InvalidProviderToken", kind: .account, advice: .parkBackend),
        Row(status: 404, reason: "BadPath", kind: .account, advice: .slowRecipient(after: .seconds(60))),
        Row(status: 405, reason: "MethodNotAllowed", kind: .account, advice: .slowRecipient(after: .seconds(60))),
        Row(status: 429, reason: "TooManyRequests", kind: .token, advice: .slowRecipient(after: .seconds(60))),
    ]

    @Test("The reasons of broadcasts have their outcome", arguments: channelRows)
    func channelReason(row: Row) throws {
        let refusal = try Self.refusal(.apns(row.status, row.reason), Self.context(broadcast: true))
        #expect(refusal.kind == row.kind)
        #expect(refusal.advice == row.advice)
        #expect(refusal.invalidation == nil, "a channel is no device token")
    }

    static let failures: [(HTTPFailure, Refusal.Kind?, Refusal.Advice?, String)] = [
        (.init(.notProcessed, .connect, "refused"), .platform, .retry(after: nil), "connect_failed"),
        (.init(.notProcessed, .tls, "timed out"), .platform, .retry(after: nil), "tls_failed"),
        (.init(.notProcessed, .tls, "TLSV1_ALERT_CERTIFICATE_EXPIRED"), .account, .parkBackend, "tls_failed"),
        (.init(.notProcessed, .protocolNotNegotiated, "http/1.1"), .account, .parkBackend, "protocol_not_negotiated"),
        (.init(.notProcessed, .proxy, "502"), .platform, .retry(after: nil), "proxy_refused"),
        (.init(.notProcessed, .refusedStream, ""), .platform, .retry(after: nil), "refused_stream"),
        (.init(.notProcessed, .goAway, ""), .platform, .retry(after: nil), "go_away"),
        (.init(.notProcessed, .deadline, "waited"), .platform, .retry(after: nil), "deadline"),
        (.init(.notProcessed, .queueFull, ""), .platform, .retry(after: nil), "queue_full"),
        (.init(.notProcessed, .cancelled, ""), .platform, .retry(after: nil), "cancelled"),
        (.init(.notProcessed, .credentials, "clock"), .account, .parkBackend, "credentials"),
        (.init(.notProcessed, .invalidCall, "path"), .message, .never, "invalid_call"),
        (.init(.unknown, .goAway, ""), nil, nil, "go_away"),
        (.init(.unknown, .reset(2), ""), nil, nil, "stream_reset"),
        (.init(.unknown, .connectionLost, ""), nil, nil, "connection_lost"),
        (.init(.unknown, .deadline, ""), nil, nil, "deadline"),
        (.init(.unknown, .badAnswer, ""), nil, nil, "bad_answer"),
    ]

    @Test("Below HTTP, what was surely not sent is told from what may have been", arguments: failures)
    func failure(failure: HTTPFailure, kind: Refusal.Kind?, advice: Refusal.Advice?, reason: String) {
        switch failure.outcome(isRepeatHarmful: true) {
        case .refused(let refusal):
            #expect(refusal.kind == kind)
            #expect(refusal.advice == advice)
            #expect(refusal.reason == reason)
        case .unknown(let unknown):
            #expect(kind == nil)
            #expect(unknown.reason == reason)
            #expect(unknown.isRepeatHarmful)
        case .accepted: Issue.record("a failure is no acceptance")
        }
    }
}
