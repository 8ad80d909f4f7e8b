internal import PushCore
internal import Synchronization

/// Behind which batch a node looks for events without a number.
///
/// What was numbered stays in the small index of what was not for as long as some session holds a snapshot. So most
/// looks begin behind what was there a turn ago; a transaction that takes longer than that is found by a look from the
/// beginning, of which there is one each interval, or less often where it takes long.
final class NumberingMark: Sendable {
    private static let mostOfTheTime = 19

    private let turn: Duration
    private let interval: Duration

    private struct State {
        /// The highest batch that there was at the turn before the last, at the last one, and now.
        var (former, last, highest): (Int64, Int64, Int64) = (0, 0, 0)
        var nextTurn = ContinuousClock.now
        var nextWhole = ContinuousClock.now
    }

    private let state = Mutex(State())

    init(turn: Duration = .seconds(5), interval: Duration = .seconds(10)) {
        (self.turn, self.interval) = (turn, interval)
    }

    /// The batch behind which to look now.
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

    /// Notes that all that was committed up to a batch has numbers.
    func end(_ begin: ContinuousClock.Instant, _ after: Int64, highest: Int64) {
        state.withLock { state in
            state.highest = max(state.highest, highest)
            guard after == 0 else { return }
            let now = ContinuousClock.now
            state.nextWhole = now + max(interval, begin.duration(to: now) * Self.mostOfTheTime)
        }
    }
}
