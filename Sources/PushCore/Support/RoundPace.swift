internal import Synchronization

/// Paces a loop that works in rounds: a round begins after a span, or at a signal.
///
/// It belongs to one loop, which calls ``wait(atMost:_:)`` before each round. A signal is taken when a round begins,
/// whether or not the round succeeds. So a signal in the middle of a round begins another round, and the signal that
/// began a round does not begin a second one when that fails.
package final class RoundPace: Sendable {
    private let signal: AsyncSignal
    /// The last signal before the round under way; a later one begins another round.
    private let begun = Mutex(AsyncSignal.Mark.start)

    /// Makes the pace of a loop that `signal` wakes; a signal from before the first round begins that one.
    package init(_ signal: AsyncSignal) { self.signal = signal }

    /// Waits for a signal since the last round began, but no longer than `span`; ends early when the task is cancelled.
    package func wait(atMost span: Duration, _ time: any TimeSource) async {
        await signal.wait(after: begun.withLock { $0 }, atMost: span, time)
        begun.withLock { $0 = signal.mark }
    }
}
