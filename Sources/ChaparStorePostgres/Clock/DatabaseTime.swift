internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The database's clock: the last reading of this node, and the time since then by the machine's monotonic clock.
///
/// The machine's wall clock plays no part: nodes whose clocks differ agree. When the database's clock is set, `now`
/// follows and `steady` does not.
final class DatabaseTime: TimeSource {
    private struct State {
        var steady = Date()
        var instant = ContinuousClock.now
        /// The highest steady time that was returned since the database was first read; nil before, when the time is
        /// this machine's.
        var told: Date?
        /// How far the database's wall clock is ahead of the steady time, in seconds.
        var ahead = 0.0
    }

    /// The longest time, in seconds, for which the steady time stands still.
    ///
    /// Instead of standing still for longer, it goes back.
    ///
    /// That happens to a node that was started between a step of the database's clock and the moment when another node
    /// recorded it.
    private static let longestStandstill = 60.0

    private let state = Mutex(State())

    var steady: Date {
        state.withLock { state in
            let now = state.steady.addingTimeInterval(state.instant.duration(to: .now).inSeconds)
            guard let told = state.told else { return now }
            state.told = max(told, now)
            return max(told, now)
        }
    }

    /// Returns the steady time of an instant, even if a later time was returned before.
    func steady(at instant: ContinuousClock.Instant) -> Date {
        state.withLock { $0.steady.addingTimeInterval($0.instant.duration(to: instant).inSeconds) }
    }

    var now: Date {
        let steady = steady
        return state.withLock { steady.addingTimeInterval($0.ahead) }
    }

    func sleep(for duration: Duration) async throws { try await Task.sleep(for: duration, clock: .continuous) }

    /// Sets the time by a reading of the database at an instant: its wall clock, and how far that is ahead of the
    /// steady time.
    func set(wall: Date, ahead: Double, at instant: ContinuousClock.Instant) {
        state.withLock { state in
            state.steady = wall.addingTimeInterval(-ahead)
            state.instant = instant
            state.ahead = ahead
            // If a much later time was returned before, the steady time would stand still for as long.
            let isFarBehind = state.told.map { $0.timeIntervalSince(state.steady) > Self.longestStandstill } ?? true
            if isFarBehind { state.told = state.steady }
        }
    }
}
