internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The universal listener of the RuStore simulator: `POST /v1/send` and `/v1/send/topic`.
///
/// The credential is in the body. Only the provider `rustore` is simulated; a second one is refused.
struct RuStoreUniversalHandler: SandboxHandler {
    let service: RuStoreServiceState

    func subject(of request: SandboxRequest) -> SandboxSubject {
        let body = try? JSONValue(parsing: request.body)
        return SandboxSubject(
            token: body?["tokens"]?["rustore"]?.arrayValue?.first?.stringValue,
            topic: body?["topic"]?.stringValue
        )
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        service.withState { state in
            state.counters.sends += 1
            do throws(RuStoreRefusal) {
                return SandboxReply(answer: try accept(request, at: now, &state))
            } catch {
                state.counters.refused[error.status, default: 0] += 1
                return SandboxReply(answer: error.answer(on: .universal, state.answers))
            }
        }
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        service.answer(fault, on: .universal, at: now)
    }

    private func accept(
        _ request: SandboxRequest,
        at now: Date,
        _ state: inout RuStoreState
    ) throws(RuStoreRefusal) -> SandboxAnswer {
        let isTopic = request.path == "/v1/send/topic"
        guard request.method == "POST", isTopic || request.path == "/v1/send" else { return RuStoreDirectHandler.lost }
        guard request.body.count <= RuStoreMessage.maximumBytes else { throw .validation("request is too big") }
        guard let body = (try? JSONValue(parsing: request.body))?.objectValue else {
            throw .validation("body is no JSON object")
        }
        let members = ["providers", "message", isTopic ? "topic" : "tokens"]
        if let name = body.map(\.name).first(where: { !members.contains($0) }) {
            throw .validation("\(name) is not supported")
        }
        try authorize(body["providers"])
        let message: RuStoreMessage
        do throws(RuStoreRuleMistake) {
            message = try RuStoreMessageRules.check(body["message"], needsBoth: true)
        } catch {
            throw .validation(error.words)
        }
        if isTopic {
            guard let topic = body["topic"]?.stringValue, !topic.isEmpty else {
                throw .validation("topic is a required field")
            }
            state.add(message, to: topic, isForTopic: true, at: now, by: .universal)
        } else {
            try deliver(message, body["tokens"], at: now, &state)
        }
        return state.answers.accepted(on: .universal)
    }

    private func authorize(_ providers: JSONValue?) throws(RuStoreRefusal) {
        guard let providers = providers?.objectValue, !providers.isEmpty else {
            throw .validation("providers is a required field")
        }
        if let name = providers.map(\.name).first(where: { $0 != "rustore" }) {
            throw .validation("providers.\(name) is not simulated")
        }
        for name in ["project_id", "auth_token"] where providers["rustore"]?[name]?.stringValue?.isEmpty ?? true {
            throw .validation("providers.rustore: \(name) is a required field")
        }
        let configuration = service.configuration
        guard providers["rustore"]?["project_id"]?.stringValue == configuration.projectID,
            providers["rustore"]?["auth_token"]?.stringValue == configuration.serviceToken
        else { throw .badServiceToken }
    }

    private func deliver(
        _ message: RuStoreMessage,
        _ tokens: JSONValue?,
        at now: Date,
        _ state: inout RuStoreState
    ) throws(RuStoreRefusal) {
        guard let tokens = tokens?.objectValue, tokens.count == 1, let list = tokens["rustore"]?.arrayValue,
            !list.isEmpty
        else { throw .validation("tokens.rustore is a required field") }
        var dead: [String] = []
        for value in list {
            guard let token = value.stringValue, !token.isEmpty else {
                throw .validation("tokens.rustore holds no strings")
            }
            switch try service.device(token, &state) {
            case .alive, .universal: state.add(message, to: token, isForTopic: false, at: now, by: .universal)
            case .dead, .unregistered, .malformed: dead.append(token)
            }
        }
        // The answer stands for all tokens of the request together.
        if let token = dead.first { throw .invalidToken(token) }
    }
}
