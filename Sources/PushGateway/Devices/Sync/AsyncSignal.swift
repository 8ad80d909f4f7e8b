internal import PushCore
internal import Synchronization

/// A pause that somebody else can end.
///
/// One task rests at a time. A wake-up that comes while nobody rests ends the next rest at once.
final class AsyncSignal: Sendable {
    private struct State {
        var isWoken = false
        var sleep: Task<Void, any Error>?
    }

    private let state = Mutex(State())

    /// Waits for so long, for a wake-up or for cancellation.
    func rest(_ span: Duration, _ time: any TimeSource) async {
        // A task, so that a wake-up can end it; awaited here.
        let sleep = Task<Void, any Error> { try await time.sleep(for: span) }
        let isWoken = state.withLock { state in
            state.sleep = sleep
            return state.isWoken
        }
        if isWoken { sleep.cancel() }
        await withTaskCancellationHandler {
            _ = try? await sleep.value
        } onCancel: {
            sleep.cancel()
        }
        state.withLock { $0 = State() }
    }

    /// Ends the rest.
    func wake() {
        state.withLock { state in
            state.isWoken = true
            return state.sleep
        }?.cancel()
    }
}
