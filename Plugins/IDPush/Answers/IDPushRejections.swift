internal import Foundation
import ChaparCore

/// The table of IDPush's refusals: what each status, or sentence, means for a call about a device.
///
/// IDPush takes no messages from here, so its rows give errors. ``IDPushRegistrar`` asks it; it keeps nothing and
/// repeats nothing. An answer that cannot be read is no row: the registrar asks again.
enum IDPushRejections {
    /// A row of the table: the error, its reason, and a sentence for an answer without one.
    struct Rule: Sendable, Hashable {
        let code: PushError.Code
        let reason: String
        let sentence: String

        init(_ code: PushError.Code, _ reason: String, _ sentence: String) {
            self.code = code
            self.reason = reason
            self.sentence = sentence
        }
    }

    /// The reason of a refusal because IDPush does not have the device.
    static let unknownDevice = "unknown_device"

    private static let statuses: StatusTable<Rule> = [
        .within(
            300...399,
            means: Rule(.credentialsRefused, "redirected", "check base_url; redirects are not followed")
        ),
        .on(401, 403, means: Rule(.credentialsRefused, "forbidden", "IDPush refused the project: check project_id")),
        .on(404, means: Rule(.credentialsRefused, "not_found", "IDPush has no such route: check base_url")),
        .on(408, means: Rule(.unavailable, "unavailable", "IDPush answered {status}")),
        .on(429, means: Rule(.rateLimited, "rate_limited", "IDPush asks for a pause")),
        .within(500...Int.max, means: Rule(.unavailable, "unavailable", "IDPush answered {status}")),
        .others(means: badRequest),
    ]
    /// The rows that replace those above for the edit of a registered device.
    private static let editStatuses: StatusTable<Rule> = [
        .on(404, means: Rule(.invalidRequest, unknownDevice, "IDPush does not know the device"))
    ]
    private static let badRequest = Rule(.invalidRequest, "bad_request", "IDPush answered {status}")

    /// The sentences of a refusal with a 2xx status that have a row: OneSignal's words about a player that is gone mean
    /// the same as 404.
    private static let sentences: [(words: String, rule: Rule)] = [
        ("no user with this id", Rule(.invalidRequest, unknownDevice, "IDPush does not know the device"))
    ]
    private static let refused = Rule(.invalidRequest, "refused_by_idpush", "IDPush refused the action")

    /// Returns the error for a status other than 2xx, nil for a 2xx; `isEdit` marks a call about a registered device.
    static func error(_ answer: HTTPAnswer, isEdit: Bool, now: Date) -> PushError? {
        guard !(200..<300).contains(answer.status) else { return nil }
        let rule = (isEdit ? editStatuses[answer.status] : nil) ?? statuses[answer.status] ?? badRequest
        let message = (try? JSONValue(parsing: answer.body))?["message"]?.stringValue.map { String($0.prefix(300)) }
        return PushError(
            rule.code,
            message ?? rule.sentence.filled("status", "\(answer.status)"),
            reason: rule.reason,
            retryAfter: answer.retryAfter(now: now)
        )
    }

    /// Returns the error of an answer with 2xx that says no.
    static func error(_ reply: IDPushReply) -> PushError {
        let message = reply.message
        for row in sentences where message?.localizedCaseInsensitiveContains(row.words) ?? false {
            return PushError(row.rule.code, row.rule.sentence, reason: row.rule.reason)
        }
        return PushError(refused.code, message ?? refused.sentence, reason: refused.reason)
    }
}
