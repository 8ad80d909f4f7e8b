public import Foundation

/// One try at something that a platform is asked to do about a device.
public struct OutboxAttempt: Sendable, Hashable {
    /// The id of the operation, the same with every try; it may go to the platform as a request id.
    public var id: UUID
    /// When the caller asked for it, or when what it reports happened; not when it is sent.
    public var at: Date
    /// 1 for the first try.
    public var number: Int

    /// Makes a first try, of a new operation unless an id is given.
    public init(id: UUID = UUID(), at: Date, number: Int = 1) {
        self.id = id
        self.at = at
        self.number = number
    }
}

/// When an operation that met ``PushError/Code/unavailable``, ``PushError/Code/rateLimited`` or
/// ``PushError/Code/badAnswer`` is tried again, and when no more.
public struct RetrySchedule: Sendable, Hashable {
    /// The pause after each try, from the first on.
    public var delays: [Duration]
    /// The pause after every later one.
    public var sweep: Duration
    /// How often it is tried at most; at least 1.
    public var maximumAttempts: Int
    /// The largest part of a pause that is added at random, so that an outage does not end in a burst; 0 to 1.
    public var jitter: Double
    /// Whether a longer pause that the platform asks for counts.
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

    /// Doubling from one second to ten minutes, for about a day.
    public static let standard = RetrySchedule(
        delays: (0..<10).map { .seconds(1 << $0) },
        sweep: .seconds(600),
        maximumAttempts: 150,
        jitter: 0.5
    )

    /// The pause after a failed try; nil when it was the last.
    ///
    /// - Parameters:
    ///   - attempt: The number of the try that failed, 1 for the first.
    ///   - wish: The pause that the platform asks for.
    ///   - chance: Between 0 and 1, for the jitter.
    /// - Returns: The pause.
    public func pause(after attempt: Int, wish: Duration?, chance: Double) -> Duration? {
        guard attempt < maximumAttempts else { return nil }
        let base = attempt >= 1 && attempt <= delays.count ? delays[attempt - 1] : sweep
        let pause = base + .seconds(clamping: base.inSeconds * (jitter * chance))
        guard honoursRetryAfter, let wish, wish > pause else { return pause }
        return wish
    }
}

/// The former name of ``OutboxAttempt``.
@available(*, deprecated, renamed: "OutboxAttempt")
public typealias OperationAttempt = OutboxAttempt

/// The former name of ``RetrySchedule``.
@available(*, deprecated, renamed: "RetrySchedule")
public typealias OperationPolicy = RetrySchedule
