internal import Foundation

/// A limit of requests in a second, as a platform grants it: a caller waits until one is free, up to a limit of its
/// own.
///
/// The client of a plugin takes one of it before each call.
package actor RequestBudget {
    /// The most callers that may wait.
    static let longestLine = 10_000

    private let time: any TimeSource
    private let exhausted: (message: String, reason: String)
    private var bucket: TokenBucket
    private var pausedUntil: Date?
    private var waiting = 0

    /// Makes a limit that is not used up.
    ///
    /// - Parameters:
    ///   - perSecond: Requests in a second; as many may go at once.
    ///   - exhausted: The sentence and the reason of the error when a caller would wait too long.
    ///   - time: The clock.
    package init(perSecond: Double, exhausted: (message: String, reason: String), time: any TimeSource) {
        self.time = time
        self.exhausted = exhausted
        bucket = TokenBucket(Pacing(perSecond: perSecond, burst: .seconds(1)), at: time.steady)
    }

    /// Waits until a request is free; throws when it would take longer than `limit`.
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

    /// Grants nothing for a span that the platform named.
    package func pause(_ span: Duration) {
        let end = time.steady.addingTimeInterval(span.inSeconds)
        if pausedUntil.map({ $0 < end }) ?? true { pausedUntil = end }
    }
}
