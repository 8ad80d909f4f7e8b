public import Foundation

/// A wall clock, a monotonic clock and the ability to wait, passed as a parameter so that tests control the time.
///
/// `now` is for times of day: times that are shown to a platform or a person, and scheduled times of messages. `steady`
/// is for durations: time to live, leases, pauses, retries. Use `sleep(for:)` to wait.
public protocol TimeSource: Sendable {
    /// The time of day.
    ///
    /// It jumps when the machine's clock is set.
    var now: Date { get }

    /// The time on a clock that does not jump when the machine's clock is set: the value that ``now`` would have
    /// without such jumps.
    ///
    /// Compare it only with other steady times; ``wall(_:)`` and ``steady(_:)`` convert between the clocks. It never
    /// goes back while the process runs. By default it is ``now``, which is right for a clock that is never set.
    var steady: Date { get }

    /// Waits; throws `CancellationError` when the task is cancelled.
    func sleep(for duration: Duration) async throws

    /// Waits until a time of ``steady``; throws `CancellationError` when the task is cancelled.
    ///
    /// By default it computes the time that is left and sleeps for it. A clock that a test sets must implement this
    /// function itself: otherwise a step of the clock between the reading and the sleep would make the wait longer.
    func sleep(until steady: Date) async throws
}

extension TimeSource {
    /// The wall clock, for a source whose clock is never set.
    public var steady: Date { now }

    /// Waits for the time left until a steady time.
    public func sleep(until steady: Date) async throws {
        try await sleep(for: .seconds(clamping: max(0, steady.timeIntervalSince(self.steady))))
    }

    /// The times of both clocks at one moment.
    ///
    /// Reading them one after the other would show a jump when the process is held up in between.
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

    /// Returns the time of day for a steady time, by the wall clock's present setting.
    public func wall(_ steady: Date) -> Date {
        let now = reading
        return steady.addingTimeInterval(now.wall.timeIntervalSince(now.steady))
    }

    /// Returns the steady time for a time of day, by the wall clock's present setting.
    public func steady(_ wall: Date) -> Date {
        let now = reading
        return wall.addingTimeInterval(now.steady.timeIntervalSince(now.wall))
    }
}

/// The machine's own clock.
public struct SystemTime: TimeSource {
    /// The times of both clocks when the process first asked.
    private static let start = (wall: Date(), running: running)

    /// The seconds on the continuous clock.
    private static var running: TimeInterval { (CLibrary.uptime ?? clockStart.duration(to: .now)).inSeconds }
    private static let clockStart = ContinuousClock.now

    /// Makes the machine's clock.
    public init() {}

    /// The time of day.
    public var now: Date { Date() }

    /// The time of day when the process first asked, plus the time that has passed since.
    public var steady: Date {
        Self.start.wall.addingTimeInterval(Self.running - Self.start.running)
    }

    /// Waits on the continuous clock.
    public func sleep(for duration: Duration) async throws {
        try await Task.sleep(for: duration, clock: .continuous)
    }
}
