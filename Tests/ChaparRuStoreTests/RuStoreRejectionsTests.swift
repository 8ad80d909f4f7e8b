import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparRuStore

@Suite("RuStore: what its answers mean", .timeLimit(.minutes(1)))
struct RuStoreRejectionsTests {
    /// The expectation about an outcome.
    enum Meaning: Sendable, Hashable {
        case accepted
        /// The token is dead.
        case dead(isCertain: Bool)
        /// The message is refused for good, and the token stays.
        case drop
        /// The backend is parked, and the token stays.
        case park
        case slow(Duration?)
        case retry(Duration?)
        case unknown
    }

    private static func meaning(_ outcome: DeliveryOutcome) -> Meaning? {
        switch outcome {
        case .accepted: return .accepted
        case .unknown: return .unknown
        case .refused(let refusal):
            if let dead = refusal.invalidation {
                return refusal.kind == .token && refusal.advice == .never ? .dead(isCertain: dead.isCertain) : nil
            }
            switch refusal.advice {
            case .never: return refusal.kind == .message ? .drop : nil
            case .parkBackend: return refusal.kind == .account ? .park : nil
            case .slowBackend(let after): return .slow(after)
            case .retry(let after): return refusal.kind == .platform ? .retry(after) : nil
            default: return nil
            }
        }
    }

    private static func outcome(
        _ status: Int,
        _ body: String,
        _ mode: RuStoreOptions.Mode,
        wait: Int? = nil,
        to target: Recipient? = nil
    ) async throws -> DeliveryOutcome {
        let transport = ScriptedTransport { _ in
            let headers = wait.map { [HTTPHeader("retry-after", "\($0)")] } ?? []
            return .success(HTTPAnswer(status: status, headers: headers, body: Array(body.utf8)))
        }
        return await (try RuStoreBackend.scripted(transport, mode)).send(
            .sample,
            to: target ?? recipient(goodToken, mode)
        )
    }

    private static let firebase = "The registration token is not a valid FCM registration token"

    static let direct: [(Int, String, Meaning, String)] = [
        (200, "", .accepted, ""), (200, "{}", .accepted, ""), (200, #"{"anything":1}"#, .accepted, ""),
        (200, "<html>", .park, "foreign_answer"),
        (400, #"{"code":400,"message":"ttl","status":"INVALID_ARGUMENT"}"#, .drop, "INVALID_ARGUMENT"),
        (
            400, #"{"code":400,"message":"\#(firebase)","status":"INVALID_ARGUMENT"}"#, .dead(isCertain: false),
            "invalid_registration_token"
        ),
        (400, "", .drop, "http_400"), (401, "", .park, "http_401"),
        (403, #"{"code":403,"status":"PERMISSION_DENIED"}"#, .park, "PERMISSION_DENIED"),
        (404, #"{"code":404,"status":"NOT_FOUND"}"#, .dead(isCertain: false), "NOT_FOUND"),
        (404, "<html>404</html>", .park, "wrong_address"), (404, "", .park, "wrong_address"),
        (404, #"{"status":"NOWHERE"}"#, .park, "wrong_address"),
        (404, #"{"code":404,"status":"UNREGISTERED"}"#, .dead(isCertain: true), "UNREGISTERED"),
        (400, #"{"code":400,"status":"UNREGISTERED"}"#, .dead(isCertain: true), "UNREGISTERED"),
        (410, "{}", .dead(isCertain: false), "http_410"), (410, "<html>", .park, "foreign_answer"),
        (413, "{}", .drop, "http_413"), (429, #"{"status":"TOO_MANY_REQUESTS"}"#, .slow(nil), "TOO_MANY_REQUESTS"),
        (500, #"{"status":"INTERNAL"}"#, .retry(nil), "INTERNAL"), (502, "<html>", .retry(nil), "http_502"),
        (503, "", .retry(nil), "http_503"), (504, "", .unknown, "http_504"), (302, "", .park, "foreign_answer"),
    ]

    @Test("of the direct API, with the error at the top and within error", arguments: direct)
    func directAnswers(status: Int, body: String, meaning: Meaning, reason: String) async throws {
        let shapes = body.hasPrefix(#"{""#) && status >= 300 ? [body, #"{"error":\#(body)}"#] : [body]
        for shape in shapes {
            let outcome = try await Self.outcome(status, shape, .direct)
            #expect(Self.meaning(outcome) == meaning, "\(shape): \(outcome)")
            #expect(outcome.refusal?.reason ?? outcome.unknown?.reason ?? "" == reason, "\(outcome)")
        }
    }

    private static let prefix = goodToken.prefix(6)
    private static func provider(_ text: String) -> String {
        #"{"status":"PROVIDER_ERROR","code":3,"errors":["\#(text)"]}"#
    }

    static let universal: [(Int, String, Meaning, String)] = [
        (200, #"{"Status":"OK"}"#, .accepted, ""), (200, #"{"status":"OK"}"#, .accepted, ""), (200, "", .accepted, ""),
        (400, #"{"status":"VALIDATION_ERROR","code":400,"errors":["x"]}"#, .drop, "VALIDATION_ERROR"),
        (400, provider("rustore: invalid tokens \(prefix)"), .dead(isCertain: false), "invalid_tokens"),
        (400, provider("RuStore: Invalid Token \(prefix)"), .dead(isCertain: false), "invalid_tokens"),
        (200, provider("rustore: invalid tokens \(prefix)"), .dead(isCertain: false), "invalid_tokens"),
        (400, provider("rustore: invalid tokens zzzzzz, \(prefix)"), .dead(isCertain: false), "invalid_tokens"),
        (400, provider("rustore: invalid tokens zzzzzz"), .drop, "other_token"),
        (400, provider("rustore: invalid tokens"), .drop, "other_token"),
        (400, provider("fcm: invalid tokens \(prefix)"), .drop, "other_token"),
        (400, provider("rustore: invalid auth token \(prefix)"), .park, "invalid_auth_token"),
        (400, provider("rustore: quota"), .drop, "PROVIDER_ERROR"), (404, "{}", .park, "wrong_address"),
        (404, #"{"status":"NOT_FOUND"}"#, .park, "wrong_address"), (403, "{}", .park, "http_403"),
        (429, provider("rustore: slow"), .slow(nil), "PROVIDER_ERROR"), (500, "", .retry(nil), "http_500"),
        (504, "", .unknown, "http_504"),
    ]

    @Test("of the universal API, whose answer names a token by six characters", arguments: universal)
    func universalAnswers(status: Int, body: String, meaning: Meaning, reason: String) async throws {
        let outcome = try await Self.outcome(status, body, .universal)
        #expect(Self.meaning(outcome) == meaning, "\(outcome)")
        #expect(outcome.refusal?.reason ?? outcome.unknown?.reason ?? "" == reason, "\(outcome)")
    }

    @Test("A message to a topic has no token that could be dead")
    func topics() async throws {
        let body = Self.provider("rustore: invalid tokens news")
        let outcome = try await Self.outcome(400, body, .universal, to: .topic("news"))
        #expect(outcome.refusal?.kind == .message && outcome.refusal?.invalidation == nil)
    }

    @Test("Retry-After is kept, and no pause is made up")
    func pauses() async throws {
        let throttled = try await Self.outcome(429, "", .direct, wait: 7)
        #expect(throttled.refusal?.advice == .slowBackend(after: .seconds(7)))
        let busy = try await Self.outcome(503, "", .direct, wait: 9)
        #expect(busy.refusal?.advice == .retry(after: .seconds(9)))
    }

    @Test("Neither log nor outcome repeats an answer that echoes the request", arguments: RuStoreOptions.Mode.allCases)
    func echoes(mode: RuStoreOptions.Mode) async throws {
        let log = RecordedLog()
        let transport = ScriptedTransport { sent in
            let echo = JSONValue.string(sent.text).text
            let body = #"{"status":"ODD_WORD","code":400,"message":\#(echo),"errors":[\#(echo)]}"#
            return .success(HTTPAnswer(status: 400, body: Array(body.utf8)))
        }
        let backend = try RuStoreBackend.scripted(transport, mode, logger: log.logger)
        let outcome = await backend.send(.sample, to: recipient(goodToken, mode))
        let shown = "\(outcome) \(log.lines) \(await backend.diagnose())"
        #expect(log.lines.joined().contains("ODD_WORD"))
        for secret in [serviceToken, goodToken, "Out for delivery"] { #expect(!shown.contains(secret)) }
    }

    @Test("Every reason of the table has an outcome with words")
    func table() {
        let reasons = RuStoreRejections.outcomes.compactMap { $0.refusal?.reason ?? $0.unknown?.reason }
        #expect(Set(reasons).isSuperset(of: ["NOT_FOUND", "UNREGISTERED", "invalid_auth_token", "http_504"]))
        for outcome in RuStoreRejections.outcomes {
            #expect((outcome.refusal?.detail ?? outcome.unknown?.detail)?.isEmpty == false, "\(outcome)")
        }
    }
}
