import Synchronization

/// Wakes one waiting task; a signal without a waiter is kept for the next wait.
///
/// ``AltcraftSDKCore`` signals a call that left something to be repeated; its background loop waits.
final class AltcraftWakeUp: Sendable {
    private enum State {
        case quiet
        case signalled
        case waiting(CheckedContinuation<Void, Never>)
    }

    private let state = Mutex(State.quiet)

    /// Signals: wakes the waiter, or lets the next wait return at once.
    func signal() {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard case .waiting(let continuation) = state else {
                state = .signalled
                return nil
            }
            state = .quiet
            return continuation
        }
        waiter?.resume()
    }

    /// Takes a signal back that no wait has consumed.
    func reset() {
        state.withLock { state in
            if case .signalled = state { state = .quiet }
        }
    }

    /// Waits for a signal, or until the task is cancelled; one task at a time.
    func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state -> Bool in
                    if case .signalled = state {
                        state = .quiet
                        return true
                    }
                    state = .waiting(continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            signal()
        }
    }
}
