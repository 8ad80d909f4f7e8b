public import Foundation

/// One attempt at a request to a platform about a device.
public struct OutboxAttempt: Sendable, Hashable {
    /// The id of the operation, the same for every attempt; it may go to the platform as a request id.
    public var id: UUID
    /// The time when the caller asked for it, or of the event that it reports; not the time of sending.
    public var at: Date
    /// The number of the attempt, from 1.
    public var number: Int

    /// Makes a first attempt, of a new operation unless an id is given.
    public init(id: UUID = UUID(), at: Date, number: Int = 1) {
        self.id = id
        self.at = at
        self.number = number
    }
}

/// The retry schedule of an operation that failed with ``PushError/Code/unavailable``, ``PushError/Code/rateLimited``
/// or ``PushError/Code/badAnswer``.
public struct RetrySchedule: Sendable, Hashable {
    /// The pauses after the first attempts, in order.
    public var delays: [Duration]
    /// The pause after every later attempt.
    public var sweep: Duration
    /// The most attempts; at least 1.
    public var maximumAttempts: Int
    /// The largest part of a pause that is added at random, so that the end of an outage causes no burst; 0 to 1.
    public var jitter: Double
    /// Whether a longer pause that the platform asks for replaces the schedule's.
    public var honoursRetryAfter: Bool

    /// Makes a schedule.
    public init(
        delays: [Duration],
        sweep: Duration,
        maximumAttempts: Int,
        jitter: Double,
        honoursRetryAfter: Bool = true
    ) {
        self.delays = delays
        self.sweep = sweep
        self.maximumAttempts = max(1, maximumAttempts)
        self.jitter = min(max(jitter, 0), 1)
        self.honoursRetryAfter = honoursRetryAfter
    }

    /// A schedule of pauses that double from 1 s to 512 s, then stay at ten minutes, for about a day.
    public static let standard = RetrySchedule(
        delays: (0..<10).map { .seconds(1 << $0) },
        sweep: .seconds(600),
        maximumAttempts: 150,
        jitter: 0.5
    )

    /// Returns the pause after a failed attempt; nil when it was the last.
    ///
    /// - Parameters:
    ///   - attempt: The number of the attempt that failed, 1 for the first.
    ///   - wish: The pause that the platform asks for; nil when it asks for none.
    ///   - chance: A random number from 0 to 1, for the jitter.
    /// - Returns: The pause.
    public func pause(after attempt: Int, wish: Duration?, chance: Double) -> Duration? {
        guard attempt < maximumAttempts else { return nil }
        let base = attempt >= 1 && attempt <= delays.count ? delays[attempt - 1] : sweep
        let pause = base + .seconds(clamping: base.inSeconds * (jitter * chance))
        guard honoursRetryAfter, let wish, wish > pause else { return pause }
        return wish
    }
}
