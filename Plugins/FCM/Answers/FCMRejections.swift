internal import Foundation
internal import ChaparCore

/// The mapping table: what each of Google's errors means for the message, the token and the backend.
///
/// Source: Firebase, "FCM error codes" and "Best practices for sending FCM messages at scale", read 2026-08. The
/// decision is taken from `FcmError.errorCode`, else `ErrorInfo.reason`, else `error.status`, else the HTTP status.
enum FCMRejections {
    /// The properties of a request that decide what an answer to it means.
    struct Context: Sendable {
        /// When the send began: FCM gives no time for a dead token.
        var started: Date
        /// The kind of target that it was addressed to.
        var target: FCMTarget.Class
        /// Whether it has been replayed with a fresh access token already.
        var isSecondTry: Bool
    }

    /// How long an error without a name is tried again: it may never end.
    static let unspecifiedLimit = Refusal.RetryLimit(attempts: 3, span: .seconds(3600))

    /// The decision about an answer that is not a success.
    enum Verdict {
        case final(DeliveryOutcome)
        /// The access token was refused: send it once more with a fresh one; the outcome if that is not possible.
        case replay(otherwise: DeliveryOutcome)
        /// One part of the project must pause, the rest goes on.
        case hold(FCMPartialPauses.Part, Duration, DeliveryOutcome)
    }

    /// Google's first delay after a server error; shorter ones may get a sender blocked.
    private static let firstDelay = Duration.seconds(10)
    /// After 429 without `Retry-After`.
    private static let quotaDelay = Duration.seconds(60)

    /// The meaning of an answer that is not a success.
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
        func invalidToken(_ detail: String, isCertain: Bool) -> DeliveryOutcome {
            // A topic or a condition is no token, whatever Google says.
            guard context.target.isToken else { return refused(.message, .never, detail) }
            return refused(.token, .never, detail, isDead: isCertain)
        }
        func account() -> DeliveryOutcome {
            refused(.account, .parkBackend, accountDetail(body.infoReason ?? body.status, status: answer.status))
        }
        func retry(_ detail: String) -> DeliveryOutcome {
            refused(.platform, .retry(after: max(wait ?? firstDelay, .seconds(1))), detail)
        }
        if body.isForeign, answer.status < 500, answer.status != 429 { return .final(foreign(answer)) }
        switch body.errorCode {
        case FCMErrorCode.unregistered?:
            return .final(invalidToken("The app is gone from the device, or its token was replaced.", isCertain: true))
        case FCMErrorCode.senderMismatch?:
            return .final(
                invalidToken(
                    "The token belongs to another Firebase project: compare project_id with the app's.",
                    isCertain: false
                )
            )
        case FCMErrorCode.invalidArgument?:
            guard blamesToken(body) else { return .final(refused(.message, .never, messageDetail(body))) }
            return .final(invalidToken("Not a registration token of this service.", isCertain: false))
        case FCMErrorCode.thirdPartyAuth?:
            return thirdParty(body, answer, context)
        case FCMErrorCode.quotaExceeded?:
            return quota(body, wait, refused)
        case FCMErrorCode.unavailable?: return .final(retry("FCM is not available."))
        case FCMErrorCode.internal?: return .final(retry("FCM has a problem."))
        case FCMErrorCode.unspecified?:
            guard case .refused(var refusal) = retry("FCM gave an error without saying which.") else { break }
            refusal.retryLimit = unspecifiedLimit
            return .final(.refused(refusal))
        default: break
        }
        switch answer.status {
        case 401:
            let outcome = account()
            return context.isSecondTry ? .final(outcome) : .replay(otherwise: outcome)
        case 403, 404, 405: return .final(account())
        case 400 where body.status == "FAILED_PRECONDITION": return .final(account())
        case 413: return .final(refused(.message, .never, "The message is too large."))
        case 429: return quota(body, wait, refused)
        case 502, 504:
            return .final(
                .unknown(
                    UnknownOutcome(
                        reason: "http_\(answer.status)",
                        detail: "Google's front end lost the answer: the message may have been sent."
                    )
                )
            )
        case 500...: return .final(retry("FCM answered \(answer.status)."))
        case 400..<500: return .final(refused(.message, .never, messageDetail(body)))
        default: return .final(foreign(answer))
        }
    }

    // MARK: The rows that look closer

    /// Whether `INVALID_ARGUMENT` is about the token: only then is it dead.
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
                advice: .retry(after: FCMPartialPauses.span)
            )
        )
        // Whatever this was addressed to, tokens of Android devices go on.
        switch context.target {
        case .iOS: return .hold(.iOS, FCMPartialPauses.span, outcome)
        case .web: return .hold(.web, FCMPartialPauses.span, outcome)
        case .android, .topic, .condition: return .final(outcome)
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

    /// Returns what an operator can do about a refusal that concerns the whole project.
    static func accountDetail(_ reason: String?, status: Int) -> String {
        switch reason {
        case "SERVICE_DISABLED": return "Enable the Firebase Cloud Messaging API in the Google Cloud console."
        case "ACCESS_TOKEN_SCOPE_INSUFFICIENT": return "The access token lacks the scope \(FCMAuth.messagingScope)."
        case "BILLING_DISABLED": return "Billing is disabled for the project."
        case "CONSUMER_INVALID", "CONSUMER_SUSPENDED": return "Google has suspended the project, or does not know it."
        case FCMErrorCode.thirdPartyAuth?:
            return
                "The APNs key or web push key in the Firebase console is missing or wrong; another access token won't help."
        default: break
        }
        switch status {
        case 401: return "Google does not take the access token: check the service account, and this machine's clock."
        case 403:
            return "The account may not send for this project: give it the role Firebase Cloud Messaging API Admin, "
                + "and compare project_id."
        case 404: return "Google knows no such project or path: check project_id and base_url. No token is at fault."
        default: return "Google answered \(status) \(reason ?? ""): the project cannot send as it is."
        }
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
