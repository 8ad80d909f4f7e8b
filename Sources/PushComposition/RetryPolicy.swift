public import Foundation
import PushCore

/// How often a delivery is tried and how long it waits in between.
///
/// The wait is drawn at random below a bound that doubles (full jitter), so that what failed together does not come
/// back together. What the platform asked for (`Retry-After`) is the floor, the random part comes on top.
public struct RetryPolicy: Sendable, Hashable {
    /// The bound of the first wait.
    public var firstWait: Duration
    /// The bound's own bound.
    public var longestWait: Duration
    /// After so many attempts it fails; counted over all steps of a plan.
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

    /// One attempt and no more.
    public static let never = RetryPolicy(maximumAttempts: 1)

    /// When to try again after the attempt of a number, from 1.
    ///
    /// - Parameters:
    ///   - attempt: How many attempts were made.
    ///   - floor: How long the platform asked to wait.
    ///   - now: When the attempt ended.
    ///   - random: A number from 0 to 1.
    /// - Returns: A time that is not before `now` and the floor.
    public func time(after attempt: Int, floor: Duration?, at now: Date, random: Double) -> Date {
        let doubled = firstWait.inSeconds * pow(2, Double(min(max(attempt, 1) - 1, 40)))
        let jitter = min(doubled, longestWait.inSeconds) * random
        return now.addingTimeInterval((floor?.inSeconds ?? 0) + jitter)
    }
}
