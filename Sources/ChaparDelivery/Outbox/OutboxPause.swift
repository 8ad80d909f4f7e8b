internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The pause of a backend's outbox entries after failures, and the number of entries at a time: a plain value.
///
/// A quota or refused credentials pause the whole backend. Other failures affect only their entry, which may concern a
/// single device; concurrency drops only after a run of failures.
///
/// Times are steady ones (``TimeSource/steady``).
struct OutboxPause: Sendable {
    /// The most operations at a time.
    static let widest = 32
    /// The most operations at a time while nothing succeeds.
    private static let narrowest = 4
    /// The number of failures in a row after which concurrency drops.
    private static let failureLimit = 16
    private static let longest = Duration.seconds(600)

    /// The time until which the backend gets nothing.
    private(set) var until: Date?
    /// The end of the pause that the platform asked for; nil when the platform asked for none.
    private var askedUntil: Date?
    private var failures = 0
    private var blocks = 0

    /// The most operations that the backend may have at a time.
    var width: Int { failures >= Self.failureLimit ? Self.narrowest : Self.widest }

    /// Records that the platform carried out an operation, or refused it for reasons of one device.
    mutating func recordAnswer() {
        failures = 0
        blocks = 0
    }

    /// Records that the platform did not carry out an operation; returns true when the backend is paused now.
    mutating func recordFailure(_ error: PushError, at now: Date) -> Bool {
        switch error.code {
        case .rateLimited: return pause(first: .seconds(2), error.retryAfter, at: now)
        // A single odd 401 among good answers stops the others for a second at most.
        case .credentialsRefused: return pause(first: .seconds(1), error.retryAfter, at: now)
        case .unavailable, .badAnswer:
            failures += 1
            guard failures >= Self.failureLimit, failures % Self.narrowest == 0 else { return false }
            let pause = Duration.seconds(1 << min((failures - Self.failureLimit) / Self.narrowest, 3))
            until = max(until ?? now, now.addingTimeInterval(pause.inSeconds))
            return true
        default:
            recordAnswer()
            return false
        }
    }

    private mutating func pause(first: Duration, _ wish: Duration?, at now: Date) -> Bool {
        if let wish, wish > .zero {
            let end = now.addingTimeInterval(min(wish, .seconds(3_600)).inSeconds)
            askedUntil = max(askedUntil ?? end, end)
        }
        var end = until ?? now
        // Operations that were under way together are refused together: they count as one refusal, with the longest of
        // their pauses.
        if end <= now {
            end = now.addingTimeInterval(min(first * (1 << min(blocks, 10)), Self.longest).inSeconds)
            blocks += 1
        }
        until = max(end, askedUntil ?? end)
        return true
    }

    /// Ends the pause unless the platform asked for it; the next pause is as short as the first one again.
    ///
    /// - Returns: Whether a pause ended, and the end of a pause that goes on; nil when none does.
    mutating func endOwn(at now: Date) -> (hasEnded: Bool, kept: Date?) {
        (failures, blocks) = (0, 0)
        guard let former = until, former > now else { return (false, nil) }
        let asked = askedUntil.flatMap { $0 > now ? $0 : nil }
        until = asked
        return (asked != former, asked)
    }
}

/// The ``OutboxPause`` of a backend, which outlives its workers.
///
/// After a reload that does not change the backend the new worker gets it, so that a pause that the platform asked for
/// stays in force. The previous worker, which may have calls under way, shares it.
final class OutboxFlow: Sendable {
    /// The identity of the backend: a different one under the same name starts without this pause.
    let identity: String
    let pause = Mutex(OutboxPause())

    init(_ identity: String) { self.identity = identity }
}
