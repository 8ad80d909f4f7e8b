import Foundation
import ChaparCore

/// The table of statuses: what an answer other than 200 means for the whole request.
///
/// ``ServiceAnswer`` uses it for every recipient of the request; outcomes of single messages are read there.
extension ServiceAnswer {
    /// The outcome of every recipient of the request.
    func outcome(of answer: HTTPAnswer) -> DeliveryOutcome {
        let problem = try? JSONValue(parsing: answer.body)
        let text = (problem?["detail"] ?? problem?["title"])?.stringValue.map { String($0.prefix(300)) }
        func refuse(
            _ kind: Refusal.Kind,
            _ reason: String,
            _ advice: Refusal.Advice,
            _ detail: String? = nil
        ) -> DeliveryOutcome {
            .refused(
                Refusal(kind, reason: reason, detail: text ?? detail, status: answer.status, advice: advice)
            )
        }
        let pause = answer.retryAfter(now: now)
        switch answer.status {
        case 400, 422: return refuse(.message, "rejected", .never, "The service refused the request.")
        case 401, 403: return refuse(.account, "unauthorized", .parkBackend, "Compare secret with the service's own.")
        case 413:
            if chunk.messages == 1, chunk.slots.count == 1 {
                return refuse(
                    .message,
                    "message_too_large",
                    .never,
                    "The service does not take a message of this size."
                )
            }
            return refuse(.account, "batch_too_large", .parkBackend, "Lower batch_size or max_message_bytes.")
        case 408, 425:
            return refuse(.platform, "not_taken", .retry(after: pause), "The service says that it did not take it.")
        case 429: return refuse(.platform, "rate_limited", .slowBackend(after: pause), "The service asks for a pause.")
        case 503: return refuse(.platform, "unavailable", .slowBackend(after: pause), "The service is not available.")
        case 500...599:
            let detail = text ?? "The service answered \(answer.status): it may have sent the message."
            return unknown("status_\(answer.status)", detail)
        case 200...299: return bad("The service answered \(answer.status), and not 200 with outcomes.")
        default: return refuse(.account, "wrong_address", .parkBackend, "Check url: nothing there takes batches.")
        }
    }
}
