internal import Synchronization

/// The pace of a loop that works in rounds: a round begins after a duration, or at a signal.
///
/// It belongs to one loop, which calls ``wait(atMost:_:)`` before each round. A round uses up the signals that came
/// before it, whether or not it succeeds. So a signal during a round begins another round, and a failed round is not
/// repeated for the signal that began it.
package final class RoundPace: Sendable {
    private let signal: AsyncSignal
    /// The last signal before the current round; a later one begins another round.
    private let begun = Mutex(AsyncSignal.Mark.start)

    /// Makes the pace of a loop that `signal` wakes; earlier signals count for the first round.
    package init(_ signal: AsyncSignal) { self.signal = signal }

    /// Waits for a signal since the last round began, for at most `span`; ends early when the task is cancelled.
    package func wait(atMost span: Duration, _ time: any TimeSource) async {
        await signal.wait(after: begun.withLock { $0 }, atMost: span, time)
        begun.withLock { $0 = signal.mark }
    }
}
