internal import Foundation

/// A platform's limit of requests a second. Each caller waits until it may send a request, at most for a time that the
/// caller gives.
///
/// The client of a plugin reserves a request before each call.
package actor RequestBudget {
    /// The most callers that may wait.
    static let longestLine = 10_000

    private let time: any TimeSource
    private let exhausted: (message: String, reason: String)
    private var bucket: TokenBucket
    private var pausedUntil: Date?
    private var waiting = 0

    /// Makes an unused budget.
    ///
    /// - Parameters:
    ///   - perSecond: The requests a second, also the largest burst.
    ///   - exhausted: The message and the reason of the error for a caller that would have to wait too long.
    ///   - time: The clock.
    package init(perSecond: Double, exhausted: (message: String, reason: String), time: any TimeSource) {
        self.time = time
        self.exhausted = exhausted
        bucket = TokenBucket(Pacing(perSecond: perSecond, burst: .seconds(1)), at: time.steady)
    }

    /// Waits until a request is allowed; throws when that would take longer than `limit`.
    package func reserve(within limit: Duration) async throws(PushError) {
        let end = time.steady.addingTimeInterval(limit.inSeconds)
        while true {
            let now = time.steady
            let ready: Date
            if let pausedUntil, now < pausedUntil {
                ready = pausedUntil
            } else {
                let (granted, retryAt) = bucket.reserve(1, at: now)
                if granted > 0 { return }
                ready = retryAt
            }
            let wait = Duration.seconds(clamping: max(ready.timeIntervalSince(now), 0.001))
            guard ready <= end, waiting < Self.longestLine else {
                throw PushError(.rateLimited, exhausted.message, reason: exhausted.reason, retryAfter: wait)
            }
            waiting += 1
            defer { waiting -= 1 }
            do {
                try await time.sleep(for: wait)
            } catch {
                throw PushError(.unavailable, "the caller was cancelled", reason: "cancelled")
            }
        }
    }

    /// Allows no request for a span that the platform named.
    package func pause(_ span: Duration) {
        let end = time.steady.addingTimeInterval(span.inSeconds)
        if pausedUntil.map({ $0 < end }) ?? true { pausedUntil = end }
    }
}
