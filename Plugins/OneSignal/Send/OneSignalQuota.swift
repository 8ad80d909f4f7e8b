import Foundation
import PushCore

/// A limit of requests in a second, as a platform grants it: a caller waits until one is free, up to a limit of its own.
///
/// ``OneSignalClient`` has one for each of the platform's quotas.
actor RequestBudget {
    /// The most callers that may wait.
    static let longestLine = 10_000

    private let time: any TimeSource
    private var bucket: TokenBucket
    private var pausedUntil: Date?
    private var waiting = 0

    init(perSecond: Double, time: any TimeSource) {
        self.time = time
        bucket = TokenBucket(Pacing(perSecond: perSecond, burst: .seconds(1)), at: time.steady)
    }

    /// Waits until a request is free; throws when it would take longer than `limit`.
    func take(within limit: Duration) async throws(PushError) {
        let end = time.steady.addingTimeInterval(limit.inSeconds)
        while true {
            let now = time.steady
            let ready: Date
            if let pausedUntil, now < pausedUntil {
                ready = pausedUntil
            } else {
                let (granted, retryAt) = bucket.take(1, at: now)
                if granted > 0 { return }
                ready = retryAt
            }
            let wait = Duration.seconds(clamping: max(ready.timeIntervalSince(now), 0.001))
            guard ready <= end, waiting < Self.longestLine else {
                throw PushError(.rateLimited, "the platform's quota is used up", reason: "quota", retryAfter: wait)
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
    func pause(_ span: Duration) {
        let end = time.steady.addingTimeInterval(span.inSeconds)
        if pausedUntil.map({ $0 < end }) ?? true { pausedUntil = end }
    }
}

/// Counts the messages of the last 15 minutes against OneSignal's limit, beyond which it disables the app until a person acts.
///
/// ``OneSignalBackend`` asks it before each request.
actor MessageShare {
    private static let window = Duration.seconds(900)

    private let limit: Int
    private let time: any TimeSource
    private var sent: [(at: Date, count: Int)] = []
    private var total = 0

    /// A limit of 0 is none.
    init(limit: Int, time: any TimeSource) {
        self.limit = limit
        self.time = time
    }

    /// Reserves capacity for so many recipients; nil when there is enough, else how long until there may be.
    func take(_ count: Int) -> Duration? {
        guard limit > 0 else { return nil }
        let now = time.steady
        let old = now.addingTimeInterval(-Self.window.inSeconds)
        while let first = sent.first, first.at <= old {
            total -= first.count
            sent.removeFirst()
        }
        guard total + count <= limit else {
            guard let first = sent.first else { return Self.window }  // One send alone is more than the limit.
            return .seconds(clamping: first.at.addingTimeInterval(Self.window.inSeconds).timeIntervalSince(now))
        }
        total += count
        sent.append((now, count))
        return nil
    }
}
