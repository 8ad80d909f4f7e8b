internal import Foundation
internal import PushCore
internal import Synchronization

/// When a backend gets no outbox entries after failures, and how many it gets at a time: a plain value.
///
/// A quota or refused credentials pause the whole backend. Other failures are each operation's own business, since they
/// may be about one device; only when nothing but failures comes it gets fewer.
///
/// Times are steady ones (``TimeSource/steady``).
struct OutboxPause: Sendable {
    /// As many operations as a backend has at a time.
    static let widest = 32
    /// As many when nothing succeeds.
    private static let narrowest = 4
    /// After so many failures in a row.
    private static let failureLimit = 16
    private static let longest = Duration.seconds(600)

    /// Until when it gets nothing.
    private(set) var until: Date?
    /// The end of the pause that the platform asked for; nil when the platform asked for none.
    private var askedUntil: Date?
    private var failures = 0
    private var blocks = 0

    /// How many operations it may have at a time.
    var width: Int { failures >= Self.failureLimit ? Self.narrowest : Self.widest }

    /// The platform did what it was asked, or refused one device's affairs.
    mutating func recordAnswer() {
        failures = 0
        blocks = 0
    }

    /// The platform did not do it; returns true when the backend is paused now.
    mutating func recordFailure(_ error: PushError, at now: Date) -> Bool {
        switch error.code {
        case .rateLimited: return pause(first: .seconds(2), error.retryAfter, at: now)
        // One odd 401 among good answers stops the others for no longer than a second.
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
        // Those that were under way together are refused together: that is one refusal, with the longest of their
        // pauses.
        if end <= now {
            end = now.addingTimeInterval(min(first * (1 << min(blocks, 10)), Self.longest).inSeconds)
            blocks += 1
        }
        until = max(end, askedUntil ?? end)
        return true
    }

    /// Ends the pause unless the platform asked for it; the waits begin anew.
    ///
    /// - Returns: Whether it ended something, and until when a pause stays; nil when none does.
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
/// A reload that leaves the backend as it is hands it to the new worker, so that a pause that the platform asked for
/// stays; the worker before, which may have calls under way, has it as well.
final class OutboxFlow: Sendable {
    /// What the backend is, so that another one under its name begins anew.
    let identity: String
    let pause = Mutex(OutboxPause())

    init(_ identity: String) { self.identity = identity }
}
