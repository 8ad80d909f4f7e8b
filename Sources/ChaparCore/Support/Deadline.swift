internal import Synchronization

/// A wait for foreign code that ends at a deadline, even when that code never returns and ignores cancellation.
///
/// It is for closures and plugins from outside this package; the package's own code has deadlines of its own. At the
/// deadline the foreign code is cancelled; if it ignores the cancellation, it keeps running. So a caller that runs the
/// code repeatedly must allow only one call at a time, as the chain of token providers in `ChaparComposition` does.
public enum Deadline {
    /// The error when the deadline passed first.
    public struct Passed: Error, Sendable {
        /// Makes the error.
        public init() {}
    }

    /// Runs `body` for at most `span`.
    ///
    /// - Parameters:
    ///   - span: The longest wait.
    ///   - time: The clock of the wait.
    ///   - body: The foreign code.
    /// - Returns: The result of `body`.
    /// - Throws: ``Passed``, `CancellationError`, or the error of `body`.
    public static func run<Value: Sendable>(
        _ span: Duration,
        time: any TimeSource = SystemTime(),
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let race = Race<Value>()
        // Unstructured, since a task group would wait for a body that never ends. Both tasks are cancelled once one has
        // finished.
        let work = Task {
            do { race.finish(.success(try await body())) } catch { race.finish(.failure(error)) }
        }
        let timer = Task {
            do { try await time.sleep(for: span) } catch { return }
            race.finish(.failure(Passed()))
        }
        defer {
            work.cancel()
            timer.cancel()
        }
        return try await withTaskCancellationHandler {
            try await race.value()
        } onCancel: {
            race.finish(.failure(CancellationError()))
        }
    }

    /// A result that the first of several writers sets.
    private final class Race<Value: Sendable>: Sendable {
        private enum State {
            case waiting(CheckedContinuation<Value, any Error>?)
            case finished(Result<Value, any Error>)
        }

        private let state = Mutex(State.waiting(nil))

        func finish(_ result: Result<Value, any Error>) {
            let continuation = state.withLock { state -> CheckedContinuation<Value, any Error>? in
                guard case .waiting(let continuation) = state else { return nil }
                state = .finished(result)
                return continuation
            }
            continuation?.resume(with: result)
        }

        func value() async throws -> Value {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Value, any Error>? in
                    switch state {
                    case .finished(let result): return result
                    case .waiting:
                        state = .waiting(continuation)
                        return nil
                    }
                }
                if let result { continuation.resume(with: result) }
            }
        }
    }
}
