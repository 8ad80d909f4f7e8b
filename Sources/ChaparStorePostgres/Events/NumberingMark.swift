internal import ChaparCore
internal import Synchronization

/// The batch behind which a node searches for blocks without a number.
///
/// A numbered block stays in the index of unnumbered ones while any session holds an older snapshot. So most searches
/// begin behind the batches of the turn before. Blocks of a transaction that takes longer than that are found by a
/// search from the beginning. There is one each interval, or fewer where it takes long.
final class NumberingMark: Sendable {
    private static let mostOfTheTime = 19

    private let turn: Duration
    private let interval: Duration

    private struct State {
        /// The highest batch at the turn before the last, at the last one, and now.
        var (former, last, highest): (Int64, Int64, Int64) = (0, 0, 0)
        var nextTurn = ContinuousClock.now
        var nextWhole = ContinuousClock.now
    }

    private let state = Mutex(State())

    init(turn: Duration = .seconds(5), interval: Duration = .seconds(10)) {
        (self.turn, self.interval) = (turn, interval)
    }

    /// Returns the batch behind which to search now.
    func begin() -> (after: Int64, ContinuousClock.Instant) {
        let now = ContinuousClock.now
        return state.withLock { state in
            if now >= state.nextTurn {
                (state.former, state.last) = (state.last, state.highest)
                state.nextTurn = now + turn
            }
            return (now >= state.nextWhole ? 0 : state.former, now)
        }
    }

    /// Records that all blocks that were committed up to a batch have numbers.
    func end(_ begin: ContinuousClock.Instant, _ after: Int64, highest: Int64) {
        state.withLock { state in
            state.highest = max(state.highest, highest)
            guard after == 0 else { return }
            let now = ContinuousClock.now
            state.nextWhole = now + max(interval, begin.duration(to: now) * Self.mostOfTheTime)
        }
    }
}
