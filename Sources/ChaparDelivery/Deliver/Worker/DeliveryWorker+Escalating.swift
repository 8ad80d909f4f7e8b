internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparComposition
internal import ChaparQueue

/// The handling of messages for which other backends take over when no report came in time
/// (``ChaparComposition/Escalation``).
///
/// The wait is a delivery like any other: it is due, at the step of the backend that takes over, when the wait ends. So
/// restarts, gateways that share a store, cancellations and erasures treat it as they treat every waiting delivery.
extension DeliveryWorker {
    /// Returns the resolution of a delivery that the platform accepted and that now waits for a report; nil when no
    /// other backend takes over, or none would within the time to live.
    func awaitingReport(
        _ acceptance: Acceptance,
        _ claim: ClaimedDelivery,
        _ batch: WorkerBatch,
        at now: TimeReading
    ) -> Resolution? {
        // A message to many has no recipient whose report could be missing.
        guard let escalation = claim.plan.escalation, claim.step < escalation.step, !acceptance.isDryRun,
            !acceptance.isForAudience
        else { return nil }
        let due = now.steady.addingTimeInterval(escalation.after.inSeconds)
        guard due < claim.expiresAt,
            !claim.isNowOrNever(dependencies.decode),
            let step = batch.addresses.nextStep(of: claim, batch.uses(of: claim), refused: nil, from: escalation.step)
        else { return nil }
        let attempt = EventJSON.attempt(
            .accepted(acceptance),
            backend: name,
            at: now.wall,
            retryAt: nil,
            service: batch.service(of: claim),
            steady: now.steady
        )
        dependencies.observer.escalated(backend: name, .awaited, count: 1)
        return Resolution(
            of: claim,
            .retry(at: due, step: step),
            attempt: attempt,
            mayHaveBeenSent: true,
            event: EventJSON.delivery(
                claim,
                state: .retrying,
                at: now.wall,
                attempt: attempt,
                reason: GatewayReason.awaitsReport
            ),
            receipt: receiptAddress(of: acceptance, claim, batch)
        )
    }

    /// Returns the claims that may be sent now: of the claims for which this backend takes over, as many as the limits
    /// of the day allow.
    ///
    /// They are counted before they are sent. So after a crash in between a message may be counted and not sent, but
    /// none is sent above the limit.
    func takingOver(_ claims: [ClaimedDelivery]) async -> [ClaimedDelivery] {
        // After a reload there may be deliveries of a route that has no such backends any more.
        guard settings.escalates || claims.contains(where: { $0.step > 0 }) else { return claims }
        let now = dependencies.clock.reading
        let new = claims.filter {
            $0.plan.isEscalated(at: $0.step) && !AttemptLog.names(name, $0.attemptLog) && withhold($0, at: now) == nil
        }
        guard !new.isEmpty else { return claims }
        let limits = new.map { $0.plan.escalation?.maximumPerDay }
        let allowed: [Bool]
        do throws(StoreError) {
            allowed = try await dependencies.escalations.take(limits, of: name, at: now.wall, in: dependencies.store)
        } catch {
            dependencies.logger.unlessCancelled?.error(
                "counting messages for which a backend takes over failed",
                metadata: ["backend": "\(name)", "error": "\(error)"]
            )
            let later = now.steady.addingTimeInterval(1)
            record(new.map { Resolution(of: $0, .retry(at: later, step: $0.step)) })
            return claims.filter { claim in !new.contains { $0.id == claim.id } }
        }
        let refused = zip(new, allowed).filter { !$0.1 }.map(\.0)
        dependencies.observer.escalated(backend: name, .sent, count: new.count - refused.count)
        guard !refused.isEmpty else { return claims }
        dependencies.observer.escalated(backend: name, .limited, count: refused.count)
        record(refused.map { skip($0, reason: GatewayReason.escalationLimit, at: now) })
        let ids = Set(refused.map(\.id))
        return claims.filter { !ids.contains($0.id) }
    }
}
