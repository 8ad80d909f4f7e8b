internal import Foundation
internal import ChaparCore

/// The table of Google's errors: what each code or status means for the message, the token and the backend.
///
/// ``verdict(on:_:)`` applies a row to a request; it keeps nothing and sends nothing.
///
/// Source: Firebase, "FCM error codes" and "Best practices for sending FCM messages at scale", read 2026-08. The
/// decision is taken from `FcmError.errorCode`, else `ErrorInfo.reason`, else `error.status`, else the HTTP status.
enum FCMRejections {
    /// The handling that an error calls for.
    enum Consequence: Sendable, Hashable {
        /// The token is dead. Unless that is certain, the other backends of the service are tried first.
        case invalidToken(isCertain: Bool)
        /// The token is dead where Google blames it, else the message is refused for good.
        case argument
        /// The message is refused for good.
        case drop
        /// A key in the Firebase console is wrong, which stops the devices of one platform.
        case thirdParty
        /// A quota is used up: a device's, that of topics, or the project's.
        case quota
        /// Only waiting helps.
        case retry
        /// As `retry`, a few times only.
        case retryBriefly
        /// Once more with a fresh access token; after that `account`.
        case reauthorize
        /// An operator must act.
        case account
        /// The message may have been sent.
        case unknown
        /// Something other than FCM answered.
        case foreign
    }

    /// A row of the table; without a sentence the fix follows from Google's reason.
    struct Rule: Sendable, Hashable {
        let consequence: Consequence
        let detail: String?

        init(_ consequence: Consequence, _ detail: String? = nil) {
            self.consequence = consequence
            self.detail = detail
        }
    }

    /// `FcmError.errorCode`.
    private static let codes: [String: Rule] = [
        FCMErrorCode.unregistered: Rule(
            .invalidToken(isCertain: true),
            "The app is gone from the device, or its token was replaced."
        ),
        FCMErrorCode.senderMismatch: Rule(
            .invalidToken(isCertain: false),
            "The token belongs to another Firebase project: compare project_id with the app's."
        ),
        FCMErrorCode.invalidArgument: Rule(.argument, "Not a registration token of this service."),
        FCMErrorCode.thirdPartyAuth: Rule(.thirdParty),
        FCMErrorCode.quotaExceeded: Rule(.quota),
        FCMErrorCode.unavailable: Rule(.retry, "FCM is not available."),
        FCMErrorCode.internal: Rule(.retry, "FCM has a problem."),
        FCMErrorCode.unspecified: Rule(.retryBriefly, "FCM gave an error without saying which."),
    ]

    /// `error.status` of an answer with the HTTP status 400, where no code is known.
    private static let conditions: [String: Rule] = ["FAILED_PRECONDITION": Rule(.account)]

    /// The HTTP statuses of answers without a known code.
    private static let statuses: StatusTable<Rule> = [
        .on(401, means: Rule(.reauthorize)), .on(403, 404, 405, means: Rule(.account)),
        .on(413, means: Rule(.drop, "The message is too large.")), .on(429, means: Rule(.quota)),
        .on(502, 504, means: Rule(.unknown, "Google's front end lost the answer: the message may have been sent.")),
        .within(400...499, means: Rule(.drop)),
        .within(500...Int.max, means: Rule(.retry, "FCM answered {status}.")), .others(means: Rule(.foreign)),
    ]

    /// The fix for an operator after a refusal of the whole project, by `ErrorInfo.reason` or `error.status`.
    private static let accountReasons: [String: String] = [
        "SERVICE_DISABLED": "Enable the Firebase Cloud Messaging API in the Google Cloud console.",
        "ACCESS_TOKEN_SCOPE_INSUFFICIENT":
            "The access token lacks the scope https://www.googleapis.com/auth/firebase.messaging.",
        "BILLING_DISABLED": "Billing is disabled for the project.",
        "CONSUMER_INVALID": "Google has suspended the project, or does not know it.",
        "CONSUMER_SUSPENDED": "Google has suspended the project, or does not know it.",
        FCMErrorCode.thirdPartyAuth:
            "The APNs key or web push key in the Firebase console is missing or wrong; another access token won't help.",
    ]
    /// The fix for an operator, by the HTTP status, where no reason is known.
    private static let accountStatuses: StatusTable<String> = [
        .on(401, means: "Google does not take the access token: check the service account, and this machine's clock."),
        .on(
            403,
            means: "The account may not send for this project: give it the role Firebase Cloud Messaging API Admin, "
                + "and compare project_id."
        ),
        .on(
            404,
            means: "Google knows no such project or path: check project_id and base_url. No token is at fault."
        ),
        .others(means: "Google answered {status} {reason}: the project cannot send as it is."),
    ]

    /// The limit on the retries after an error without a name, which may never end.
    static let unspecifiedLimit = Refusal.RetryLimit(attempts: 3, span: .seconds(3600))
    /// The pause of a part of a project after a refusal for a broken key, before the next message is tried.
    static let partPause = Duration.seconds(60)
    /// Google's first delay after a server error; shorter ones may get a sender blocked.
    private static let firstDelay = Duration.seconds(10)
    /// The pause after 429 without `Retry-After`.
    private static let quotaDelay = Duration.seconds(60)

    /// Returns the row of an answer that is not a success.
    private static func rule(for body: FCMAnswer, status: Int) -> Rule {
        if let code = body.errorCode, let rule = codes[code] { return rule }
        if status == 400, let word = body.status, let rule = conditions[word] { return rule }
        return statuses[status] ?? Rule(.foreign)
    }

    /// Returns the fix for an operator after a refusal that concerns the whole project.
    static func accountDetail(_ reason: String?, status: Int) -> String {
        if let reason, let detail = accountReasons[reason] { return detail }
        return (accountStatuses[status] ?? "").filled("status", "\(status)").filled("reason", reason ?? "")
    }
}

extension FCMRejections {
    /// The properties of a request that decide what an answer to it means.
    struct Context: Sendable {
        /// The start of the send, from which a token counts as dead: FCM gives no time.
        var started: Date
        /// The kind of target that it was addressed to.
        var target: FCMTarget.Class
        /// Whether it has been replayed with a fresh access token already.
        var isSecondTry: Bool
    }

    /// The decision about an answer that is not a success.
    enum Verdict {
        case final(DeliveryOutcome)
        /// The access token was refused: send the message once more with a fresh one; the value is the outcome if that
        /// is not possible.
        case replay(otherwise: DeliveryOutcome)
        /// One part of the project must pause; the others continue.
        case hold(FCMTarget.Part, Duration, DeliveryOutcome)
    }

    /// Returns the decision about an answer that is not a success.
    static func verdict(on answer: HTTPAnswer, _ context: Context) -> Verdict {
        let body = FCMAnswer(answer)
        let reason = body.errorCode ?? body.infoReason ?? body.status ?? "http_\(answer.status)"
        let wait = answer.retryAfter(now: context.started)
        func refused(
            _ kind: Refusal.Kind,
            _ advice: Refusal.Advice,
            _ detail: String,
            isDead: Bool? = nil
        ) -> DeliveryOutcome {
            .refused(
                Refusal(
                    kind,
                    reason: reason,
                    detail: detail,
                    status: answer.status,
                    advice: advice,
                    invalidation: isDead.map { Refusal.Invalidation(asOf: context.started, isCertain: $0) }
                )
            )
        }
        if body.isForeign, answer.status < 500, answer.status != 429 { return .final(foreign(answer)) }
        let rule = rule(for: body, status: answer.status)
        let detail = rule.detail?.filled("status", "\(answer.status)") ?? messageDetail(body)
        switch rule.consequence {
        case .argument where !blamesToken(body): return .final(refused(.message, .never, messageDetail(body)))
        case .invalidToken, .argument:
            // A topic or a condition has no token that could be invalid.
            guard context.target.isToken else { return .final(refused(.message, .never, detail)) }
            let isCertain = rule.consequence == .invalidToken(isCertain: true)
            return .final(refused(.token, .never, detail, isDead: isCertain))
        case .drop: return .final(refused(.message, .never, detail))
        case .thirdParty: return thirdParty(body, answer, context)
        case .quota: return quota(body, wait, refused)
        case .retry, .retryBriefly:
            let advice = Refusal.Advice.retry(after: max(wait ?? firstDelay, .seconds(1)))
            var refusal = Refusal(.platform, reason: reason, detail: detail, status: answer.status, advice: advice)
            if rule.consequence == .retryBriefly { refusal.retryLimit = unspecifiedLimit }
            return .final(.refused(refusal))
        case .reauthorize, .account:
            let fix = accountDetail(body.infoReason ?? body.status, status: answer.status)
            let outcome = refused(.account, .parkBackend, fix)
            let isFinal = rule.consequence == .account || context.isSecondTry
            return isFinal ? .final(outcome) : .replay(otherwise: outcome)
        case .unknown: return .final(.unknown(UnknownOutcome(reason: "http_\(answer.status)", detail: detail)))
        case .foreign: return .final(foreign(answer))
        }
    }

    // MARK: Rows whose meaning depends on fields of the answer, or on the target

    /// Returns whether `INVALID_ARGUMENT` is about the token: only then is it dead.
    ///
    /// When in doubt the payload is at fault, since a token that is deleted by mistake does not come back.
    private static func blamesToken(_ body: FCMAnswer) -> Bool {
        if !body.violatedFields.isEmpty {
            return body.violatedFields.allSatisfy { $0 == "message.token" || $0 == "message.fid" }
        }
        return body.message.lowercased().contains("not a valid fcm registration token")
    }

    private static func messageDetail(_ body: FCMAnswer) -> String {
        let fields = body.violatedFields.filter { $0.utf8.count <= 100 }.prefix(3).joined(separator: ", ")
        return fields.isEmpty
            ? "FCM does not take the message: its form, or its size." : "FCM does not take these fields: \(fields)."
    }

    private static func thirdParty(_ body: FCMAnswer, _ answer: HTTPAnswer, _ context: Context) -> Verdict {
        let apple = body.appleReason.map { " (Apple says \($0))" } ?? ""
        let outcome = DeliveryOutcome.refused(
            Refusal(
                .account,
                reason: FCMErrorCode.thirdPartyAuth,
                detail:
                    "The APNs key or web push key in the Firebase console is missing or wrong\(apple): Project settings, "
                    + "Cloud Messaging. Android is not concerned.",
                status: answer.status,
                advice: .retry(after: partPause)
            )
        )
        // Tokens of Android devices stay valid for every target of the message.
        switch context.target {
        case .iOS: return .hold(.iOS, partPause, outcome)
        case .web: return .hold(.web, partPause, outcome)
        case .android, .device, .topic, .condition: return .final(outcome)
        }
    }

    private static func quota(
        _ body: FCMAnswer,
        _ wait: Duration?,
        _ refused: (Refusal.Kind, Refusal.Advice, String, Bool?) -> DeliveryOutcome
    ) -> Verdict {
        let span = wait ?? quotaDelay
        if body.quotaText.contains("device") || body.quotaText.contains("token") {
            return .final(
                refused(.token, .slowRecipient(after: span), "Too many messages to one device: collapse them.", nil)
            )
        }
        if body.quotaText.contains("topic") {
            let outcome = refused(.account, .retry(after: span), "Too many messages to topics.", nil)
            return .hold(.topics, max(span, quotaDelay), outcome)
        }
        return .final(refused(.account, .slowBackend(after: span), "The project's message quota is used up.", nil))
    }

    static func foreign(_ answer: HTTPAnswer) -> DeliveryOutcome {
        .refused(
            Refusal(
                .account,
                reason: "foreign_answer",
                detail: "Something other than FCM answered: a proxy, a captive portal or a wrong base_url.",
                status: answer.status,
                advice: .parkBackend
            )
        )
    }
}

extension FCMRejections {
    /// The statuses of calls to the Instance ID service; without a sentence the fix is that of the whole project.
    private static let callStatuses: StatusTable<CallRule> = [
        .on(401, 403, means: CallRule(.credentialsRefused)),
        .on(404, means: CallRule(.invalidRequest, "There is no Instance ID service: check iid_url.")),
        .on(429, means: CallRule(.rateLimited, "Too many calls to the Instance ID service.")),
        .within(500...Int.max, means: CallRule(.unavailable, "The Instance ID service answered {status}.")),
        .others(means: CallRule(.invalidRequest, "The Instance ID service answered {status}.")),
    ]

    /// The words that the Instance ID service gives for one token of a call.
    private static let tokenWords: [String: TokenOutcome] = [
        "NOT_FOUND": .dead("NOT_FOUND"), "INVALID_ARGUMENT": .dead("INVALID_ARGUMENT"),
        "RESOURCE_EXHAUSTED": busy("RESOURCE_EXHAUSTED"), "DEADLINE_EXCEEDED": busy("DEADLINE_EXCEEDED"),
        "INTERNAL": busy("INTERNAL"), "UNKNOWN": busy("UNKNOWN"),
        "PERMISSION_DENIED": .failed(
            PushError(.credentialsRefused, "The account may not manage this token", reason: "PERMISSION_DENIED")
        ),
    ]

    private static func busy(_ word: String) -> TokenOutcome {
        .failed(PushError(.unavailable, "Google could not do it for this token", reason: word))
    }

    /// Returns the error of a call to the Instance ID service.
    static func error(_ answer: HTTPAnswer, now: Date) -> PushError {
        let row = callStatuses[answer.status] ?? CallRule(.invalidRequest)
        let detail =
            row.sentence?.filled("status", "\(answer.status)")
            ?? accountDetail(FCMAnswer(answer).infoReason, status: answer.status)
        var pause: Duration?
        if row.code == .unavailable || row.code == .rateLimited { pause = answer.retryAfter(now: now) }
        if row.code == .rateLimited { pause = pause ?? quotaDelay }
        return PushError(row.code, detail, reason: "http_\(answer.status)", retryAfter: pause)
    }

    /// Returns the outcome of one token by the service's word for it; nil is a success.
    static func tokenOutcome(_ word: String?) -> TokenOutcome {
        guard let word else { return .done }
        return tokenWords[word] ?? .refused(word.asReasonLabel ?? "UNKNOWN")
    }
}

extension FCMRejections {
    /// Returns the outcome when no access token is available: the backend pauses, and no message is lost.
    static func outcome(of error: PushError) -> DeliveryOutcome {
        let isOurs = error.code == .credentialsRefused
        return .refused(
            Refusal(
                isOurs ? .account : .platform,
                reason: error.reason.flatMap(\.asReasonLabel) ?? error.code.rawValue,
                detail: error.message,
                advice: isOurs ? .parkBackend : .slowBackend(after: error.retryAfter)
            )
        )
    }
}

extension FCMRejections {
    /// The outcome of a delivery to a token for each of Google's errors.
    static var outcomes: [DeliveryOutcome] {
        let context = Context(started: Date(timeIntervalSince1970: 0), target: .android, isSecondTry: true)
        let codes = FCMErrorCode.known.sorted().map { answer(400, "google.firebase.fcm.v1.FcmError", "errorCode", $0) }
        let accounts = [
            "SERVICE_DISABLED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT", "BILLING_DISABLED", "CONSUMER_INVALID",
            "CONSUMER_SUSPENDED",
        ].map { answer(403, "google.rpc.ErrorInfo", "reason", $0) }
        let statuses = [401, 403, 404, 413, 500, 502, 504].map { HTTPAnswer(status: $0) }
        return (codes + accounts + statuses).map { answer in
            switch verdict(on: answer, context) {
            case .final(let outcome), .replay(let outcome), .hold(_, _, let outcome): outcome
            }
        }
    }

    private static func answer(_ status: Int, _ type: String, _ member: String, _ word: String) -> HTTPAnswer {
        let detail: JSONValue = ["@type": .string("type.googleapis.com/\(type)"), member: .string(word)]
        return HTTPAnswer(status: status, body: JSONValue.object(["error": ["details": [detail]]]).bytes)
    }
}
