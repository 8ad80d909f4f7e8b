import ChaparCore

/// The failures of calls that wait in a pool, the same for HTTP/1.1 and HTTP/2.
extension HTTPFailure {
    static let callerCancelled = HTTPFailure(.notProcessed, .cancelled, "the caller was cancelled")
    static let poolShutDown = HTTPFailure(.notProcessed, .cancelled, "the pool was shut down")
    /// The failure of a call that was written and has no answer at the end of the grace period.
    static let unanswered = HTTPFailure(.unknown, .cancelled, "the pool was shut down before the answer came")

    /// Returns the failure of a call beyond the most that may wait.
    static func queueFull(limit: Int) -> HTTPFailure {
        HTTPFailure(.notProcessed, .queueFull, "\(limit) calls wait already")
    }

    /// Returns the failure of a call whose deadline passed while it waited: the failure to connect, if that was the
    /// reason.
    static func late(waitingFor what: String, after connectFailure: HTTPFailure?) -> HTTPFailure {
        guard let connectFailure else {
            return HTTPFailure(.notProcessed, .deadline, "the deadline passed while the call waited for a \(what)")
        }
        return HTTPFailure(
            .notProcessed,
            connectFailure.cause,
            "no connection before the deadline; the last attempt: \(connectFailure.detail)"
        )
    }
}
