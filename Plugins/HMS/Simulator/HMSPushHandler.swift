internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The push endpoint: sends of v1, v2 and v3, revocation of messages, topics, deletion of tokens.
///
/// The listener hands it every request. It finds the call of the path, and passes it to ``HMSSendHandler``; a fault
/// that a test has set precedes both.
struct HMSPushHandler: SandboxHandler {
    let service: HMSServiceState

    /// The call of a path: the version of a send, and the id in the path.
    enum Call {
        case send(version: Int, id: String)
        case topic(String, appID: String)
        case deleteToken(appID: String)
        case revoke(clientID: String)

        init?(_ path: String) {
            let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
            guard parts.count == 3, let version = parts.first, let last = parts.last else { return nil }
            let id = String(parts[parts.startIndex + 1])
            switch (version, last) {
            case ("v1", "messages:send"): self = .send(version: 1, id: id)
            case ("v2", "messages:send"): self = .send(version: 2, id: id)
            case ("v3", "messages:send"): self = .send(version: 3, id: id)
            case ("v1", "topic:subscribe"), ("v1", "topic:unsubscribe"), ("v1", "topic:list"):
                self = .topic(String(last.dropFirst("topic:".count)), appID: id)
            case ("v1", "token:delete"): self = .deleteToken(appID: id)
            case ("v1", "messages:revoke"): self = .revoke(clientID: id)
            default: return nil
            }
        }
    }

    func subject(of request: SandboxRequest) -> SandboxSubject {
        let body = try? JSONValue(parsing: request.body)
        let message = body?["message"] ?? body
        let token =
            message?["token"]?.arrayValue?.first?.stringValue
            ?? message?["target"]?["token"]?.arrayValue?.first?.stringValue
        return SandboxSubject(token: token, topic: message?["topic"]?.stringValue)
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        let id = service.withState { $0.makeRequestID(at: now) }
        guard let reason = fault.reason else { return fault.plain() }
        if let partial = HMSPartialFault(rawValue: reason) {
            let body = try? JSONValue(parsing: request.body)
            let tokens = (body?["message"]?["token"]?.arrayValue ?? []).compactMap(\.stringValue)
            return partial.answer(tokens, requestID: id)
        }
        if reason == "code_number" {
            return HMSAnswers.json(fault.status, ["code": 80_000_000, "msg": "Success", "requestId": .string(id)])
        }
        let body = HMSAnswers.make(HMSCode(reason, "injected"), status: fault.status, requestID: id).body
        return fault.plain(json: body)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        guard let call = Call(request.path) else { return SandboxReply(answer: SandboxAnswer(status: 404)) }
        guard request.method == "POST" else { return SandboxReply(answer: SandboxAnswer(status: 405)) }
        let settings = service.settings
        let receipts = service.receipts
        let (reply, owesReceipts) = service.withState { state in
            let id = state.makeRequestID(at: now)
            var handler = HMSSendHandler(
                settings: settings,
                request: request,
                requestID: id,
                now: now,
                receipts: receipts
            )
            var reply = SandboxReply()
            do throws(HMSCode) {
                reply.answer = try handler.answer(call, &state)
            } catch {
                let status = error.isAboutCredential ? settings.refusedCredentialStatus : settings.refusalStatus
                reply.answer = HMSAnswers.make(error, status: status, requestID: id)
                state.counters.answers[error.code, default: 0] += 1
            }
            if handler.delay > .zero { reply.before.append(.delay(handler.delay)) }
            return (reply, !state.owed.isEmpty)
        }
        if owesReceipts { service.signalReceipts() }
        return reply
    }
}

/// Odd forms of a partial success, by their names in fault rules (`reason`).
enum HMSPartialFault: String, CaseIterable {
    /// v3's form: an object of lists by reason.
    case reasons = "partial_reasons"
    /// The inner JSON is cut off.
    case broken = "partial_broken"
    /// The counts do not fit the list.
    case counts = "partial_counts"
    /// A token is listed that was not sent.
    case stranger = "partial_stranger"
    /// The correct form.
    case plain = "partial_plain"

    /// Returns an answer that refuses the first token.
    func answer(_ tokens: [String], requestID: String) -> SandboxAnswer {
        let first = tokens.first ?? ""
        switch self {
        case .plain, .reasons:
            return HMSAnswers.partial(
                [(first, "noPushTypeRight")],
                of: tokens.count,
                form: self == .plain ? .list : .reasons,
                requestID: requestID
            )
        case .broken:
            return HMSAnswers.partial(message: #"{"success":1,"failure":1,"illegal_tok"#, requestID: requestID)
        case .counts:
            let message: JSONValue = [
                "success": .integer(Int64(tokens.count)), "failure": 2, "illegal_tokens": [.string(first)],
            ]
            return HMSAnswers.partial(message: message.text, requestID: requestID)
        case .stranger:
            let message: JSONValue = [
                "success": .integer(Int64(tokens.count - 1)), "failure": 1, "illegal_tokens": ["nobody-sent-this"],
            ]
            return HMSAnswers.partial(message: message.text, requestID: requestID)
        }
    }
}
