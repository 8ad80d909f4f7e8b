package import Foundation
internal import ChaparCore

/// The answers of one listener of a simulated web service: only the platform's own rules.
///
/// ``SandboxWebHost`` takes care of connections, fault rules, counters and both versions of HTTP. Called on the
/// simulator's event loop, so it must not block.
package protocol SandboxHandler: Sendable {
    /// Returns the parts of a request that fault rules can match.
    func subject(of request: SandboxRequest) -> SandboxSubject

    /// Processes a request.
    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply

    /// Returns the answer that a fault rule asks for, in the platform's form.
    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer
}

/// The parts of a request that fault rules can match, beside its path and connection.
package struct SandboxSubject: Sendable {
    /// The device token it is for.
    package var token: String?
    /// The topic it is for.
    package var topic: String?

    package init(token: String? = nil, topic: String? = nil) {
        self.token = token
        self.topic = topic
    }
}

extension FaultAnswer {
    /// Returns the answer as it stands, with JSON or no body unless the rule gives one.
    package func plain(json: [UInt8] = [], now: Date = Date()) -> SandboxAnswer {
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
