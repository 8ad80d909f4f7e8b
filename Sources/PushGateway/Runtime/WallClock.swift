internal import Foundation
package import PushCore
internal import Synchronization

/// Translates between the steady clock, by which the gateway decides, and the time of day, which it shows.
///
/// The difference of the two is constant until the machine's clock is set, so that a stored time is shown alike each
/// time. One for a gateway.
package final class WallClock: Sendable {
    /// A difference between two looks that only a jump makes: slewing a clock takes longer.
    private static let jump = 0.25
    /// The largest distance, in seconds, of the difference in force from the real one while a clock is slewed.
    private static let tolerance = 0.5

    private struct State {
        /// How far the wall clock counts as ahead of the steady one, in seconds.
        var offset: Double
        /// How far it was ahead at the last look.
        var last: Double
    }

    /// The clock with the two sides.
    let time: any TimeSource
    private let state: Mutex<State>

    /// Makes a translator between the two sides of a clock.
    package init(_ time: any TimeSource) {
        self.time = time
        let (wall, steady) = time.reading
        let offset = Self.rounded(wall.timeIntervalSince(steady))
        state = Mutex(State(offset: offset, last: offset))
    }

    /// The moment by both clocks.
    var reading: TimeReading {
        let (wall, steady) = time.reading
        return TimeReading(steady: steady, wall: wall, offset: offset(wall, steady))
    }

    /// The time of day of a steady time.
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

    /// In whole milliseconds, the unit of stored times.
    private static func rounded(_ offset: Double) -> Double { (offset * 1000).rounded() / 1000 }
}

/// A moment by both clocks: decisions about spans go by `steady`, what is written and shown by `wall`.
struct TimeReading: Sendable {
    /// The moment by the clock that nobody can set.
    let steady: Date
    /// The time of day.
    let wall: Date
    /// How far the wall clock counts as ahead, in seconds.
    private let offset: Double

    init(steady: Date, wall: Date, offset: Double) {
        self.steady = steady
        self.wall = wall
        self.offset = offset
    }

    /// A moment at which both clocks say the same.
    init(_ time: Date) { self.init(steady: time, wall: time, offset: 0) }

    /// The time of day of a steady time.
    func wall(_ steady: Date) -> Date { steady.addingTimeInterval(offset) }

    /// The steady time of a time of day.
    func steady(_ wall: Date) -> Date { wall.addingTimeInterval(-offset) }
}
