internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The direct listener of the RuStore simulator: `POST /v1/projects/{project}/messages:send`.
///
/// Checks the credential, the project, the JSON, the message and the token, in this order; the first failure is the
/// answer.
struct RuStoreDirectHandler: SandboxHandler {
    let service: RuStoreServiceState

    func subject(of request: SandboxRequest) -> SandboxSubject {
        SandboxSubject(token: (try? JSONValue(parsing: request.body))?["message"]?["token"]?.stringValue)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        service.withState { state in
            state.counters.sends += 1
            do throws(RuStoreRefusal) {
                return SandboxReply(answer: try accept(request, at: now, &state))
            } catch {
                state.counters.refused[error.status, default: 0] += 1
                return SandboxReply(answer: error.answer(on: .direct, state.answers))
            }
        }
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        service.answer(fault, on: .direct, at: now)
    }

    private func accept(
        _ request: SandboxRequest,
        at now: Date,
        _ state: inout RuStoreState
    ) throws(RuStoreRefusal) -> SandboxAnswer {
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: false)
        guard request.method == "POST", parts.count == 5, parts[1] == "v1", parts[2] == "projects",
            parts[4] == "messages:send"
        else { return Self.lost }
        guard request.header("authorization") == "Bearer \(service.configuration.serviceToken)",
            parts[3] == service.configuration.projectID
        else { throw .forbidden }
        guard let body = (try? JSONValue(parsing: request.body))?.objectValue else {
            throw .invalid("The body is no JSON object")
        }
        if let name = body.map(\.name).first(where: { $0 != "message" }) { throw .invalid("\(name) is not supported") }
        let message: RuStoreMessage
        do throws(RuStoreRuleMistake) {
            message = try RuStoreMessageRules.check(body["message"], target: "token", needsBoth: false)
        } catch {
            throw .invalid(error.words)
        }
        guard let token = message.value["token"]?.stringValue, !token.isEmpty else {
            throw .invalid("message.token is not set")
        }
        switch try service.device(token, &state) {
        case .alive: state.add(message, to: token, isForTopic: false, at: now, by: .direct)
        case .universal: state.counters.thrownAway += 1
        case .dead: throw .notFound
        case .unregistered: throw .unregistered
        case .malformed: throw .badToken
        }
        return state.answers.accepted(on: .direct)
    }

    /// The answer of the front end to an unknown path.
    static let lost = SandboxAnswer(
        status: 404,
        headers: [HTTPHeader("content-type", "text/html; charset=utf-8")],
        body: Array("<html><head><title>404 Not Found</title></head></html>".utf8)
    )
}

extension RuStoreServiceState {
    /// Returns the answer that a fault rule asks for, in the shape of a listener's API.
    func answer(_ fault: FaultAnswer, on listener: RuStoreListener, at now: Date) -> SandboxAnswer {
        withState { state in
            guard fault.body == nil, fault.status >= 300 else { return fault.plain(now: now) }
            let refusal = RuStoreRefusal.named(fault.reason, status: fault.status)
            state.counters.refused[refusal.status, default: 0] += 1
            return fault.plain(json: refusal.answer(on: listener, state.answers).body, now: now)
        }
    }
}
