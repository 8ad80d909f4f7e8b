import Synchronization

/// Lets one task wait until another has something for it; a ring that nobody waits for is kept.
final class AltcraftWakeUp: Sendable {
    private enum State {
        case quiet
        case rung
        case waiting(CheckedContinuation<Void, Never>)
    }

    private let state = Mutex(State.quiet)

    /// Wakes who waits, or the next who will.
    func ring() {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard case .waiting(let continuation) = state else {
                state = .rung
                return nil
            }
            state = .quiet
            return continuation
        }
        waiter?.resume()
    }

    /// Takes back a ring that nobody has waited for.
    func hush() {
        state.withLock { state in
            if case .rung = state { state = .quiet }
        }
    }

    /// Waits for a ring, or until the task is cancelled; one task at a time.
    func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state -> Bool in
                    if case .rung = state {
                        state = .quiet
                        return true
                    }
                    state = .waiting(continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            ring()
        }
    }
}
