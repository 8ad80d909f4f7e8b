internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The send listener of the FCM simulator: `POST /v1/projects/{project}/messages:send`.
///
/// Checks in Google's order: credential, JSON, message, device, quota; the first failure is the answer. A message that
/// passes goes into the inbox of the service, unless it is a dry run.
struct FCMSendHandler: SandboxHandler {
    let service: FCMServiceState

    func subject(of request: SandboxRequest) -> SandboxSubject {
        let message = (try? JSONValue(parsing: request.body))?["message"]
        return SandboxSubject(
            token: (message?["token"] ?? message?["fid"])?.stringValue,
            topic: message?["topic"]?.stringValue
        )
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        service.withState { state in
            state.counters.sends += 1
            do throws(FCMRefusal) {
                return try accept(request, at: now, &state)
            } catch {
                state.counters.refused[error.reason, default: 0] += 1
                return SandboxReply(answer: error.answer(shuffledBy: &state.random))
            }
        }
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        service.withState { state in
            guard fault.body == nil, fault.status >= 300 else { return fault.plain(now: now) }
            let refusal = FCMRefusal.named(fault.reason, status: fault.status)
            state.counters.refused[refusal.reason, default: 0] += 1
            return fault.plain(json: refusal.answer(shuffledBy: &state.random).body, now: now)
        }
    }

    private func accept(
        _ request: SandboxRequest,
        at now: Date,
        _ state: inout FCMState
    ) throws(FCMRefusal) -> SandboxReply {
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: false)
        guard request.method == "POST", parts.count == 5, parts[1] == "v1", parts[2] == "projects",
            parts[4] == "messages:send"
        else { return SandboxReply(answer: Self.lost) }
        try authorize(request, project: String(parts[3]), at: now, &state)
        guard let body = (try? JSONValue(parsing: request.body))?.objectValue else {
            throw .malformed("", "Expected an object")
        }
        var isDryRun = false
        for (name, value) in body where name != "message" {
            guard name == "validate_only" || name == "validateOnly", let flag = value.boolValue else {
                throw .malformed("", "Unknown name \"\(name)\": Cannot find field.")
            }
            isDryRun = flag
        }
        guard let value = body["message"] else { throw .invalid("message", "The message is not set.") }
        let (message, target) = try FCMMessageRules.check(value)
        let delay = try look(up: target, &state)
        if let exceeded = state.quotas.reserve(token: target.device, now: now) {
            var refusal = FCMRefusal.quota(exceeded)
            refusal.retryAfter = state.quotas.limits.retryAfter
            throw refusal
        }
        var id = "fake_message_id"
        if isDryRun {
            state.counters.validated += 1
        } else {
            id = Self.messageID(now, &state.random)
            let found = state.inbox.add(id, target, message, request, at: now)
            state.counters.accepted += 1
            if target.device == nil { state.counters.acceptedForAudience += 1 }
            if found.isDuplicate { state.counters.duplicates += 1 }
            if found.isDoubled { state.counters.doubledOnDevice += 1 }
        }
        let name: JSONValue = ["name": .string("projects/\(parts[3])/messages/\(id)")]
        let answer = SandboxAnswer(
            status: 200,
            headers: [HTTPHeader("content-type", "application/json; charset=UTF-8")],
            body: name.bytes
        )
        return SandboxReply(before: delay > .zero ? [.delay(delay)] : [], answer: answer)
    }

    private func authorize(
        _ request: SandboxRequest,
        project: String,
        at now: Date,
        _ state: inout FCMState
    ) throws(FCMRefusal) {
        let token = try service.bearer(of: request, at: now, state)
        let configuration = service.configuration
        if project == token.projectID { return }
        if project == configuration.projectNumber, token.projectID == configuration.projectID { return }
        throw configuration.foreignProjects.contains(project) || project == configuration.projectID
            ? .forbidden : .projectUnknown
    }

    /// Returns the delay of the target's answer; throws when the target takes no messages.
    private func look(
        up target: FCMDelivery.Target,
        _ state: inout FCMState
    ) throws(FCMRefusal) -> Duration {
        guard let token = target.device else { return .zero }
        if let device = state.devices[token] {
            switch device.state {
            case .alive: return .zero
            case .unregistered: throw device.platform == "IOS" ? .unregisteredOnApple : .unregistered
            case .otherSender: throw .senderMismatch
            case .malformed: throw .badToken
            case .brokenAppleKey: throw .thirdPartyAuth
            }
        }
        if service.configuration.honoursMagicTokens, let magic = FCMMagicToken(token) {
            switch magic {
            case .unregistered: throw .unregistered
            case .mismatch: throw .senderMismatch
            case .malformed: throw .badToken
            case .brokenAppleKey: throw .thirdPartyAuth
            case .quotaOnce:
                if state.magicSeen.insert(token) { throw .quota(.device) }
            case .unavailableOnce:
                if state.magicSeen.insert(token) { throw .named("UNAVAILABLE", status: 503) }
            case .slow: return service.configuration.magicDelay
            }
            return .zero
        }
        guard service.configuration.acceptsAnyToken else { throw .badToken }
        return .zero
    }

    private static func messageID(_ now: Date, _ random: inout SeededGenerator) -> String {
        let micros = Int64(clamping: now.timeIntervalSince1970 * 1_000_000)
        return "0:\(micros)%\(String(random.next(), radix: 16))"
    }

    /// The answer of Google's front end to an unknown path.
    static let lost = SandboxAnswer(
        status: 404,
        headers: [HTTPHeader("content-type", "text/html; charset=UTF-8")],
        body: Array("<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title></html>".utf8)
    )
}

extension FCMDelivery.Target {
    /// The token or installation ID; nil for a topic or condition.
    var device: String? {
        switch self {
        case .token(let value), .fid(let value): value
        case .topic, .condition: nil
        }
    }
}
