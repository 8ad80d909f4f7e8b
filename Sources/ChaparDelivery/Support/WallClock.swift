package import Foundation
internal import ChaparCore
internal import Synchronization

/// The converter between times of the steady clock, which decisions use, and of the wall clock, which are shown.
///
/// The difference between the two stays constant until the machine's clock is set, so that a stored time is always
/// shown alike. There is one for a gateway.
package final class WallClock: Sendable {
    /// The smallest difference, in seconds, between two readings that counts as a jump: slewing a clock takes longer.
    private static let jump = 0.25
    /// The largest deviation, in seconds, of the difference in force from the real one while a clock is slewed.
    private static let tolerance = 0.5

    private struct State {
        /// The time by which the wall clock counts as ahead of the steady one, in seconds.
        var offset: Double
        /// The time by which it was ahead at the last reading, in seconds.
        var last: Double
    }

    /// The clock with the two sides.
    let time: any TimeSource
    private let state: Mutex<State>

    /// Makes a translator between the two sides of a clock.
    init(_ time: any TimeSource) {
        self.time = time
        let (wall, steady) = time.reading
        let offset = Self.rounded(wall.timeIntervalSince(steady))
        state = Mutex(State(offset: offset, last: offset))
    }

    /// The present moment on both clocks.
    package var reading: TimeReading {
        let (wall, steady) = time.reading
        return TimeReading(steady: steady, wall: wall, offset: offset(wall, steady))
    }

    /// Returns the wall-clock time of a steady time.
    func wall(_ steady: Date) -> Date { reading.wall(steady) }

    private func offset(_ wall: Date, _ steady: Date) -> Double {
        let real = wall.timeIntervalSince(steady)
        return state.withLock { state in
            let change = real - state.last
            state.last = real
            if abs(change) >= Self.jump || abs(real - state.offset) >= Self.tolerance {
                state.offset = Self.rounded(real)
            }
            return state.offset
        }
    }

    /// Rounds to whole milliseconds, the unit of stored times.
    private static func rounded(_ offset: Double) -> Double { (offset * 1000).rounded() / 1000 }
}

/// A moment on both clocks: decisions about spans use `steady`, texts and displays use `wall`.
package struct TimeReading: Sendable {
    /// The moment on the monotonic clock.
    package let steady: Date
    /// The moment on the wall clock.
    package let wall: Date
    /// The time by which the wall clock counts as ahead, in seconds.
    private let offset: Double

    init(steady: Date, wall: Date, offset: Double) {
        self.steady = steady
        self.wall = wall
        self.offset = offset
    }

    /// Makes a moment at which both clocks show the same.
    init(_ time: Date) { self.init(steady: time, wall: time, offset: 0) }

    /// Returns the wall-clock time of a steady time.
    package func wall(_ steady: Date) -> Date { steady.addingTimeInterval(offset) }

    /// Returns the steady time of a wall-clock time.
    package func steady(_ wall: Date) -> Date { wall.addingTimeInterval(-offset) }
}
