import Foundation
import ChaparCore

/// Turns answers and failures into outcomes, one for each recipient.
///
/// ``HMSBackend`` makes one for each round of a request and acts on the verdict: it reports, sends smaller requests, or
/// replaces the credential. This type sends nothing itself; ``HMSRejections`` has the meanings of codes.
struct HMSOutcomes {
    /// The start of the send, from which refused tokens count as dead.
    let started: Date
    /// The round of a request whose answer it is.
    let batchRequest: HMSBatchRequest

    /// The decision about an answer.
    enum Verdict {
        /// Everything is decided.
        case reports([DeliveryReport])
        /// Send these requests instead; Huawei accepted none of their messages.
        case again([HMSBatchRequest])
        /// The credential was refused: replace it, send once more, and report this if that is not possible.
        case reauthorize(code: String?, status: Int, otherwise: DeliveryOutcome)
        /// All of several tokens were refused, which a wrong app or project causes as well.
        case suspicious
    }

    func verdict(on answer: HMSAnswer, flow: HMSFlowControl) -> Verdict {
        guard let code = answer.code, let rule = HMSRejections.rule(for: code) else {
            return withoutCode(answer, flow)
        }
        let status = answer.status
        func refused(_ kind: Refusal.Kind, _ advice: Refusal.Advice) -> DeliveryOutcome {
            .refused(Refusal(kind, reason: code, detail: rule.detail, status: status, advice: advice))
        }
        switch rule.consequence {
        case .accepted: return all(accepted(answer))
        case .partial: return .reports(partial(answer))
        case .drop: return all(refused(.message, .never))
        case .split(let size): return split(size) ?? all(refused(.message, .never))
        case .halve: return split((batchRequest.count + 1) / 2) ?? all(refused(.message, .never))
        case .slowTopics:
            return all(refused(.account, .slowRecipient(after: max(answer.retryAfter ?? .zero, .seconds(60)))))
        case .reauthorize:
            let outcome = refused(.account, .parkBackend)
            return batchRequest.isReauthorized
                ? all(outcome) : .reauthorize(code: code, status: status, otherwise: outcome)
        case .configuration: return all(refused(.account, .parkBackend))
        case .deadTokens:
            if batchRequest.target.isAudience { return all(refused(.message, .never)) }
            if let reports = reasoned(answer) { return .reports(reports) }
            return batchRequest.count > 1 ? .suspicious : all(dead(code, rule.detail, status))
        case .demote:
            // Only this message is concerned, so the backend does not pause.
            guard let demoted = batchRequest.demoted else { return all(refused(.account, .never)) }
            return .again([demoted])
        case .retry: return all(refused(.platform, .retry(after: answer.retryAfter)))
        }
    }

    /// Returns the reports after a probe with a known good token, which shows what a refusal of all tokens means.
    func afterProbe(isAppFine: Bool?) -> [DeliveryReport] {
        if isAppFine == false {
            let detail = "Huawei refuses every token, also one that worked before: check app_id, project_id and api."
            return batchRequest.reports(
                .refused(Refusal(.account, reason: "80300007", detail: detail, advice: .parkBackend))
            )
        }
        return batchRequest.reports(dead("80300007", HMSRejections.rule(for: "80300007")?.detail, nil))
    }

    /// Returns the reports of a call without an answer.
    func verdict(on failure: HTTPFailure) -> [DeliveryReport] {
        guard failure.stage == .notProcessed else { return unknown(failure.cause.reason, failure.detail) }
        return batchRequest.reports(failure.outcome())
    }

    /// Returns the outcome when no credential is available: the backend pauses, and no message fails for it.
    static func outcome(of error: PushError) -> DeliveryOutcome {
        let reason = error.reason ?? error.code.rawValue
        if error.code == .credentialsRefused {
            return .refused(Refusal(.account, reason: reason, detail: error.message, advice: .parkBackend))
        }
        let advice = Refusal.Advice.slowBackend(after: error.retryAfter)
        return .refused(Refusal(.platform, reason: reason, detail: error.message, advice: advice))
    }

    // MARK: Parts

    private func all(_ outcome: DeliveryOutcome) -> Verdict { .reports(batchRequest.reports(outcome)) }

    private func accepted(_ answer: HMSAnswer) -> DeliveryOutcome {
        .accepted(
            Acceptance(
                platformID: answer.requestID,
                trackingID: batchRequest.message.trackingID,
                isForAudience: batchRequest.target.isAudience,
                isVerdictPending: batchRequest.awaitsReceipts,
                isDryRun: batchRequest.isDryRun,
                status: answer.status
            )
        )
    }

    private func dead(_ reason: String, _ detail: String?, _ status: Int?) -> DeliveryOutcome {
        .refused(
            Refusal(
                .token,
                reason: reason,
                detail: detail,
                status: status,
                advice: .never,
                invalidation: .init(asOf: started, isCertain: false)
            )
        )
    }

    private func split(_ size: Int) -> Verdict? {
        guard batchRequest.count > 1, size < batchRequest.count else { return nil }
        return .again(batchRequest.split(max(1, size)))
    }

    /// Reports the tokens that are not listed as accepted if Huawei's list and count agree, else as unknown, so that no
    /// recipient gets the message twice.
    private func partial(_ answer: HMSAnswer) -> [DeliveryReport] {
        guard case .tokens(let tokens) = batchRequest.target else {
            return batchRequest.reports(unknownOutcome("unreadable_partial", nil))
        }
        let listed = answer.partial?.refused ?? []
        var reasons: [String: String?] = [:]
        for (token, reason) in listed { reasons[token] = .some(reason) }
        let matched = tokens.reduce(0) { $0 + (reasons[$1] == nil ? 0 : 1) }
        let agrees =
            matched == reasons.count && answer.partial?.failures == matched
            && (answer.partial?.successes.map { $0 == tokens.count - matched } ?? true)
        let others = agrees ? accepted(answer) : unknownOutcome("partial_counts_differ", nil)
        return batchRequest.reports(byToken: { token in
            guard let reason = reasons[tokens[token]] else { return others }
            return refusal(reason, answer)
        })
    }

    /// Returns the outcomes when Huawei gives a reason for every token of the request; nil when it does not.
    private func reasoned(_ answer: HMSAnswer) -> [DeliveryReport]? {
        guard case .tokens(let tokens) = batchRequest.target else { return nil }
        var reasons: [String: String] = [:]
        for (token, reason) in answer.partial?.refused ?? [] { reasons[token] = reason }
        guard tokens.allSatisfy({ reasons[$0] != nil }) else { return nil }
        return batchRequest.reports(byToken: { refusal(reasons[tokens[$0]], answer) })
    }

    private func refusal(_ reason: String?, _ answer: HMSAnswer) -> DeliveryOutcome {
        guard let reason else {
            return dead("illegal_token", "Huawei lists the token as one that is not good for this app.", answer.status)
        }
        if HMSTokenReasons.isDeath(reason) { return dead(reason, HMSTokenReasons.detail(reason), answer.status) }
        return .refused(
            Refusal(
                .token,
                reason: HMSTokenReasons.label(reason),
                detail: HMSTokenReasons.detail(reason),
                status: answer.status,
                advice: .never
            )
        )
    }

    private func withoutCode(_ answer: HMSAnswer, _ flow: HMSFlowControl) -> Verdict {
        let status = answer.status
        guard answer.code == nil else {
            // The family of the code is unknown: the delivery is retried, and counted under the reason `unknown_code`.
            let detail = "Huawei gave a code unknown to Chapar."
            let advice = Refusal.Advice.retry(after: answer.retryAfter)
            return all(
                .refused(Refusal(.platform, reason: "unknown_code", detail: detail, status: status, advice: advice))
            )
        }
        if (200..<300).contains(status) {
            return .reports(unknown("unreadable_answer", "Huawei's answer cannot be read."))
        }
        guard let rule = HMSRejections.rule(forStatus: status) else {
            return .reports(unknown("http_\(status)", "Huawei's service failed while it had the message."))
        }
        let throttled = rule.flow == .untouched ? nil : flow.throttled(floor: answer.retryAfter)
        let pause = rule.flow == .paused ? throttled : answer.retryAfter
        let outcome = DeliveryOutcome.refused(rule.refusal(status: status, pause: pause))
        return status == 401 && !batchRequest.isReauthorized
            ? .reauthorize(code: nil, status: status, otherwise: outcome) : all(outcome)
    }

    private func unknown(_ reason: String, _ detail: String?) -> [DeliveryReport] {
        batchRequest.reports(bySlot: { unknownOutcome(reason, detail, isSecond: $0.isReplay) })
    }

    /// Returns an unknown outcome: a repeat is harmless where it takes the first copy's place on the screen, and only
    /// once.
    private func unknownOutcome(_ reason: String, _ detail: String?, isSecond: Bool = false) -> DeliveryOutcome {
        .unknown(
            UnknownOutcome(
                reason: reason,
                detail: detail,
                isRepeatHarmful: isSecond || !batchRequest.message.isRepeatHarmless
            )
        )
    }
}

extension HMSRejections {
    /// The outcome of a delivery to one token for each of Huawei's codes, statuses and reasons.
    static var outcomes: [DeliveryOutcome] {
        // Two consequences do not end a delivery: acceptance is no refusal, and partial success has a reason for each
        // refused token.
        let ends = known.filter { $0.value.consequence != .accepted && $0.value.consequence != .partial }
        let codes = ends.keys.sorted().map { code -> HTTPAnswer in
            let body: JSONValue = ["code": .string(code)]
            return HTTPAnswer(status: 200, body: body.bytes)
        }
        let statuses = [400, 401, 403, 404, 413, 429, 502, 503].map { HTTPAnswer(status: $0) }
        let reasons = HMSTokenReasons.known.keys.sorted().map { reason -> HTTPAnswer in
            let tokens: JSONValue = ["failure": 1, "illegalTokens": [reason: ["t"]]]
            let body: JSONValue = ["code": "80100000", "msg": tokens]
            return HTTPAnswer(status: 200, body: body.bytes)
        }
        return (codes + statuses + reasons).compactMap { outcome(on: $0) }
    }

    /// Returns the outcome that ``HMSOutcomes`` gives for an answer to a request with one token when nothing can be
    /// sent again; nil when it would send again.
    static func outcome(on answer: HTTPAnswer) -> DeliveryOutcome? {
        let started = Date(timeIntervalSince1970: 0)
        let slot = HMSBatchRequest.Slot(request: 0, recipient: 0, token: 0, isReplay: false)
        let request = HMSBatchRequest(.empty, to: .tokens(["t"]), slots: [slot], awaitsReceipts: false)
        let outcomes = HMSOutcomes(started: started, batchRequest: request)
        switch outcomes.verdict(on: HMSAnswer(answer, now: started), flow: HMSFlowControl(random: { 1 })) {
        case .reports(let reports): return reports.first?.outcome
        case .reauthorize(code: _, status: _, otherwise: let outcome): return outcome
        case .again, .suspicious: return nil
        }
    }
}
