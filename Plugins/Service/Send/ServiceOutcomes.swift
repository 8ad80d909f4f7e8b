internal import Foundation
internal import ChaparCore

/// The outcomes of a request's messages, read from the service's answer by the contract of ``ServiceBackend``.
///
/// Made for one chunk of messages; gives exactly one report for each of them. A message that the answer leaves out, or
/// reports unreadably, is unknown, never accepted. ``ServiceRejections`` says what a status means for all of them.
struct ServiceOutcomes {
    private let chunk: ServiceBatch.Chunk
    private let started: Date
    private let now: Date
    private let isRepeatHarmful: Bool

    /// Makes the outcomes of a chunk that was sent at `started`.
    init(to chunk: ServiceBatch.Chunk, started: Date, now: Date, isRepeatHarmful: Bool) {
        self.chunk = chunk
        self.started = started
        self.now = now
        self.isRepeatHarmful = isRepeatHarmful
    }

    /// Returns the reports of every recipient of the chunk.
    func reports(_ result: Result<HTTPAnswer, HTTPFailure>) -> [DeliveryReport] {
        switch result {
        case .failure(let failure):
            return all(failure.outcome(isRepeatHarmful: isRepeatHarmful))
        case .success(let answer): return answer.status == 200 ? outcomes(answer) : all(outcome(of: answer))
        }
    }

    /// Returns the same outcome for every recipient of the chunk.
    private func all(_ outcome: DeliveryOutcome) -> [DeliveryReport] { chunk.slots.map { $0.report(outcome) } }

    private func unknown(_ reason: String, _ detail: String?) -> DeliveryOutcome {
        .unknown(UnknownOutcome(reason: reason, detail: detail, isRepeatHarmful: isRepeatHarmful))
    }

    private func bad(_ detail: String) -> DeliveryOutcome { unknown("bad_answer", detail) }

    /// Returns the outcome of every recipient of a request that was not answered with 200.
    private func outcome(of answer: HTTPAnswer) -> DeliveryOutcome {
        let text = ServiceAnswer(answer).text
        let isSingle = chunk.messages == 1 && chunk.slots.count == 1
        switch ServiceRejections.meaning(of: answer.status, isSingle: isSingle) {
        case .refused(let rule):
            var refusal = rule.refusal(status: answer.status, words: nil, pause: answer.retryAfter(now: now))
            refusal.detail = text ?? rule.fix  // The service's own words replace ours.
            return .refused(refusal)
        case .unknown:
            let detail = text ?? "The service answered \(answer.status): it may have sent the message."
            return unknown("status_\(answer.status)", detail)
        case .broken: return bad("The service answered \(answer.status), and not 200 with outcomes.")
        }
    }

    // MARK: Outcomes one by one

    private func outcomes(_ answer: HTTPAnswer) -> [DeliveryReport] {
        guard let outcomes = ServiceAnswer(answer).outcomes else {
            return all(bad("The answer is no JSON object with outcomes."))
        }
        return chunk.slots.map { slot in
            guard let value = outcomes[slot.id] else {
                return slot.report(unknown("not_reported", "The answer says nothing about this message."))
            }
            return slot.report(outcome(value, slot))
        }
    }

    private func outcome(_ value: JSONValue, _ slot: ServiceBatch.Slot) -> DeliveryOutcome {
        let reason = value["reason"]?.stringValue.map(Self.label)
        let detail = value["detail"]?.stringValue.map { String($0.prefix(300)) }
        switch value["outcome"]?.stringValue {
        case "accepted":
            return .accepted(
                Acceptance(
                    platformID: value["platform_id"]?.stringValue.map { String($0.prefix(256)) },
                    isForAudience: slot.isAudience,
                    isDryRun: slot.isDryRun,
                    status: 200
                )
            )
        case "refused": return .refused(refusal(value, reason ?? "refused", detail))
        case "unknown":
            return .unknown(
                UnknownOutcome(
                    reason: reason ?? "unknown",
                    detail: detail,
                    isRepeatHarmful: value["repeat_harmful"]?.boolValue ?? isRepeatHarmful
                )
            )
        default: return bad("The outcome of this message is none of accepted, refused, unknown.")
        }
    }

    private func refusal(_ value: JSONValue, _ reason: String, _ detail: String?) -> Refusal {
        let kind = value["kind"]?.stringValue.flatMap(Refusal.Kind.init) ?? .message
        let pause = value["retry_after"]?.integerValue.map { Duration.seconds(min(max($0, 0), 86_400)) }
        let advice = ServiceRejections.advice(value["retry"]?.stringValue, kind, pause: pause)
        var refusal = Refusal(kind, reason: reason, detail: detail, status: 200, advice: advice)
        if kind == .token, value["dead"]?.boolValue ?? (advice == .never) {
            let since = value["dead_since"]?.integerValue.map { Date(timeIntervalSince1970: Double($0)) }
            let isCertain = value["certain"]?.boolValue ?? true
            refusal.invalidation = Refusal.Invalidation(asOf: min(since ?? started, now), isCertain: isCertain)
        }
        return refusal
    }

    /// Returns a reason as it may stand in a metric label: 64 characters of letters, digits, `_`, `-` and `.`.
    private static func label(_ text: String) -> String {
        let label = text.unicodeScalars.prefix(64).map { scalar -> Character in
            let isPlain = scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
            return isPlain || "_-.".unicodeScalars.contains(scalar) ? Character(scalar) : "_"
        }
        return label.isEmpty ? "refused" : String(label)
    }
}

extension ServiceRejections {
    /// The outcome of a delivery for each status that the contract knows, and for an answer that breaks it.
    ///
    /// The service's own reasons are not among them.
    static var outcomes: [DeliveryOutcome] {
        let slot = ServiceBatch.Slot(request: 0, recipient: 0, id: "", isDryRun: false, isAudience: false)
        func outcome(_ status: Int, messages: Int = 1) -> DeliveryOutcome? {
            let chunk = ServiceBatch.Chunk(slots: [slot], messages: messages)
            let epoch = Date(timeIntervalSince1970: 0)
            return ServiceOutcomes(to: chunk, started: epoch, now: epoch, isRepeatHarmful: false)
                .reports(.success(HTTPAnswer(status: status))).first?.outcome
        }
        return [400, 401, 413, 408, 429, 503, 500, 502, 504, 200, 404].compactMap { outcome($0) }
            + [outcome(413, messages: 2)].compactMap(\.self)
    }
}
