package import ChaparCore
internal import Synchronization

/// A timer for a loop that works at an interval until it is stopped.
package final class PeriodicTimer: Sendable {
    private let interval: Duration
    private let stopped = Atomic(false)
    private let signal = AsyncSignal()
    private let pace: RoundPace

    package init(every interval: Duration) {
        self.interval = interval
        pace = RoundPace(signal)
    }

    /// Whether ``stop()`` was called.
    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    /// Waits for the next round; false when the timer was stopped or the task is cancelled.
    package func next(_ time: any TimeSource) async -> Bool {
        guard !isStopped else { return false }
        await pace.wait(atMost: interval, time)
        return !isStopped && !Task.isCancelled
    }

    /// Starts the next round now, or when the current one has ended.
    func wake() { signal.signal() }

    /// Ends the current wait, and lets no round follow.
    package func stop() {
        stopped.store(true, ordering: .releasing)
        signal.signal()
    }
}
