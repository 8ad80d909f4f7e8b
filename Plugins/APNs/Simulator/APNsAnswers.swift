internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// Turns a verdict into an HTTP answer.
///
/// ``APNsPeer`` decides about a request; this adds the fields that Apple sends with the answer, then the distortions
/// that a test asked for. It decides nothing.
enum APNsAnswers {
    /// The largest header list that is accepted, in bytes, as SETTINGS announces it.
    static let maximumHeaderList = 8000

    static func make(_ draft: APNsPeer.Draft, rules: APNsRuleOptions) -> SandboxAnswer {
        var answer = SandboxAnswer(status: 200)
        if let id = draft.apnsID { answer.headers.append(HTTPHeader("apns-id", id, .literal)) }
        if let id = draft.requestID { answer.headers.append(HTTPHeader("apns-request-id", id, .literal)) }
        if let fault = draft.fault {
            answer.status = fault.status
            if let seconds = fault.retryAfter { answer.headers.append(HTTPHeader("retry-after", "\(seconds)")) }
            answer.body = fault.body ?? (fault.reason == nil ? [] : draft.refusal?.body ?? [])
            if fault.body != nil { answer.headers.append(HTTPHeader("content-type", "text/html")) }
            answer = answer.with(fault.headers)
        } else if let refusal = draft.refusal {
            answer.status = refusal.status
            answer.body = refusal.reason.isEmpty ? [] : refusal.body
            if refusal == .serviceUnavailable, let seconds = rules.magicRetryAfter {
                answer.headers.append(HTTPHeader("retry-after", "\(seconds)"))
            }
        } else if let management = draft.management {
            answer.status = management.status
            answer.body = management.body
            if let id = management.channelID { answer.headers.append(HTTPHeader("apns-channel-id", id, .literal)) }
        } else if let id = draft.uniqueID {
            answer.headers.append(HTTPHeader("apns-unique-id", id, .literal))
        }
        for distortion in draft.faults.distortions { distort(&answer, distortion) }
        return answer
    }

    private static func distort(_ answer: inout SandboxAnswer, _ distortion: FaultDistortion) {
        switch distortion {
        case .withoutID: answer.headers.removeAll { $0.name == "apns-id" }
        case .upperCaseID:
            answer.headers = answer.headers.map { header in
                header.name == "apns-id" ? HTTPHeader(header.name, header.value.uppercased(), .literal) : header
            }
        case .emptyBody: answer.body = []
        case .truncatedBody: answer.body.removeLast(answer.body.count / 2)
        }
    }
}

extension FaultAnswer {
    /// Returns the answer as a refusal, for the body and the counters; nil for a success.
    func refusal(now: Date) -> APNsRefusal? {
        guard status >= 300 else { return nil }
        let time: Date? =
            switch timestamp {
            case .missing: nil
            case .now(let offset): now.addingTimeInterval(offset.inSeconds)
            case .milliseconds(let milliseconds): Date(millisecondsSince1970: milliseconds)
            }
        return APNsRefusal(status, reason ?? "", timestamp: time)
    }
}
