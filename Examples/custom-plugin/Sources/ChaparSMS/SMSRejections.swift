import Foundation
import ChaparCore

/// The tables of the platform's refusals: what each answer means for the message, the address and the backend.
///
/// Source: the documentation of SMS, read on the day that stands here.
enum SMSRejections {
    /// A row: whose fault it is, what to do next, and a sentence with the fix.
    struct Rule {
        var kind: Refusal.Kind
        var advice: Refusal.Advice
        var detail: String
        /// Whether the address is dead.
        var isDead = false
    }

    static let keyFix = "Put the account's key under key, and reload."

    /// The platform's words, the member `error` of an answer.
    static let words: [String: Rule] = [
        "unknown_address": Rule(kind: .token, advice: .never, detail: "There is no such address.", isDead: true),
        "opted_out": Rule(kind: .token, advice: .never, detail: "The recipient does not want messages."),
        "text_rejected": Rule(kind: .message, advice: .never, detail: "The platform does not take the text."),
        "wrong_key": wrongKey, "too_fast": tooFast,
    ]

    /// The statuses of answers without a word of the table above; with any other the message may have been sent.
    static let statuses: [Int: Rule] = [
        400: notTaken, 413: notTaken, 422: notTaken, 401: wrongKey, 403: wrongKey, 404: wrongURL, 405: wrongURL,
        429: tooFast,
        503: Rule(kind: .platform, advice: .retry(after: nil), detail: "The platform has taken nothing."),
    ]

    private static let notTaken = Rule(
        kind: .message,
        advice: .never,
        detail: "The platform does not take the message."
    )
    private static let wrongKey = Rule(kind: .account, advice: .parkBackend, detail: keyFix)
    private static let wrongURL = Rule(
        kind: .account,
        advice: .parkBackend,
        detail: "Nothing takes messages there: check url."
    )
    private static let tooFast = Rule(
        kind: .platform,
        advice: .slowBackend(after: nil),
        detail: "The account sends too fast."
    )

    /// Returns the outcome of a message by the platform's answer, or by the want of one.
    static func outcome(of result: Result<HTTPAnswer, HTTPFailure>, since started: Date, now: Date) -> DeliveryOutcome {
        let answer: HTTPAnswer
        switch result {
        case .failure(let failure): return failure.outcome()
        case .success(let found): answer = found
        }
        let own = SMSAnswer(answer)
        if own.status == 200, let reference = own.reference {
            return .accepted(Acceptance(platformID: reference, status: 200))
        }
        if let word = own.word, let rule = words[word] { return refusal(word, rule, answer, started, now) }
        if let rule = statuses[answer.status] { return refusal("status_\(answer.status)", rule, answer, started, now) }
        let detail = "The platform answered \(answer.status): it may have sent the message."
        return .unknown(UnknownOutcome(reason: "status_\(answer.status)", detail: detail))
    }

    private static func refusal(
        _ reason: String,
        _ rule: Rule,
        _ answer: HTTPAnswer,
        _ started: Date,
        _ now: Date
    ) -> DeliveryOutcome {
        var refusal = Refusal(rule.kind, reason: reason, detail: rule.detail, advice: rule.advice)
        refusal.status = answer.status
        // The platform's own pause goes before ours.
        let pause = answer.retryAfter(now: now)
        switch rule.advice {
        case .slowBackend: refusal.advice = .slowBackend(after: pause)
        case .retry: refusal.advice = .retry(after: pause)
        default: break
        }
        if rule.isDead { refusal.invalidation = Refusal.Invalidation(asOf: started, isCertain: true) }
        return .refused(refusal)
    }

    /// What is refused before it leaves.
    static let unsupportedRecipient = DeliveryOutcome.refused(
        Refusal(.message, reason: "unsupported_recipient", detail: "SMS has no such address.", advice: .never)
    )
    static let tooLarge = DeliveryOutcome.refused(
        Refusal(.message, reason: "too_large", detail: "The text is too long for SMS.", advice: .never)
    )

    /// Every row as an outcome: what `explain` shows.
    static var outcomes: [DeliveryOutcome] {
        let epoch = Date(timeIntervalSince1970: 0)
        let answers = words.keys.sorted().map { word in
            HTTPAnswer(status: 400, body: JSONValue.object(["error": .string(word)]).bytes)
        }
        let others = [400, 401, 404, 413, 422, 429, 500, 503].map { HTTPAnswer(status: $0) }
        let known = (answers + others).map { outcome(of: .success($0), since: epoch, now: epoch) }
        return known + [unsupportedRecipient, tooLarge]
    }
}
