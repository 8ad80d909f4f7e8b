internal import Foundation
internal import ChaparCore

/// Applies a row of ``WebPushRejections`` to a message: its outcome, or another attempt with another key, a fresh VAPID
/// token or no topic.
struct WebPushOutcomes: Sendable {
    /// The step after an answer.
    enum Verdict: Sendable {
        case final(DeliveryOutcome)
        /// The message is to be sent once more.
        case again(WebPushItem)
    }

    let lanes: WebPushLanes
    let keys: WebPushKeyMemory
    /// The number of VAPID keys.
    let keyCount: Int
    /// The start of the attempt.
    let started: Date
    let now: Date

    /// Returns what follows from the result of a call.
    func verdict(on result: Result<HTTPAnswer, HTTPFailure>, of item: WebPushItem) -> Verdict {
        switch result {
        case .failure(let failure): .final(outcome(of: failure, item))
        case .success(let answer): verdict(on: answer, of: item)
        }
    }

    private func verdict(on answer: HTTPAnswer, of item: WebPushItem) -> Verdict {
        let words = WebPushAnswer(answer)
        let rule = WebPushRejections.rule(of: words)
        var item = item
        switch rule.consequence {
        case .dropTopic where item.topic != nil:
            item.topic = nil
            return .again(item)
        case .resign where !item.isSignedAnew, .resignThenRetry where !item.isSignedAnew:
            item.isSignedAnew = true
            item.refusedSince = started
            return .again(item)
        case .otherKey,
            .resign where rule.isVague, .resignThenRetry where rule.isVague:
            item.refusedKeys.insert(item.key)
            guard let next = (0..<keyCount).first(where: { !item.refusedKeys.contains($0) }) else { break }
            item.key = next
            item.refusedSince = nil
            return .again(item)
        default: break
        }
        return .final(outcome(rule, words, item, pause: answer.retryAfter(now: now)))
    }

    private func outcome(
        _ rule: WebPushRejections.Rule,
        _ answer: WebPushAnswer,
        _ item: WebPushItem,
        pause: Duration?
    ) -> DeliveryOutcome {
        func refusal(_ kind: Refusal.Kind, _ advice: Refusal.Advice) -> Refusal {
            Refusal(kind, reason: rule.reason, detail: rule.detail, status: answer.status, advice: advice)
        }
        func trouble(_ whole: Refusal, holds: Bool = true) -> DeliveryOutcome {
            let own = lanes.trouble(
                item.origin,
                whole,
                pause: pause,
                holds: holds,
                isForeign: item.trust == .publicOnly,
                at: now
            )
            return .refused(own ?? whole)
        }
        switch rule.consequence {
        case .accepted:
            lanes.accepted(item.origin, at: now)
            if keyCount > 1 { keys.remember(item.key, for: item.subscription.address) }
            return .accepted(Acceptance(platformID: answer.platformID, status: answer.status))
        case .invalid:
            lanes.worked(item.origin)
            var refusal = refusal(.token, .never)
            refusal.invalidation = Refusal.Invalidation(asOf: started, isCertain: true)
            return .refused(refusal)
        case .otherKey:
            // The subscription works for the owner of its key, so it is not deleted: the page must subscribe anew.
            lanes.worked(item.origin)
            return .refused(refusal(.token, .never))
        case .drop, .dropTopic:
            lanes.worked(item.origin)
            return .refused(refusal(.message, .never))
        case .slowDevice:
            lanes.worked(item.origin)
            return .refused(refusal(.token, .slowRecipient(after: pause)))
        case .resign where rule.isVague && lanes.hasWorked(item.origin, at: now):
            // The service accepts the tokens of other messages, so this subscription was made with another key.
            return .refused(refusal(.token, .never))
        case .resign, .account: return trouble(refusal(.account, .parkBackend))
        case .resignThenRetry: return .refused(refusal(.token, .retry(after: pause)))
        case .slowOrigin: return trouble(refusal(.platform, .slowBackend(after: pause)))
        case .retry: return trouble(refusal(.platform, .retry(after: pause)), holds: false)
        case .unknown: return .unknown(UnknownOutcome(reason: rule.reason, detail: rule.detail))
        }
    }

    private func outcome(of failure: HTTPFailure, _ item: WebPushItem) -> DeliveryOutcome {
        if failure.cause == .forbiddenAddress {
            return .refused(
                Refusal(
                    .token,
                    reason: "forbidden_address",
                    detail:
                        "The endpoint's host has an address that is not public: name it in allow_hosts if it is meant.",
                    advice: .never
                )
            )
        }
        let outcome = failure.outcome()
        guard case .refused(let refusal) = outcome else { return outcome }
        switch failure.cause {
        case .connect, .tls, .proxy, .protocolNotNegotiated:
            let isForeign = item.trust == .publicOnly
            let own = lanes.trouble(item.origin, refusal, pause: nil, isForeign: isForeign, at: now)
            return .refused(own ?? refusal)
        default: return outcome
        }
    }
}
