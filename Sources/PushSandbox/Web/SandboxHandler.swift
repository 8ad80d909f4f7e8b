internal import Foundation
internal import PushCore

/// What one listener of a simulated web service answers: the platform's own rules, and nothing else.
///
/// Connections, fault rules, counters and both versions of HTTP are the business of ``SandboxWebHost``. Called on the
/// simulator's event loop, so it must not block.
protocol SandboxHandler: Sendable {
    /// What fault rules can look at in a request.
    func subject(of request: SandboxRequest) -> SandboxSubject

    /// Processes a request.
    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply

    /// The answer that a fault rule asks for, in the platform's form.
    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer
}

/// What fault rules can look at in a request beside its path and connection.
struct SandboxSubject: Sendable {
    /// The device token it is for.
    var token: String?
    /// The topic it is for.
    var topic: String?
}

extension FaultAnswer {
    /// The answer as it stands, with JSON or no body unless the rule gives one.
    func plain(json: [UInt8] = [], now: Date = Date()) -> SandboxAnswer {
        var answer = SandboxAnswer(status: status, body: body ?? json)
        if let retryAfter {
            let date = now.addingTimeInterval(TimeInterval(retryAfter))
            let text = retryAfterIsDate ? SandboxHTTPDate.text(date) : "\(retryAfter)"
            answer.headers.append(HTTPHeader("retry-after", text))
        }
        let isHTML = answer.body.first == UInt8(ascii: "<")
        if !answer.body.isEmpty {
            answer.headers.append(HTTPHeader("content-type", isHTML ? "text/html" : "application/json; charset=UTF-8"))
        }
        return answer
    }
}
