internal import Foundation
internal import ChaparCore

/// The tables of RuStore's answers: what each status word or HTTP status means for the message, the token and the
/// backend.
///
/// ``outcome(on:_:)`` applies a row to a request; it keeps nothing and sends nothing. RuStore's error codes are not
/// Google's, though its API has the form of Google's: a token that is gone is `NOT_FOUND`, too many messages are
/// `TOO_MANY_REQUESTS`.
///
/// Source: RuStore's help, "Send push notifications" and "General push notifications", and public clients that read the
/// rest of them, read 2026-09.
enum RuStoreRejections {
    /// The handling that an answer calls for.
    enum Consequence: Sendable, Hashable {
        /// The token is dead. Unless that is certain, the other backends of the service are tried first.
        case deadToken(isCertain: Bool)
        /// The token is dead where the text blames it, else the message is refused for good.
        case argument
        /// The token is dead where RuStore itself says so, else the address is wrong.
        case notFound
        /// The token is dead where the text names it, else the service token, or the message, is wrong.
        case provider
        /// The message is refused for good.
        case drop
        /// An operator must act.
        case account
        /// RuStore wants a pause.
        case throttle
        /// Only waiting helps.
        case retry
        /// The message may have been sent.
        case unknown
        /// Something other than RuStore answered.
        case foreign
    }

    /// A row of a table.
    struct Rule: Sendable, Hashable {
        let consequence: Consequence
        let detail: String

        init(_ consequence: Consequence, _ detail: String) {
            self.consequence = consequence
            self.detail = detail
        }
    }

    /// The words of the direct API that count with any status from 400 to 499.
    private static let directWords: [String: Rule] = [
        "UNREGISTERED": Rule(.deadToken(isCertain: true), "The app is gone from the device, or its token was replaced.")
    ]

    /// The words of the universal API that count with any status, 200 included.
    private static let universalWords: [String: Rule] = [
        "VALIDATION_ERROR": Rule(.drop, "RuStore does not take the form of the message."),
        "PROVIDER_ERROR": Rule(.provider, "RuStore does not take the message."),
    ]

    /// The HTTP statuses of answers whose word stands in no row above.
    private static let statuses: StatusTable<Rule> = [
        .on(400, means: Rule(.argument, "RuStore does not take the message: its form, or its size.")),
        .on(401, 403, means: Rule(.account, "RuStore does not take the service token: compare it and project_id.")),
        .on(404, means: Rule(.notFound, "RuStore does not know the token any more.")),
        .on(410, means: Rule(.deadToken(isCertain: false), "RuStore does not know the token any more.")),
        .on(429, means: Rule(.throttle, "Too many messages of the project.")),
        .on(504, means: Rule(.unknown, "RuStore's front end lost the answer: the message may have been sent.")),
        .within(400...499, means: Rule(.drop, "RuStore answered {status}.")),
        .within(500...599, means: Rule(.retry, "RuStore answered {status}.")),
        .others(means: Rule(.foreign, "")),
    ]

    private static let wrongPlace =
        "RuStore knows no such project or path: check project_id, mode and base_url. No token is at fault."
    private static let badToken = "Not a registration token of RuStore."
    private static let otherToken = "RuStore calls another token invalid than the one that it was sent."

    /// The words that RuStore is known to write.
    static let known: Set<String> = [
        "OK", "INVALID_ARGUMENT", "PERMISSION_DENIED", "NOT_FOUND", "UNREGISTERED", "TOO_MANY_REQUESTS", "INTERNAL",
        "VALIDATION_ERROR", "PROVIDER_ERROR",
    ]
}

extension RuStoreRejections {
    /// The properties of a request that decide what an answer to it means.
    struct Context: Sendable {
        /// When the send began: RuStore gives no time for a dead token.
        var started: Date
        /// The recipient of its message.
        var recipient: Recipient
        /// Whether it went to the universal API.
        var isUniversal: Bool

        /// The token that it went to; nil for a topic.
        fileprivate var token: String? {
            if case .token(let token) = recipient { token.value } else { nil }
        }
    }

    /// Returns the outcome of an answer.
    static func outcome(on answer: HTTPAnswer, _ context: Context) -> DeliveryOutcome {
        let body = RuStoreAnswer(answer)
        if answer.status == 200, !body.isForeign, !isRefusal(body, context) {
            return .accepted(Acceptance(isForAudience: context.token == nil, status: 200))
        }
        let rule = rule(for: body, answer.status, context)
        let isPage = body.isForeign && answer.status < 500 && answer.status != 429 && answer.status != 404
        if isPage || rule.consequence == .foreign { return foreign(answer) }
        return apply(rule, body, answer, context)
    }

    /// Whether an answer with the status 200 says no: the universal API names an error by its word.
    private static func isRefusal(_ body: RuStoreAnswer, _ context: Context) -> Bool {
        context.isUniversal && body.word.map { universalWords[$0] != nil } ?? false
    }

    private static func rule(for body: RuStoreAnswer, _ status: Int, _ context: Context) -> Rule {
        if let word = body.word {
            if context.isUniversal, let rule = universalWords[word], status < 500, status != 429 { return rule }
            if !context.isUniversal, (400...499).contains(status), let rule = directWords[word] { return rule }
        }
        return statuses[status] ?? Rule(.foreign, "")
    }

    private static func apply(
        _ rule: Rule,
        _ body: RuStoreAnswer,
        _ answer: HTTPAnswer,
        _ context: Context
    ) -> DeliveryOutcome {
        let word = body.word ?? "http_\(answer.status)"
        func refused(
            _ kind: Refusal.Kind,
            _ reason: String,
            _ advice: Refusal.Advice,
            _ detail: String
        ) -> DeliveryOutcome {
            let detail = detail.filled("status", "\(answer.status)")
            return .refused(Refusal(kind, reason: reason, detail: detail, status: answer.status, advice: advice))
        }
        func dead(_ reason: String, _ detail: String, isCertain: Bool = false) -> DeliveryOutcome {
            // A topic has no token that could be invalid.
            guard context.token != nil else { return refused(.message, reason, .never, detail) }
            return .refused(
                Refusal(
                    .token,
                    reason: reason,
                    detail: detail,
                    status: answer.status,
                    advice: .never,
                    invalidation: .init(asOf: context.started, isCertain: isCertain)
                )
            )
        }
        let wait = answer.retryAfter(now: context.started)
        switch rule.consequence {
        case .deadToken(let isCertain): return dead(word, rule.detail, isCertain: isCertain)
        // When in doubt the message is at fault, since a token that is deleted by mistake does not come back.
        case .argument where body.message.contains("registration token"):
            return dead("invalid_registration_token", badToken)
        case .argument, .drop: return refused(.message, word, .never, rule.detail)
        case .notFound where body.isJSON && body.word == "NOT_FOUND" && !context.isUniversal:
            return dead(word, rule.detail)
        case .notFound: return refused(.account, "wrong_address", .parkBackend, wrongPlace)
        case .provider where body.blamesServiceToken:
            return refused(
                .account,
                "invalid_auth_token",
                .parkBackend,
                "RuStore does not take the service token: compare service_token and project_id."
            )
        case .provider where body.blamesTokens:
            guard let token = context.token, body.blames(token) else {
                return refused(.message, "other_token", .never, otherToken)
            }
            return dead("invalid_tokens", badToken)
        case .provider: return refused(.message, word, .never, rule.detail)
        case .account: return refused(.account, word, .parkBackend, rule.detail)
        case .throttle: return refused(.platform, word, .slowBackend(after: wait), rule.detail)
        case .retry: return refused(.platform, word, .retry(after: wait), rule.detail)
        case .unknown: return .unknown(UnknownOutcome(reason: "http_\(answer.status)", detail: rule.detail))
        case .foreign: return foreign(answer)
        }
    }

    private static func foreign(_ answer: HTTPAnswer) -> DeliveryOutcome {
        .refused(
            Refusal(
                .account,
                reason: "foreign_answer",
                detail: "Something other than RuStore answered: a proxy, a captive portal or a wrong base_url.",
                status: answer.status,
                advice: .parkBackend
            )
        )
    }
}

extension RuStoreRejections {
    /// The outcome of a delivery to a token for each of RuStore's errors.
    static var outcomes: [DeliveryOutcome] {
        let token = "token-of-nobody"
        func outcome(_ status: Int, _ body: JSONValue?, isUniversal: Bool) -> DeliveryOutcome {
            let context = Context(
                started: Date(timeIntervalSince1970: 0),
                recipient: .token(DeviceToken(token, service: .androidRuStore)),
                isUniversal: isUniversal
            )
            return self.outcome(on: HTTPAnswer(status: status, body: body?.bytes ?? []), context)
        }
        let direct: [(Int, String, String)] = [
            (400, "INVALID_ARGUMENT", ""), (400, "INVALID_ARGUMENT", "not a valid registration token"),
            (403, "PERMISSION_DENIED", ""), (404, "NOT_FOUND", ""), (404, "UNREGISTERED", ""),
            (429, "TOO_MANY_REQUESTS", ""), (500, "INTERNAL", ""),
        ]
        let universal: [(String, String)] = [
            ("VALIDATION_ERROR", ""), ("PROVIDER_ERROR", ""), ("PROVIDER_ERROR", "rustore: invalid auth token"),
            ("PROVIDER_ERROR", "rustore: invalid tokens token-"), ("PROVIDER_ERROR", "rustore: invalid tokens others"),
        ]
        return direct.map { status, word, message in
            outcome(status, ["status": .string(word), "message": .string(message)], isUniversal: false)
        }
            + universal.map { word, text in
                outcome(400, ["status": .string(word), "errors": [.string(text)]], isUniversal: true)
            }
            + [401, 404, 410, 413, 502, 503, 504, 302].map { outcome($0, nil, isUniversal: false) }
    }
}
