public import Foundation

/// The wall clock, a monotonic clock, and the ability to wait, as a parameter, so that tests own the time.
///
/// `now` is for times of day: what is shown to a platform or a person, and when a message was asked to go out. `steady`
/// is for spans: time to live, leases, pauses, retries. Waits go through `sleep(for:)`.
public protocol TimeSource: Sendable {
    /// The time of day.
    ///
    /// It jumps when the machine's clock is set.
    var now: Date { get }

    /// A time that passes evenly, whatever happens to the machine's clock: what ``now`` would be had the clock not been
    /// set.
    ///
    /// Compare it with nothing but itself; ``wall(_:)`` and ``steady(_:)`` translate. As long as the process runs it
    /// never goes back. By default it is ``now``, which is right for a clock that is never set.
    var steady: Date { get }

    /// Waits; throws `CancellationError` when the task is cancelled.
    func sleep(for duration: Duration) async throws

    /// Waits until a time of ``steady``; throws `CancellationError` when the task is cancelled.
    ///
    /// By default it waits for what is left until then. A clock that a test moves implements it itself: else a move
    /// between the look at the clock and the wait would make the wait longer.
    func sleep(until steady: Date) async throws
}

extension TimeSource {
    /// The wall clock, for a source that is never set.
    public var steady: Date { now }

    /// Waits for what is left until a steady time.
    public func sleep(until steady: Date) async throws {
        try await sleep(for: .seconds(clamping: max(0, steady.timeIntervalSince(self.steady))))
    }

    /// What both clocks say at one moment.
    ///
    /// Whoever reads them one after the other and is held up in between sees a jump that never was.
    public var reading: (wall: Date, steady: Date) {
        var before = steady
        for _ in 0..<16 {
            let wall = now
            let after = steady
            if after.timeIntervalSince(before) < 0.005 { return (wall, after) }
            before = after
        }
        return (now, before)
    }

    /// The time of day that a steady time has, as the wall clock stands now.
    public func wall(_ steady: Date) -> Date {
        let now = reading
        return steady.addingTimeInterval(now.wall.timeIntervalSince(now.steady))
    }

    /// The steady time at which a time of day comes, as the wall clock stands now.
    public func steady(_ wall: Date) -> Date {
        let now = reading
        return wall.addingTimeInterval(now.steady.timeIntervalSince(now.wall))
    }
}

/// The machine's own clock.
public struct SystemTime: TimeSource {
    /// What the clocks said when the process first asked.
    private static let start = (wall: Date(), instant: ContinuousClock.now)

    /// Makes the machine's clock.
    public init() {}

    /// The time of day.
    public var now: Date { Date() }

    /// The time of day at which the process first asked for the time, and what has passed since.
    public var steady: Date {
        Self.start.wall.addingTimeInterval(Self.start.instant.duration(to: .now).inSeconds)
    }

    /// Waits on the continuous clock.
    public func sleep(for duration: Duration) async throws {
        try await Task.sleep(for: duration, clock: .continuous)
    }
}
