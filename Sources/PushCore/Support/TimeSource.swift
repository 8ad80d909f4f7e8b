public import Foundation

/// The wall clock and the ability to wait, as a parameter, so that tests own the time.
///
/// Times that are stored or sent to a platform come from `now`; waits go through `sleep(for:)`.
public protocol TimeSource: Sendable {
    /// The time of day.
    var now: Date { get }

    /// Waits; throws `CancellationError` when the task is cancelled.
    func sleep(for duration: Duration) async throws
}

/// The machine's own clock.
public struct SystemTime: TimeSource {
    /// Makes the machine's clock.
    public init() {}

    /// The time of day.
    public var now: Date { Date() }

    /// Waits on the continuous clock.
    public func sleep(for duration: Duration) async throws {
        try await Task.sleep(for: duration, clock: .continuous)
    }
}

extension Date {
    /// Whole milliseconds since 1970, the form in which times are stored.
    public var millisecondsSince1970: Int64 {
        let milliseconds = (timeIntervalSince1970 * 1000).rounded()
        return Int64(exactly: milliseconds) ?? (milliseconds > 0 ? .max : .min)
    }

    /// A time from whole milliseconds since 1970.
    public init(millisecondsSince1970 milliseconds: Int64) {
        self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
    }
}

extension Duration {
    /// The span in seconds, for vendors and formulas that want a number.
    public var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }

    /// The span in whole milliseconds, rounded towards zero.
    public var inMilliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
}
