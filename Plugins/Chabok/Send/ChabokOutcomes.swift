import ChaparCore
import Synchronization

/// The outcomes of a send for each of its recipients, read from the answer.
///
/// Made for one call; gives exactly one report for each of its recipients. ``ChabokRejections`` says what an error
/// means; the entries of a success are read here.
struct ChabokOutcomes: Sendable {
    private let call: ChabokBatchRequest
    private let resendsAmbiguous: Bool

    init(_ call: ChabokBatchRequest, resendsAmbiguous: Bool) {
        self.call = call
        self.resendsAmbiguous = resendsAmbiguous
    }

    func reports(_ answer: ChabokAnswer, secondChances: ChabokSecondChances) -> [DeliveryReport] {
        guard answer.isSuccess else {
            var refusal = ChabokRejections.refusal(answer)
            guard answer.status == 500 else { return all(.refused(refusal)) }
            // Chabok answers 500 to wrong credentials as well, so each delivery is repeated once only.
            return call.slots.map { slot in
                refusal.advice = secondChances.use(slot.messageID) ? .retry(after: answer.retryAfter) : .never
                return report(slot, .refused(refusal))
            }
        }
        guard let entries = answer.entries else {
            return all(
                .unknown(
                    UnknownOutcome(
                        reason: "bad_answer",
                        detail: "Chabok's answer is no JSON.",
                        isRepeatHarmful: !resendsAmbiguous
                    )
                )
            )
        }
        if entries.count == call.members.count {
            return zip(call.members, entries).flatMap { slots, entry in
                let outcome = outcome(entry, answer.status)
                return slots.map { report($0, outcome) }
            }
        }
        // The number of entries is not that of the messages, so all messages share the sum of the entries.
        let whole = ChabokAnswer.Entry(id: entries.first?.id, count: answer.count)
        return all(outcome(whole, answer.status))
    }

    func reports(_ failure: HTTPFailure) -> [DeliveryReport] {
        all(failure.outcome(isRepeatHarmful: !resendsAmbiguous))
    }

    func all(_ outcome: DeliveryOutcome) -> [DeliveryReport] { call.slots.map { report($0, outcome) } }

    private func report(_ slot: ChabokSlot, _ outcome: DeliveryOutcome) -> DeliveryReport {
        DeliveryReport(request: slot.request, recipient: slot.recipient, outcome: outcome)
    }

    /// Returns the outcome of an entry.
    ///
    /// A success with a count of 0 devices delivers nothing, so it is a refusal.
    private func outcome(_ entry: ChabokAnswer.Entry, _ status: Int) -> DeliveryOutcome {
        guard entry.count != 0 else {
            return .refused(
                Refusal(
                    call.isForAudience ? .message : .token,
                    reason: "no_recipients",
                    detail: "Chabok found no device.",
                    status: status,
                    advice: .never
                )
            )
        }
        // Clicks and webhooks may follow for recipients that can be distinguished.
        return .accepted(
            Acceptance(
                platformID: entry.id,
                isForAudience: call.isForAudience,
                isVerdictPending: entry.id != nil && !call.isForAudience,
                status: status
            )
        )
    }
}

/// The newest deliveries that have been repeated once after a fault of the server.
final class ChabokSecondChances: Sendable {
    private static let capacity = 10_000
    private let state = Mutex((seen: Set<MessageID>(), order: [MessageID]()))

    /// Returns whether the delivery may be repeated, which it may once.
    func use(_ message: MessageID) -> Bool {
        state.withLock { state in
            guard state.seen.insert(message).inserted else { return false }
            state.order.append(message)
            if state.order.count > Self.capacity {
                for old in state.order.prefix(Self.capacity / 2) { state.seen.remove(old) }
                state.order.removeFirst(Self.capacity / 2)
            }
            return true
        }
    }
}
