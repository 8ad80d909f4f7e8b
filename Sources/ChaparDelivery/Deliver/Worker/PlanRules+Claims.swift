package import Foundation
internal import ChaparCore
package import ChaparComposition
package import ChaparQueue

/// The conversion of the delivery worker's data for the rules of `ChaparComposition`, and of their verdict.
extension PlanRules {
    /// Makes the rules of a configuration.
    ///
    /// A message waits for an operator until its time to live ends. Without a `fallback_after` it waits so long after
    /// any failure.
    init(_ queue: GatewayConfiguration.Queue) {
        self.init(
            retry: queue.retry,
            fallbackAfter: queue.fallbackAfter ?? .seconds(10 * 366 * 86400)
        )
    }
}

extension GatewayConfiguration.Queue {
    /// The attempts and waits of a delivery whose plan has none of its own.
    package var retry: RetryPolicy {
        RetryPolicy(firstWait: firstRetry, longestWait: maximumRetry, maximumAttempts: maximumAttempts)
    }
}

extension ClaimedDelivery {
    /// The longest time that a notification with a TTL of 0 ("now or never") waits for its one attempt, in seconds.
    package static let graceForNowOrNever: TimeInterval = 10

    /// Returns the delivery's position in its plan, after an outcome if an attempt was made.
    ///
    /// The time of the first attempt is read from the attempt log only if a later backend can take over, or if the
    /// outcome limits the time of the attempts.
    func position(at now: TimeReading, after outcome: DeliveryOutcome? = nil) -> PlanPosition {
        var isTimed = step + 1 < plan.backends.count
        if case .refused(let refusal)? = outcome, refusal.retryLimit != nil { isTimed = true }
        let isAccepted = isAccepted
        var position = PlanPosition(
            plan,
            step: step,
            attempts: attempts,
            startedAt: isTimed ? firstAttempt(at: now, afterAcceptance: isAccepted) ?? now.steady : now.steady,
            expiresAt: expiresAt,
            mayHaveBeenSent: isReplay
        )
        position.isAccepted = isAccepted
        return position
    }

    /// Whether its time to live is 0; the content is read only when the times leave that open.
    func isNowOrNever(_ decode: ([UInt8]) throws -> PushNotification) -> Bool {
        guard expiresAt.timeIntervalSince(acceptedAt) < Self.graceForNowOrNever + 0.1 else {
            return false
        }
        return notification(decode)?.timeToLive == .zero
    }

    /// Returns the notification; nil when it cannot be read any more.
    func notification(_ decode: ([UInt8]) throws -> PushNotification) -> PushNotification? {
        switch content {
        case .decoded(let notification): notification
        case .stored(let bytes): try? decode(bytes)
        }
    }

    /// Returns the time of the first attempt, or of the first one by backends that took over, on the steady clock.
    private func firstAttempt(at now: TimeReading, afterAcceptance: Bool) -> Date? {
        var attempts = loggedAttempts[...]
        if afterAcceptance, let accepted = attempts.lastIndex(where: { $0["outcome"] == "accepted" }) {
            attempts = attempts[(accepted + 1)...].drop { $0["outcome"] == "receipt" }
        }
        guard let first = attempts.first else { return nil }
        if let steady = first["steady_at"]?.stringValue.flatMap({ RFC3339.parse($0) }) { return steady }
        return first["at"]?.stringValue.flatMap { RFC3339.parse($0) }.map(now.steady)
    }

    /// Returns the unanswered attempt whose status the delivery waits for, under ``DeliveryPlan/UnknownRule/wait``.
    ///
    /// It is nil for nearly every delivery; the attempt log is read only under that rule.
    func silence(of backend: String) -> JSONValue? {
        guard plan.onUnknown == .wait, isReplay, let last = loggedAttempts.last, last["outcome"] == "unknown",
            last["backend"]?.stringValue == backend
        else { return nil }
        return last
    }

    /// The attempts in the log, oldest first.
    private var loggedAttempts: [JSONValue] {
        guard !attemptLog.isEmpty else { return [] }
        return (try? JSONValue(parsing: [UInt8(ascii: "[")] + attemptLog + [UInt8(ascii: "]")]))?.arrayValue ?? []
    }
}

extension PlanVerdict {
    /// Returns the same move in the form of the store.
    func transition(_ claim: ClaimedDelivery, at now: Date) -> Resolution.Transition {
        switch move {
        case .end(let state): isReached ? .reached(step: claim.acceptingStep ?? claim.step) : .end(state)
        case .retry(let time), .hold(let time): .retry(at: time, step: claim.step)
        case .next(let step): .retry(at: now, step: step)
        }
    }

    /// Whether another attempt may follow, so that the attempt log must keep this time.
    var isGoingOn: Bool { if case .end = move { false } else { true } }

    /// The time of the same backend's next attempt, for the attempt log.
    var retryAt: Date? { if case .retry(let time) = move { time } else { nil } }
}
