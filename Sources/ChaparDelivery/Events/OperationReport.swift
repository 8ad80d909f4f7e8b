internal import ChaparCore

/// The result of an attempt at an operation, for events.
struct OperationReport: Sendable {
    /// The outcome of the attempt.
    enum Outcome: String, Sendable {
        case done, retry, failed
    }

    var outcome: Outcome
    var reason: String?
    var code: String?
    var message: String?
    /// The wait before the next attempt; nil when there is none.
    var pause: Duration?
    /// Whether the platform asked for that wait.
    var asksToWait = false
    var detail: JSONObject

    init(_ outcome: Outcome, reason: String? = nil, detail: JSONObject = JSONObject()) {
        self.outcome = outcome
        self.reason = reason
        self.detail = detail
    }
}
