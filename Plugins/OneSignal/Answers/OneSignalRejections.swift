import Foundation
import ChaparCore

/// The mapping table: what OneSignal's errors mean for the caller.
///
/// Sends and calls about devices ask it, with an answer that is no success. It looks at status and text only, keeps
/// nothing and repeats nothing.
enum OneSignalRejections {
    /// An answer to a create that made nothing.
    static func refusal(_ answer: OneSignalAnswer) -> Refusal {
        let text = answer.text
        func refusal(_ kind: Refusal.Kind, _ reason: String, _ advice: Refusal.Advice, _ detail: String? = nil)
            -> Refusal
        {
            let both = [text, detail].compactMap(\.self).joined(separator: ". ")
            return Refusal(
                kind,
                reason: reason,
                detail: both.isEmpty ? nil : both,
                status: answer.status,
                advice: advice
            )
        }
        switch answer.status {
        case 429:
            return refusal(
                .platform,
                "rate_limited",
                .slowBackend(after: answer.retryAfter),
                "OneSignal's limit for the app is used up."
            )
        case 408, 500...:
            return refusal(.platform, "unavailable", .retry(after: answer.retryAfter), "OneSignal has a fault.")
        case 401:
            return refusal(.account, "unauthorized", .parkBackend, "Check api_key.")
        case 403:
            let reason = text?.hasPrefix("Access denied") ?? false ? "access_denied" : "forbidden"
            return refusal(
                .account,
                reason,
                .parkBackend,
                "Check api_key, app_id, the key's IP allowlist and the plan."
            )
        case 300..<400:
            return refusal(.account, "redirected", .parkBackend, "Check base_url; redirects are not followed.")
        case 409:
            if answer.hasCode("subscription-1")
                || answer.faults.contains(where: { $0.meta?["user_subscription_limit"] != nil })
            {
                return refusal(
                    .account,
                    "subscription_limit",
                    .never,
                    "The user has as many subscriptions as OneSignal allows."
                )
            }
            if answer.faults.contains(where: { $0.meta?["conflicting_aliases"] != nil }) {
                return refusal(.message, "conflicting_aliases", .never, "An alias belongs to another user.")
            }
            return refusal(.platform, "conflict", .retry(after: .seconds(1)), "OneSignal is changing the same user.")
        case 413: return refusal(.message, "too_large", .never, "Shorten the content, data and overrides.")
        case 422:
            return refusal(
                .account,
                "plan_limit",
                .never,
                "The app's plan does not allow this: see it in OneSignal's dashboard."
            )
        case 400: return refusal(.message, reason(answer), .never)
        case 404:
            return refusal(
                .message,
                "not_found",
                .never,
                "OneSignal knows no such app, template or message: check app_id."
            )
        default: return refusal(.message, "other", .never)
        }
    }

    private static let sentinels: [(String, String)] = [
        ("not a valid UUID", "malformed_platform_id"), ("must have English language content", "english_missing"),
        ("one delivery channel at a time", "mixed_channels"),
        ("You must include which players", "audience_missing"),
        ("No user with this id found", "unknown_device"), ("Notification not found", "not_found"),
    ]

    /// A word of bounded variety for the sentinels of a 400.
    private static func reason(_ answer: OneSignalAnswer) -> String {
        sentinels.first { answer.mentions($0.0) }?.1 ?? "bad_request"
    }

    /// Whether a refusal says that the request has too many entries.
    ///
    /// The exact text is not documented.
    static func isTooMany(_ answer: OneSignalAnswer) -> Bool {
        guard answer.status == 400 || answer.status == 413 else { return false }
        return ["too many", "cannot exceed", "more than", "maximum of", "at most"].contains { answer.mentions($0) }
            && ["player", "subscription", "alias", "ids", "entries", "recipients", "external"].contains {
                answer.mentions($0)
            }
    }

    /// The error of a call that is no send.
    static func error(_ answer: OneSignalAnswer) -> PushError {
        PushError(refusal(answer), words: "OneSignal answered \(answer.status)", retryAfter: answer.retryAfter)
    }
}

extension OneSignalRejections {
    /// The outcome of a delivery for each row of the table.
    static var outcomes: [DeliveryOutcome] {
        let statuses = [429, 503, 401, 403, 302, 409, 413, 422, 400, 404].map { HTTPAnswer(status: $0) }
        let bodies: [(Int, JSONValue)] =
            [
                (409, [["code": "subscription-1", "title": ""]]),
                (409, [["title": "", "meta": ["conflicting_aliases": [:]]]]),
            ] + sentinels.map { (400, [.string($0.0)]) }
        let answers = statuses + bodies.map { HTTPAnswer(status: $0, body: JSONValue.object(["errors": $1]).bytes) }
        return answers.map { .refused(refusal(OneSignalAnswer($0, now: Date(timeIntervalSince1970: 0)))) }
    }
}
