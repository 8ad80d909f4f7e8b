internal import Synchronization

/// Waits for foreign code no longer than a deadline, even when that code never returns and ignores cancellation.
public enum Deadline {
    /// The deadline passed.
    public struct Passed: Error {
        /// Makes the error.
        public init() {}
    }

    /// Runs `body`; throws its error, or ``Passed``, or `CancellationError`.
    public static func run<Value: Sendable>(
        _ deadline: Duration,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let race = Race<Value>()
        // Unstructured, since a task group would wait for a body that never ends. Both are cancelled when one has won; the
        // body's own task can outlive that only if the caller's code ignores cancellation.
        let work = Task {
            do { race.finish(.success(try await body())) } catch { race.finish(.failure(error)) }
        }
        let timer = Task {
            do { try await Task.sleep(for: deadline) } catch { return }
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

    /// The first result wins.
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
