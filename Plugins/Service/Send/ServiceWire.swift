internal import Foundation
internal import PushCore

/// Reads a service's answers, by the contract of ``ServiceBackend``.
struct ServiceAnswer {
    private let chunk: ServiceBatch.Chunk
    private let started: Date
    private let now: Date
    private let isRepeatHarmful: Bool

    /// An answer to a chunk that was sent at `started`.
    init(to chunk: ServiceBatch.Chunk, started: Date, now: Date, isRepeatHarmful: Bool) {
        self.chunk = chunk
        self.started = started
        self.now = now
        self.isRepeatHarmful = isRepeatHarmful
    }

    /// The reports of every recipient of the chunk.
    func reports(_ result: Result<HTTPAnswer, HTTPFailure>) -> [DeliveryReport] {
        switch result {
        case .failure(let failure):
            return all(failure.outcome(isRepeatHarmful: isRepeatHarmful))
        case .success(let answer): return answer.status == 200 ? outcomes(answer) : all(verdict(on: answer))
        }
    }

    /// One outcome for every message of the chunk.
    private func all(_ outcome: DeliveryOutcome) -> [DeliveryReport] { chunk.slots.map { $0.report(outcome) } }

    private func unknown(_ reason: String, _ detail: String?) -> DeliveryOutcome {
        .unknown(UnknownOutcome(reason: reason, detail: detail, isRepeatHarmful: isRepeatHarmful))
    }

    // MARK: A status for the whole request

    private func verdict(on answer: HTTPAnswer) -> DeliveryOutcome {
        let problem = try? JSONValue(parsing: answer.body)
        let text = (problem?["detail"] ?? problem?["title"])?.stringValue.map { String($0.prefix(300)) }
        func refuse(
            _ kind: Refusal.Kind,
            _ reason: String,
            _ advice: Refusal.Advice,
            _ detail: String? = nil
        ) -> DeliveryOutcome {
            .refused(
                Refusal(kind, reason: reason, detail: text ?? detail, status: answer.status, advice: advice)
            )
        }
        let pause = answer.retryAfter(now: now)
        switch answer.status {
        case 400, 422: return refuse(.message, "rejected", .never, "The service refused the request.")
        case 401, 403: return refuse(.account, "unauthorized", .parkBackend, "Compare secret with the service's own.")
        case 413:
            if chunk.messages == 1, chunk.slots.count == 1 { return refuse(.message, "message_too_large", .never) }
            return refuse(.account, "batch_too_large", .parkBackend, "Lower batch_size or max_message_bytes.")
        case 408, 425: return refuse(.platform, "not_taken", .retry(after: pause))
        case 429: return refuse(.platform, "rate_limited", .slowBackend(after: pause))
        case 503: return refuse(.platform, "unavailable", .slowBackend(after: pause))
        case 500...599:
            let detail = text ?? "The service answered \(answer.status): it may have sent the message."
            return unknown("status_\(answer.status)", detail)
        case 200...299: return bad("The service answered \(answer.status), and not 200 with outcomes.")
        default: return refuse(.account, "wrong_address", .parkBackend, "Check url: nothing there takes batches.")
        }
    }

    private func bad(_ detail: String) -> DeliveryOutcome { unknown("bad_answer", detail) }

    // MARK: Outcomes one by one

    private func outcomes(_ answer: HTTPAnswer) -> [DeliveryReport] {
        guard let list = (try? JSONValue(parsing: answer.body))?["outcomes"]?.arrayValue else {
            return all(bad("The answer is no JSON object with outcomes."))
        }
        var outcomes: [String: JSONValue] = [:]
        for outcome in list {
            // What is said first counts: a second word on the same message must not turn a failure into a success.
            if let id = outcome["id"]?.stringValue, outcomes[id] == nil { outcomes[id] = outcome }
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
        let advice: Refusal.Advice =
            switch (value["retry"]?.stringValue, kind) {
            case ("never", _): .never
            case ("message", _): .retry(after: pause)
            case ("recipient", _): .slowRecipient(after: pause)
            case ("backend", _): .slowBackend(after: pause)
            case ("operator", _): .parkBackend
            case (_, .token), (_, .message): .never
            case (_, .account): .parkBackend
            case (_, .platform): .retry(after: pause)
            }
        var refusal = Refusal(kind, reason: reason, detail: detail, status: 200, advice: advice)
        if kind == .token, value["dead"]?.boolValue ?? (advice == .never) {
            let since = value["dead_since"]?.integerValue.map { Date(timeIntervalSince1970: Double($0)) }
            let isCertain = value["certain"]?.boolValue ?? true
            refusal.invalidation = Refusal.Invalidation(asOf: min(since ?? started, now), isCertain: isCertain)
        }
        return refusal
    }

    /// A reason as it may stand in a metric label: 64 characters of letters, digits, `_`, `-` and `.`.
    private static func label(_ text: String) -> String {
        let label = text.unicodeScalars.prefix(64).map { scalar -> Character in
            let isPlain = scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
            return isPlain || "_-.".unicodeScalars.contains(scalar) ? Character(scalar) : "_"
        }
        return label.isEmpty ? "refused" : String(label)
    }
}
