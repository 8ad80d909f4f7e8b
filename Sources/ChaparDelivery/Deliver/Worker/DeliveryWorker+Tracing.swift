internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// The spans of deliveries: the wait in the queue and the attempt, below the span of the acceptance.
extension DeliveryWorker {
    /// Records the spans of deliveries that were sent and have an outcome, those of sampled traces only.
    func trace(_ outcomes: [WorkerBatch.Outcome], of batch: WorkerBatch, at now: TimeReading) {
        guard let tracing = dependencies.tracing, tracing.isOn else { return }
        for (index, outcome) in outcomes {
            let claim = batch.claims[index]
            guard let context = claim.head.record.trace, context.isSampled else { continue }
            let parent = context.span(of: claim.shownID)
            let sentAt = now.wall(batch.sentAt)
            let shared: [(name: String, value: TraceSpan.Value)] = [
                ("messaging.system", .text(backend.kind.rawValue)), ("messaging.destination.name", .text(name)),
                ("chapar.notification", .text(claim.shownID.description)),
                ("chapar.delivery", .number(claim.shownPlace)),
                ("chapar.attempt", .number(Int64(clamping: claim.attempts).adding(clamping: 1))),
            ]
            var waited = shared
            if claim.isRecovered { waited.append(("chapar.recovered", .flag(true))) }
            tracing.record(
                TraceSpan(
                    "queue \(name)",
                    .internal,
                    in: context,
                    parent: parent,
                    from: Self.lastAttempt(of: claim) ?? now.wall(batch.begin(of: claim)),
                    to: sentAt,
                    waited
                )
            )
            tracing.record(
                TraceSpan(
                    "send \(name)",
                    .client,
                    in: context,
                    parent: parent,
                    from: sentAt,
                    to: now.wall,
                    shared + Self.attributes(of: outcome, claim, instance: dependencies.instance),
                    failure: outcome.failure
                )
            )
        }
    }

    private static func attributes(
        of outcome: DeliveryOutcome,
        _ claim: ClaimedDelivery,
        instance: UInt64
    ) -> [(name: String, value: TraceSpan.Value)] {
        var attributes: [(name: String, value: TraceSpan.Value)] = [
            ("messaging.operation.name", .text("send")), ("messaging.operation.type", .text("send")),
            ("messaging.message.id", .text(MessageID(instance: instance, delivery: claim.id).description)),
            ("chapar.outcome", .text(outcome.label.outcome)),
        ]
        if claim.isReplay { attributes.append(("chapar.repeat", .flag(true))) }
        if let status = outcome.status {
            attributes.append(("http.response.status_code", .number(Int64(clamping: status))))
        }
        if let failure = outcome.failure { attributes.append(("error.type", .text(failure))) }
        return attributes
    }

    /// Returns the time of the last attempt, by its entry in the log; nil before the first.
    private static func lastAttempt(of claim: ClaimedDelivery) -> Date? {
        guard claim.attempts > 0, !claim.attemptLog.isEmpty else { return nil }
        let log = [UInt8(ascii: "[")] + claim.attemptLog + [UInt8(ascii: "]")]
        let entries = (try? JSONValue(parsing: log))?.arrayValue
        return entries?.last?["at"]?.stringValue.flatMap { RFC3339.parse($0) }
    }
}

extension DeliveryOutcome {
    /// The reason of an outcome other than acceptance.
    fileprivate var failure: String? {
        switch self {
        case .accepted: nil
        case .refused(let refusal): refusal.reason
        case .unknown(let unknown): unknown.reason
        }
    }

    /// The status of the platform's answer; nil without one.
    fileprivate var status: Int? {
        switch self {
        case .accepted(let acceptance): acceptance.status
        case .refused(let refusal): refusal.status
        case .unknown: nil
        }
    }
}
