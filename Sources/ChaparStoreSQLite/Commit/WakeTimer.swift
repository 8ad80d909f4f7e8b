import Foundation
import ChaparCore
import Synchronization

/// Wakes the writer at the next moment at which work becomes due or a wait ends.
///
/// One task at a time sleeps on the store's time source. An earlier moment replaces the current one; a later moment
/// need not be kept, since the writer sets the timer again each time it is woken.
final class WakeTimer: Sendable {
    private struct State {
        var moment: Int64?
        var sleeper: Task<Void, Never>?
        var isClosed = false
    }

    /// The longest sleep, so that a wall clock that was set is noticed: `send_at` follows it.
    private static let longestSleep: Int64 = 30_000

    private let time: any TimeSource
    private let wake: @Sendable () -> Void
    private let state = Mutex(State())

    init(time: any TimeSource, wake: @escaping @Sendable () -> Void) {
        self.time = time
        self.wake = wake
    }

    /// Makes sure that the writer is woken at `moment`, or earlier.
    func set(_ moment: Int64) {
        state.withLock { state in
            guard !state.isClosed, state.moment.map({ moment < $0 }) ?? true else { return }
            state.moment = moment
            // Unstructured, since the writer is a thread. Each task awaits the one before it, and `close` the last.
            state.sleeper = Task { [previous = state.sleeper, time, wake] in
                previous?.cancel()
                await previous?.value
                let end = min(moment, time.steady.millisecondsSince1970.adding(clamping: Self.longestSleep))
                try? await time.sleep(until: Date(millisecondsSince1970: end))
                guard !Task.isCancelled else { return }
                self.state.withLock { if $0.moment == moment { $0.moment = nil } }
                wake()
            }
        }
    }

    /// Ends the timer for good.
    func close() async {
        let last = state.withLock { state in
            state.isClosed = true
            defer { state.sleeper = nil }
            return state.sleeper
        }
        last?.cancel()
        await last?.value
    }
}
