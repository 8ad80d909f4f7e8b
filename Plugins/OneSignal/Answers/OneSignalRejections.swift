import Foundation
import ChaparCore

/// The table of OneSignal's refusals: what each status, together with the errors, means for the caller.
///
/// Sends and calls about devices look up answers that are no success. The table reads status and errors only, and has
/// no state.
enum OneSignalRejections {
    /// The sign in an answer's errors by which a row is chosen.
    enum Sign: Sendable, Hashable {
        /// The errors' text begins with these words.
        case begins(String)
        /// An error holds these words, in any case of letters.
        case mentions(String)
        /// An error has this code.
        case code(String)
        /// An error has this member under `meta`.
        case meta(String)
    }

    /// A row of the table: for every answer with its status, or only for those with a sign.
    struct Row: Sendable, Hashable {
        let rule: RejectionRule
        let sign: Sign?

        init(_ rule: RejectionRule, when sign: Sign? = nil) {
            self.rule = rule
            self.sign = sign
        }
    }

    private static let statuses: StatusTable<Row> = [
        .within(300...399, means: Row(redirected)),
        .on(400, means: Row(message("malformed_platform_id"), when: .mentions("not a valid UUID"))),
        .on(400, means: Row(message("english_missing"), when: .mentions("must have English language content"))),
        .on(400, means: Row(message("mixed_channels"), when: .mentions("one delivery channel at a time"))),
        .on(400, means: Row(message("audience_missing"), when: .mentions("You must include which players"))),
        .on(400, means: Row(message("unknown_device"), when: .mentions("No user with this id found"))),
        .on(400, means: Row(message("not_found"), when: .mentions("Notification not found"))),
        .on(400, means: Row(message("bad_request"))),
        .on(401, means: Row(RejectionRule(.account, "unauthorized", .parkBackend, "Check api_key."))),
        .on(403, means: Row(forbidden("access_denied"), when: .begins("Access denied"))),
        .on(403, means: Row(forbidden("forbidden"))),
        .on(
            404,
            means: Row(message("not_found", "OneSignal knows no such app, template or message: check app_id."))
        ),
        .on(408, means: Row(unavailable)), .on(409, means: Row(subscriptionLimit, when: .code("subscription-1"))),
        .on(409, means: Row(subscriptionLimit, when: .meta("user_subscription_limit"))),
        .on(
            409,
            means: Row(
                message("conflicting_aliases", "An alias belongs to another user."),
                when: .meta("conflicting_aliases")
            )
        ),
        // The pause is fixed; the one that OneSignal asks for is not used.
        .on(
            409,
            means: Row(
                RejectionRule(
                    .platform,
                    "conflict",
                    .retry(after: .seconds(1)),
                    "OneSignal is changing the same user at this moment."
                )
            )
        ),
        .on(413, means: Row(message("too_large", "Shorten the content, data and overrides."))),
        .on(
            422,
            means: Row(
                RejectionRule(
                    .account,
                    "plan_limit",
                    .never,
                    "The app's plan does not allow this: see it in OneSignal's dashboard."
                )
            )
        ),
        .on(
            429,
            means: Row(
                RejectionRule(
                    .platform,
                    "rate_limited",
                    .slowBackend(after: nil),
                    "OneSignal's limit for the app is used up."
                )
            )
        ),
        .within(500...Int.max, means: Row(unavailable)), .others(means: Row(message("other"))),
    ]

    private static func message(_ reason: String, _ fix: String? = nil) -> RejectionRule {
        RejectionRule(.message, reason, .never, fix)
    }

    private static func forbidden(_ reason: String) -> RejectionRule {
        RejectionRule(.account, reason, .parkBackend, "Check api_key, app_id, the key's IP allowlist and the plan.")
    }

    private static let redirected = RejectionRule(
        .account,
        "redirected",
        .parkBackend,
        "Check base_url; redirects are not followed."
    )
    private static let subscriptionLimit = RejectionRule(
        .account,
        "subscription_limit",
        .never,
        "The user has as many subscriptions as OneSignal allows."
    )
    private static let unavailable = RejectionRule(
        .platform,
        "unavailable",
        .retry(after: nil),
        "OneSignal has a fault."
    )

    /// Returns the refusal of an answer to a create that made nothing.
    static func refusal(_ answer: OneSignalAnswer) -> Refusal {
        let row = statuses.first(answer.status) { row in row.sign.map { isThere($0, in: answer) } ?? true }
        return (row?.rule ?? message("other"))
            .refusal(status: answer.status, words: answer.text, pause: answer.retryAfter)
    }

    private static func isThere(_ sign: Sign, in answer: OneSignalAnswer) -> Bool {
        switch sign {
        case .begins(let words): answer.text?.hasPrefix(words) ?? false
        case .mentions(let words): answer.mentions(words)
        case .code(let code): answer.hasCode(code)
        case .meta(let name): answer.faults.contains { $0.meta?[name] != nil }
        }
    }

    /// Returns whether a refusal says that the request has too many entries.
    ///
    /// The exact text is not documented.
    static func isTooMany(_ answer: OneSignalAnswer) -> Bool {
        guard answer.status == 400 || answer.status == 413 else { return false }
        return ["too many", "cannot exceed", "more than", "maximum of", "at most"].contains { answer.mentions($0) }
            && ["player", "subscription", "alias", "ids", "entries", "recipients", "external"].contains {
                answer.mentions($0)
            }
    }

    /// Returns the error of a call that is no send.
    static func error(_ answer: OneSignalAnswer) -> PushError {
        PushError(refusal(answer), words: "OneSignal answered \(answer.status)", retryAfter: answer.retryAfter)
    }
}

extension OneSignalRejections {
    /// The sentences by which rows are chosen.
    private static var sentences: [String] {
        statuses.rows.compactMap { row -> String? in
            guard case .mentions(let words)? = row.meaning.sign else { return nil }
            return words
        }
    }

    /// The outcome of a delivery for each row of the table.
    static var outcomes: [DeliveryOutcome] {
        let statuses = [429, 503, 401, 403, 302, 409, 413, 422, 400, 404].map { HTTPAnswer(status: $0) }
        let bodies: [(Int, JSONValue)] =
            [
                (409, [["code": "subscription-1", "title": ""]]),
                (409, [["title": "", "meta": ["conflicting_aliases": [:]]]]),
            ] + sentences.map { (400, [.string($0)]) }
        let answers = statuses + bodies.map { HTTPAnswer(status: $0, body: JSONValue.object(["errors": $1]).bytes) }
        return answers.map { .refused(refusal(OneSignalAnswer($0, now: Date(timeIntervalSince1970: 0)))) }
    }
}
