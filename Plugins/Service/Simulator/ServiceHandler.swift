internal import Crypto
internal import Foundation
internal import ChaparCore
internal import ChaparSimulator
internal import Synchronization

/// The simulated service: answers batches by the contract of the backend `http`, checked field by field.
final class ServiceHandler: SandboxHandler {
    struct State: Sendable {
        var counters = ServiceSimulator.Counters()
        var taken: [JSONValue] = []
        /// The outcomes by message id: a repeat gets the same one.
        var decided: [String: JSONValue] = [:]

        /// The most messages and outcomes that are kept.
        static let maximumKept = 100_000
    }

    /// The largest difference, in seconds, between a request's time and the service's (Standard Webhooks).
    private static let tolerance: Double = 300

    private let key: SymmetricKey
    private let guarded = Mutex(State())

    init(secret: String) {
        key = SymmetricKey(data: Data(base64Encoded: String(secret.dropFirst("whsec_".count))) ?? Data())
    }

    func withState<Value: Sendable>(_ body: (inout State) -> Value) -> Value { guarded.withLock { body(&$0) } }

    func subject(of request: SandboxRequest) -> SandboxSubject { SandboxSubject() }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        fault.plain(json: Array(#"{"title":"As a fault rule wants it","status":\#(fault.status)}"#.utf8), now: now)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        SandboxReply(answer: process(request, at: now))
    }

    private func process(_ request: SandboxRequest, at now: Date) -> SandboxAnswer {
        guard request.path == ServiceSimulator.path else { return problem(404, "Nothing is here.") }
        guard request.method == "POST" else { return problem(405, "Batches are posted.") }
        guard let id = request.header("webhook-id"), isSigned(request, id: id, at: now) else {
            withState { $0.counters.unsigned += 1 }
            return problem(401, "The signature does not fit.")
        }
        guard request.header("content-type") == "application/json" else { return malformed("The type is not JSON.") }
        guard let body = try? JSONValue(parsing: request.body), body["version"] == 1,
            body["backend"]?.stringValue != nil, let messages = body["messages"]?.arrayValue
        else { return malformed("The body is no batch of version 1.") }
        return accept(messages)
    }

    // MARK: Signature

    private func isSigned(_ request: SandboxRequest, id: String, at now: Date) -> Bool {
        guard let stamp = request.header("webhook-timestamp"), let seconds = Double(stamp),
            abs(seconds - now.timeIntervalSince1970) <= Self.tolerance,
            let field = request.header("webhook-signature")
        else { return false }
        let text = Data("\(id).\(stamp).".utf8) + Data(request.body)
        return field.split(separator: " ").contains { part in
            guard part.hasPrefix("v1,"), let code = Data(base64Encoded: String(part.dropFirst(3))) else { return false }
            return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: text, using: key)
        }
    }

    // MARK: Messages

    private func accept(_ messages: [JSONValue]) -> SandboxAnswer {
        for (place, entry) in messages.enumerated() {
            if let fault = Self.fault(in: entry) { return malformed("messages[\(place)]: \(fault)") }
        }
        let outcomes = withState { state -> [JSONValue] in
            var outcomes: [JSONValue] = []
            var count = 0
            for entry in messages {
                for recipient in entry["recipients"]?.arrayValue ?? [] {
                    count += 1
                    if let outcome = state.outcome(of: recipient, entry["message"] ?? .null) {
                        outcomes.append(outcome)
                    }
                }
            }
            state.counters.batches += 1
            state.counters.largestBatch = max(state.counters.largestBatch, count)
            return outcomes
        }
        let answer: JSONValue = ["outcomes": .array(outcomes)]
        return SandboxAnswer(
            status: 200,
            headers: [HTTPHeader("content-type", "application/json")],
            body: answer.bytes
        )
    }

    private static let contentNames: Set<String> = [
        "title", "subtitle", "body", "image", "sound", "badge", "category", "click_url", "actions", "data",
    ]
    private static let optionNames: Set<String> = ["priority", "collapse_id", "silent", "dry_run", "expires_at"]
    private static let addresses: Set<String> = [
        "token", "service", "device", "user", "platform_id", "topic", "tags", "everyone",
    ]

    /// Returns the fault in an entry of the batch; nil when it keeps the contract.
    private static func fault(in entry: JSONValue) -> String? {
        guard let message = entry["message"], let content = message["content"]?.objectValue,
            let options = message["options"]?.objectValue
        else { return "no message with content and options" }
        if let name = content.map(\.name).first(where: { !contentNames.contains($0) }) { return "content.\(name)" }
        for name in ["title", "subtitle", "body"] where content[name] != nil && content[name]?.stringValue == nil {
            return "content.\(name) is no text"
        }
        if let name = options.map(\.name).first(where: { !optionNames.contains($0) }) { return "options.\(name)" }
        guard options["priority"] == "high" || options["priority"] == "normal" else { return "options.priority" }
        guard let recipients = entry["recipients"]?.arrayValue, !recipients.isEmpty else { return "no recipients" }
        for recipient in recipients {
            guard recipient["id"]?.stringValue?.utf8.count == 36 else { return "a recipient without an id" }
            guard let to = recipient["to"]?.objectValue, !to.isEmpty,
                to.allSatisfy({ addresses.contains($0.name) }),
                (to["token"] == nil) == (to["service"] == nil)
            else { return "a recipient without an address" }
        }
        return nil
    }

    private func malformed(_ words: String) -> SandboxAnswer {
        withState { $0.counters.malformed += 1 }
        return problem(422, words)
    }

    private func problem(_ status: Int, _ words: String) -> SandboxAnswer {
        let body: JSONValue = ["status": .integer(Int64(status)), "detail": .string(words)]
        return SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "application/problem+json")],
            body: body.bytes
        )
    }
}

extension ServiceHandler.State {
    /// Decides about a message, once; returns nil when the answer leaves it out.
    fileprivate mutating func outcome(of recipient: JSONValue, _ message: JSONValue) -> JSONValue? {
        let id = recipient["id"]?.stringValue ?? ""
        if let known = decided[id] {
            counters.repeats += 1
            return known
        }
        let address = recipient["to"]?.objectValue?.first { $0.name != "service" }?.value.stringValue ?? ""
        var outcome: JSONObject = ["id": .string(id)]
        func refuse(_ kind: JSONValue, _ reason: JSONValue) {
            (outcome["outcome"], outcome["kind"], outcome["reason"]) = ("refused", kind, reason)
        }
        switch address.prefix(while: { $0 != "-" }) {
        case "gone": refuse("token", "gone")
        case "busy":
            refuse("platform", "busy")
            outcome["retry_after"] = 1
            return .object(outcome)  // Not recorded as decided: it may come again.
        case "fault": refuse("message", "no_such_template")
        case "closed": refuse("account", "closed")
        case "doubt": (outcome["outcome"], outcome["reason"]) = ("unknown", "no_answer_from_the_operator")
        case "silent": return nil
        default:
            outcome["outcome"] = "accepted"
            if message["options"]?["dry_run"]?.boolValue == true {
                counters.dryRuns += 1
                return .object(outcome)
            }
            outcome["platform_id"] = .string("s-\(id.prefix(8))")
            counters.messages += 1
            if taken.count < Self.maximumKept { taken.append(["message": message, "recipient": recipient]) }
        }
        if decided.count < Self.maximumKept { decided[id] = .object(outcome) }
        return .object(outcome)
    }
}
