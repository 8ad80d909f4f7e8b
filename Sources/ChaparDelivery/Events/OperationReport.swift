package import ChaparCore

/// The result of an attempt at an operation, for events.
package struct OperationReport: Sendable {
    /// The outcome of the attempt.
    package enum Outcome: String, Sendable {
        case done, retry, failed
    }

    package var outcome: Outcome
    package var reason: String?
    package var code: String?
    package var message: String?
    /// The wait before the next attempt; nil when there is none.
    package var pause: Duration?
    /// Whether the platform asked for that wait.
    var asksToWait = false
    package var detail: JSONObject

    package init(_ outcome: Outcome, reason: String? = nil, detail: JSONObject = JSONObject()) {
        self.outcome = outcome
        self.reason = reason
        self.detail = detail
    }
}
