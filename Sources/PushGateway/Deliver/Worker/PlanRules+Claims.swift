internal import Foundation
internal import PushCore
internal import PushComposition
internal import PushQueue

/// What the delivery worker gives the rules of `PushComposition`, and what it makes of their verdict.
extension PlanRules {
    /// The rules of a configuration.
    ///
    /// A message waits for an operator as long as it lives; without a `patience` it waits on any failure.
    init(_ queue: GatewayConfiguration.Queue) {
        self.init(
            retry: RetryPolicy(
                firstWait: queue.firstRetry,
                longestWait: queue.maximumRetry,
                maximumAttempts: queue.maximumAttempts
            ),
            fallbackDelay: queue.fallbackDelay ?? .seconds(10 * 366 * 86400)
        )
    }
}

extension ClaimedDelivery {
    /// Where the delivery stands in its plan, after an outcome if an attempt was made.
    ///
    /// The time of the first attempt matters where a later backend can take over, and where the outcome limits the
    /// attempts in time; elsewhere the attempt log is not read for it.
    func position(at now: TimeReading, after outcome: DeliveryOutcome? = nil) -> PlanPosition {
        var isTimed = step + 1 < plan.backends.count
        if case .refused(let refusal)? = outcome, refusal.retryLimit != nil { isTimed = true }
        return PlanPosition(
            plan,
            step: step,
            attempts: attempts,
            startedAt: isTimed ? firstAttempt(at: now) ?? now.steady : now.steady,
            expiresAt: expiresAt,
            mayHaveBeenSent: isReplay
        )
    }

    /// Whether its time to live is 0; the content is not read where its time tells already.
    func isNowOrNever(_ decode: ([UInt8]) throws -> PushNotification) -> Bool {
        guard expiresAt.timeIntervalSince(acceptedAt) < NotificationIntake.graceForNowOrNever + 0.1 else {
            return false
        }
        return notification(decode)?.timeToLive == .zero
    }

    /// What is to be sent; nil when it cannot be read any more.
    func notification(_ decode: ([UInt8]) throws -> PushNotification) -> PushNotification? {
        switch content {
        case .decoded(let notification): notification
        case .stored(let bytes): try? decode(bytes)
        }
    }

    /// When the first attempt was made, by the steady clock.
    private func firstAttempt(at now: TimeReading) -> Date? {
        guard let first = loggedAttempts.first else { return nil }
        if let steady = first["steady_at"]?.stringValue.flatMap({ RFC3339.parse($0) }) { return steady }
        return first["at"]?.stringValue.flatMap { RFC3339.parse($0) }.map(now.steady)
    }

    /// The attempt without an answer that the delivery waits for a status of, under ``DeliveryPlan/UnknownRule/wait``.
    ///
    /// Nil for nearly every delivery; the attempt log is read only under that rule.
    func silence(of backend: String) -> JSONValue? {
        guard plan.onUnknown == .wait, isReplay, let last = loggedAttempts.last, last["outcome"] == "unknown",
            last["backend"]?.stringValue == backend
        else { return nil }
        return last
    }

    /// The attempts so far.
    private var loggedAttempts: [JSONValue] {
        guard !attemptLog.isEmpty else { return [] }
        return (try? JSONValue(parsing: [UInt8(ascii: "[")] + attemptLog + [UInt8(ascii: "]")]))?.arrayValue ?? []
    }
}

extension PlanVerdict {
    /// The same for the store.
    func transition(_ claim: ClaimedDelivery, at now: Date) -> Resolution.Transition {
        switch move {
        case .end(let state): .end(state)
        case .retry(let time), .hold(let time): .retry(at: time, step: claim.step)
        case .next(let step): .retry(at: now, step: step)
        }
    }

    /// Whether more follows, so that the attempt log has to keep when this was.
    var isGoingOn: Bool { if case .end = move { false } else { true } }

    /// When the same backend is tried again, for the attempt log.
    var retryAt: Date? { if case .retry(let time) = move { time } else { nil } }
}
