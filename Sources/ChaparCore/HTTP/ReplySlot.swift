internal import Synchronization

/// Holds the one reply of a single call between the event loop that reports it and the task that waits for it.
final class ReplySlot: Sendable {
    private let value = Mutex<Result<HTTPAnswer, HTTPFailure>?>(nil)

    func put(_ result: Result<HTTPAnswer, HTTPFailure>) {
        value.withLock { $0 = result }
    }

    /// Returns the reply.
    ///
    /// If the pool returned without reporting one, which it must not, returns a lost connection.
    func take() -> Result<HTTPAnswer, HTTPFailure> {
        value.withLock { $0 } ?? .failure(HTTPFailure(.unknown, .connectionLost, "the pool did not report the call"))
    }
}
