import Foundation
import ChaparCore

/// The mapping table: what Chabok's errors mean for the caller.
///
/// Sends, calls about users and receipts ask it, with an answer that is no success. It looks at status and code only,
/// keeps nothing and repeats nothing.
enum ChabokRejections {
    /// A send that Chabok did not take.
    static func refusal(_ answer: ChabokAnswer) -> Refusal {
        func refusal(_ kind: Refusal.Kind, _ reason: String, _ advice: Refusal.Advice, _ hint: String? = nil) -> Refusal
        {
            let detail = [answer.fault?.text, hint].compactMap(\.self).joined(separator: ". ")
            return Refusal(
                kind,
                reason: reason,
                detail: detail.isEmpty ? nil : detail,
                status: answer.status,
                advice: advice
            )
        }
        switch answer.status {
        case 300..<400:
            return refusal(.account, "redirected", .parkBackend, "Check base_url; redirects are not followed.")
        case 401, 403:
            return refusal(.account, "unauthorized", .parkBackend, "Check access_token and environment.")
        case 404: return refusal(.message, "not_found", .never, "Chabok knows no such user or channel.")
        case 408: return refusal(.platform, "unavailable", .retry(after: answer.retryAfter))
        case 413: return refusal(.message, "too_large", .never, "Shorten the content and data.")
        case 429:
            return refusal(
                .platform,
                "rate_limited",
                .slowBackend(after: answer.retryAfter),
                "Chabok asks for a pause."
            )
        case 500: return refusal(.platform, "server_fault", .retry(after: answer.retryAfter), "Chabok has a fault.")
        case 501...:
            return refusal(.platform, "unavailable", .retry(after: answer.retryAfter), "Chabok is not available.")
        default: return refusal(.message, "invalid_request", .never)
        }
    }

    /// The error of a call that is no send.
    static func error(_ answer: ChabokAnswer) -> PushError {
        PushError(refusal(answer), words: "Chabok answered \(answer.status)", retryAfter: answer.retryAfter)
    }

    /// The error of a call without an answer.
    static func error(_ failure: HTTPFailure, isRepeatable: Bool) -> PushError {
        guard failure.stage == .unknown, !isRepeatable else { return failure.pushError }
        return PushError(.unknownOutcome, failure.detail, reason: failure.cause.reason)
    }

    /// The normalised reason of an error text that Chabok shows for one message; nil for texts it does not know.
    static func deliveryReason(_ text: String) -> String? {
        let folded = text.lowercased().filter { $0.isLetter }
        return switch folded {
        case "devicenotfound": "unknown_user"
        case "subscriptionnotfound", "subscrptionnotfound": "not_subscribed"
        case "invalidsenderid", "mismatchsenderid": "credential_mismatch"
        case "devicetokennotfortopic", "badtopic": "wrong_topic"
        case "baddevicetoken": "invalid_token"
        case "gone", "deviceunregistered", "notregistered", "unregistered": "unregistered"
        default: nil
        }
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
