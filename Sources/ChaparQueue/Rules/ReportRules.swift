package import ChaparComposition
package import ChaparCore

/// The effect of a report about a delivery that has not ended.
package enum ReportDecision: Sendable, Hashable {
    /// None: the delivery waits for no report, or for one about another message.
    case ignore
    /// None: it was recorded before.
    case repeated
    /// None yet: a platform may have the message, and its answer is not recorded. The reporter has to come again.
    case early
    /// The delivery ends, and no other backend takes over.
    case end(DeliveryState)
    /// It goes into the attempt log, and the delivery waits on; `isDue` makes it due at once, since the message that is
    /// awaited will not arrive.
    case note(isDue: Bool)
}

/// The rules of reports about deliveries that a platform took and that wait for a report, before other backends take
/// over (``ChaparComposition/Escalation``): the same in every store.
///
/// A store asks them within the transaction that writes the decision. So either the report ends the wait or a worker
/// claims the delivery, whichever commits first. A report about a claimed delivery has to come again, since its owner
/// decides about it, and a dead owner's delivery is given back later. The same holds for a delivery that waits for
/// another attempt after one that may have arrived.
package enum ReportRules {
    /// The longest attempt log, in bytes, to which a report that ends nothing is still added.
    private static let longestAttemptLog = 32 << 10

    /// Returns what a platform's report changes about a delivery, by the delivery's plan, its current step in the plan,
    /// and its log of attempts.
    ///
    /// `mayHaveBeenSent` says whether an attempt may have reached the platform although the log has no acceptance of
    /// it.
    package static func decide(
        _ receipt: ReceiptEntry,
        _ plan: DeliveryPlan,
        step: Int,
        _ log: [UInt8],
        isClaimed: Bool = false,
        mayHaveBeenSent: Bool = false
    ) -> ReportDecision {
        let address = receipt.address
        guard let escalation = plan.escalation, step >= escalation.step, AttemptLog.isAccepted(log),
            address.backend.isEmpty || plan.backends.prefix(escalation.step).contains(address.backend),
            // Hashes may collide; the platform's id in the log does not.
            address.delivery != nil || log.firstRange(of: JSONValue.string(address.platformID).bytes) != nil
        else {
            let isMeant =
                address.delivery != nil && (address.backend.isEmpty || plan.backends.contains(address.backend))
            // One that waits for a report of another backend only will not be this one's later.
            let isOpen = isClaimed || mayHaveBeenSent && !AttemptLog.isAccepted(log)
            return isMeant && isOpen ? .early : .ignore
        }
        if isClaimed { return .early }
        if let state = receipt.state, escalation.isEnded(by: state) { return .end(state) }
        guard log.count <= longestAttemptLog, log.firstRange(of: receipt.logEntry) == nil else { return .repeated }
        return .note(isDue: receipt.state == .failed && AttemptLog.awaitsReport(log))
    }
}

extension DeliveryPlan {
    /// Returns the step of the backend that took a message before others take over; nil where none did.
    ///
    /// `log` has the attempts of the delivery, `attempt` is the one that is recorded now.
    package func acceptingStep(_ log: [UInt8], _ attempt: [UInt8]? = nil) -> Int? {
        guard let escalation else { return nil }
        if let attempt, AttemptLog.isAccepted(attempt) {
            return backends.prefix(escalation.step).lastIndex { AttemptLog.names($0, attempt) }
        }
        guard AttemptLog.isAccepted(log) else { return nil }
        // After the acceptance no other backend before the take-over makes an attempt.
        return backends.prefix(escalation.step).lastIndex { AttemptLog.names($0, log) }
    }
}

extension ClaimedDelivery {
    /// Whether a platform has taken the message already, and it waits for a report before other backends take over, or
    /// they have.
    package var isAccepted: Bool { acceptingStep != nil }

    /// The step of the backend that took the message before others take over; nil for nearly every delivery.
    package var acceptingStep: Int? { plan.escalation == nil || attempts == 0 ? nil : plan.acceptingStep(attemptLog) }
}

extension ReceivedDelivery {
    /// Makes the value of a delivery that has not ended, for the result of a report.
    package init(_ claim: ClaimedDelivery, state: DeliveryState) {
        self.init(
            id: claim.id,
            notificationID: claim.notificationID,
            recipient: claim.recipient,
            caller: claim.caller,
            state: state,
            record: claim.head.record,
            backend: claim.plan.backend(at: claim.acceptingStep ?? claim.step)
        )
    }
}
