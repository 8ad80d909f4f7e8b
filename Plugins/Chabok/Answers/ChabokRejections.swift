import Foundation
import ChaparCore

/// The table of Chabok's refusals: what each status means for the caller.
///
/// Sends, calls about users and receipts look up answers that are no success. The table reads the status only, and has
/// no state.
enum ChabokRejections {
    private static let statuses: StatusTable<RejectionRule> = [
        .within(
            300...399,
            means: RejectionRule(.account, "redirected", .parkBackend, "Check base_url; redirects are not followed.")
        ),
        .on(
            401,
            403,
            means: RejectionRule(.account, "unauthorized", .parkBackend, "Check access_token and environment.")
        ),
        .on(404, means: RejectionRule(.message, "not_found", .never, "Chabok knows no such user or channel.")),
        .on(408, means: RejectionRule(.platform, "unavailable", .retry(after: nil))),
        .on(413, means: RejectionRule(.message, "too_large", .never, "Shorten the content and data.")),
        .on(
            429,
            means: RejectionRule(.platform, "rate_limited", .slowBackend(after: nil), "Chabok asks for a pause.")
        ),
        .on(500, means: RejectionRule(.platform, "server_fault", .retry(after: nil), "Chabok has a fault.")),
        .within(
            501...Int.max,
            means: RejectionRule(.platform, "unavailable", .retry(after: nil), "Chabok is not available.")
        ),
    ]
    /// The row for any other status.
    private static let other = RejectionRule(.message, "invalid_request", .never)

    /// The reasons for the texts that Chabok shows for one message; only the letters of a text count.
    private static let deliveryReasons: [String: String] = [
        "devicenotfound": "unknown_user",
        "subscriptionnotfound": "not_subscribed", "subscrptionnotfound": "not_subscribed",
        "invalidsenderid": "credential_mismatch", "mismatchsenderid": "credential_mismatch",
        "devicetokennotfortopic": "wrong_topic", "badtopic": "wrong_topic",
        "baddevicetoken": "invalid_token",
        "gone": "unregistered", "deviceunregistered": "unregistered", "notregistered": "unregistered",
        "unregistered": "unregistered",
    ]

    /// Returns the refusal of a send that Chabok did not take.
    static func refusal(_ answer: ChabokAnswer) -> Refusal {
        (statuses[answer.status] ?? other)
            .refusal(status: answer.status, words: answer.fault?.text, pause: answer.retryAfter)
    }

    /// Returns the error of a call that is no send.
    static func error(_ answer: ChabokAnswer) -> PushError {
        PushError(refusal(answer), words: "Chabok answered \(answer.status)", retryAfter: answer.retryAfter)
    }

    /// Returns the error of a call without an answer.
    static func error(_ failure: HTTPFailure, isRepeatable: Bool) -> PushError {
        guard failure.stage == .unknown, !isRepeatable else { return failure.pushError }
        return PushError(.unknownOutcome, failure.detail, reason: failure.cause.reason)
    }

    /// Returns the reason for an error text that Chabok shows for one message; nil for a text that has no row.
    static func deliveryReason(_ text: String) -> String? {
        deliveryReasons[text.lowercased().filter { $0.isLetter }]
    }
}

extension ChabokRejections {
    /// The outcome of a delivery for each row of the table.
    static var outcomes: [DeliveryOutcome] {
        [302, 401, 404, 413, 429, 500, 503, 400].map { status in
            .refused(refusal(ChabokAnswer(HTTPAnswer(status: status), retryAfter: nil)))
        }
    }
}
