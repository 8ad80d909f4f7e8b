package import Foundation
import ChaparCore

/// The number of attempts of a delivery and the waits between them.
///
/// A wait is drawn at random below a bound that doubles (full jitter), so that messages that failed together are not
/// retried together. The platform's `Retry-After` is the floor, to which the random part is added.
public struct RetryPolicy: Sendable, Hashable {
    /// The upper bound of the first wait.
    public var firstWait: Duration
    /// The largest that the bound of a wait can grow.
    public var longestWait: Duration
    /// The most attempts, counted over all steps of a plan.
    public var maximumAttempts: Int

    /// Makes a policy.
    public init(
        firstWait: Duration = .seconds(1),
        longestWait: Duration = .seconds(60),
        maximumAttempts: Int = 5
    ) {
        self.firstWait = firstWait
        self.longestWait = longestWait
        self.maximumAttempts = maximumAttempts
    }

    /// A policy of a single attempt.
    public static let never = RetryPolicy(maximumAttempts: 1)

    /// Returns the time of the next attempt after a number of attempts.
    ///
    /// - Parameters:
    ///   - attempt: The number of attempts made, from 1.
    ///   - floor: The pause that the platform asked for.
    ///   - now: The time when the attempt ended.
    ///   - random: A number from 0 to 1.
    /// - Returns: A time that is not before `now` and the floor.
    package func time(after attempt: Int, floor: Duration?, at now: Date, random: Double) -> Date {
        let doubled = firstWait.inSeconds * pow(2, Double(min(max(attempt, 1) - 1, 40)))
        let jitter = min(doubled, longestWait.inSeconds) * random
        return now.addingTimeInterval((floor?.inSeconds ?? 0) + jitter)
    }
}
