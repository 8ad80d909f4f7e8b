internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The Instance ID listener of the FCM simulator: look-up, topics, import of APNs tokens.
///
/// Source: Google, "Instance ID server reference", read 2026-08.
struct FCMInstanceIDHandler: SandboxHandler {
    private struct Refusal: Error {
        var status: Int
        var error: String
    }

    private static let maximumTopics = 2000

    let service: FCMServiceState

    func subject(of request: SandboxRequest) -> SandboxSubject {
        let parts = request.path.split(separator: "/")
        let token = parts.count >= 3 ? parts[2].removingPercentEncoding : nil
        return SandboxSubject(token: token, topic: (try? JSONValue(parsing: request.body))?["to"]?.stringValue)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        service.withState { state in
            state.counters.instanceIDCalls += 1
            do throws(Refusal) {
                return SandboxReply(answer: Self.json(200, try accept(request, at: now, &state)))
            } catch {
                return SandboxReply(answer: Self.json(error.status, ["error": .string(error.error)]))
            }
        }
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        let body = fault.reason.map { JSONValue.object(["error": .string($0)]).bytes } ?? []
        return fault.plain(json: body, now: now)
    }

    private func accept(
        _ request: SandboxRequest,
        at now: Date,
        _ state: inout FCMState
    ) throws(Refusal) -> JSONValue {
        do throws(FCMRefusal) {
            _ = try service.bearer(of: request, at: now, state)
        } catch {
            throw Refusal(status: 401, error: "InvalidTokenVersion")
        }
        guard request.header("access_token_auth") == "true" else { throw Refusal(status: 401, error: "Unauthorized") }
        let parts = request.path.split(separator: "/").map { $0.removingPercentEncoding ?? String($0) }
        switch (request.method, request.path) {
        case ("POST", "/iid/v1:batchAdd"): return try change(request, at: now, joins: true, &state)
        case ("POST", "/iid/v1:batchRemove"): return try change(request, at: now, joins: false, &state)
        case ("POST", "/iid/v1:batchImport"): return try importTokens(request, &state)
        case ("GET", _) where parts.count == 3 && parts[0] == "iid" && parts[1] == "info":
            return try info(parts[2], details: request.query == "details=true", state)
        case ("POST", _) where parts.count == 6 && parts[0] == "iid" && parts[3] == "rel" && parts[4] == "topics":
            if let error = join(parts[2], parts[5], at: now, &state) {
                throw Refusal(status: error == "NOT_FOUND" ? 404 : 400, error: error)
            }
            return [:]
        default: throw Refusal(status: 404, error: "NotFound")
        }
    }

    // MARK: Look-up

    private func info(_ token: String, details: Bool, _ state: FCMState) throws(Refusal) -> JSONValue {
        guard let device = device(token, state) else {
            throw Refusal(status: 404, error: "No information found about this instance id.")
        }
        switch device.state {
        case .unregistered: throw Refusal(status: 404, error: "No information found about this instance id.")
        case .malformed: throw Refusal(status: 400, error: "InvalidToken")
        case .alive, .otherSender, .brokenAppleKey: break
        }
        let isOwn = device.state != .otherSender
        var answer: JSONObject = [
            "application": .string(device.application), "platform": .string(device.platform),
            "authorizedEntity": .string(isOwn ? service.configuration.projectNumber : "271828182845"),
            "applicationVersion": "1", "appSigner": "1a2bc3d4e5",
        ]
        if details {
            var topics = JSONObject()
            for (topic, members) in state.topics.sorted(by: { $0.key < $1.key }) {
                guard let date = members[token] else { continue }
                topics[topic] = ["addDate": .string(String(RFC3339.string(date).prefix(10)))]
            }
            if !topics.isEmpty { answer["rel"] = ["topics": .object(topics)] }
        }
        return .object(answer)
    }

    /// Returns the data of a token: registered ones, magic ones and, when any token is accepted, all others.
    private func device(_ token: String, _ state: FCMState) -> FCMDevice? {
        if let device = state.devices[token] { return device }
        if service.configuration.honoursMagicTokens, let magic = FCMMagicToken(token) {
            switch magic {
            case .unregistered: return FCMDevice(state: .unregistered)
            case .mismatch: return FCMDevice(state: .otherSender)
            case .malformed: return FCMDevice(state: .malformed)
            case .quotaOnce, .unavailableOnce, .slow, .brokenAppleKey: return FCMDevice()
            }
        }
        return service.configuration.acceptsAnyToken ? FCMDevice() : nil
    }

    // MARK: Topics

    private func change(
        _ request: SandboxRequest,
        at now: Date,
        joins: Bool,
        _ state: inout FCMState
    ) throws(Refusal) -> JSONValue {
        let body = try? JSONValue(parsing: request.body)
        guard let to = body?["to"]?.stringValue, to.hasPrefix("/topics/"), to.utf8.count > 8,
            to.dropFirst(8).utf8.allSatisfy(FCMTopicRules.isNameByte)
        else { throw Refusal(status: 400, error: "InvalidTopicName") }
        guard let tokens = body?["registration_tokens"]?.arrayValue, (1...1000).contains(tokens.count) else {
            throw Refusal(status: 400, error: "InvalidRequest")
        }
        let topic = String(to.dropFirst(8))
        var results: [JSONValue] = []
        for token in tokens {
            let token = token.stringValue ?? ""
            let error: String?
            if joins {
                error = join(token, topic, at: now, &state)
            } else {
                error = problem(token, &state)
                if error == nil { state.topics[topic]?[token] = nil }
            }
            results.append(error.map { ["error": .string($0)] } ?? [:])
        }
        if state.missingResults > 0 {
            results.removeLast(min(state.missingResults, results.count))
            state.missingResults = 0
        }
        return ["results": .array(results)]
    }

    private func join(_ token: String, _ topic: String, at now: Date, _ state: inout FCMState) -> String? {
        if let problem = problem(token, &state) { return problem }
        let isMember = state.topics[topic]?[token] != nil
        if !isMember, state.topics.values.count(where: { $0[token] != nil }) >= Self.maximumTopics {
            return "TOO_MANY_TOPICS"
        }
        if !isMember { state.topics[topic, default: [:]][token] = now }
        return nil
    }

    private func problem(_ token: String, _ state: inout FCMState) -> String? {
        if var planned = state.itemErrors[token] {
            planned.times -= 1
            state.itemErrors[token] = planned.times > 0 ? planned : nil
            return planned.word
        }
        switch device(token, state)?.state {
        case .alive?, .brokenAppleKey?: return nil
        case .unregistered?: return "NOT_FOUND"
        case .otherSender?: return "PERMISSION_DENIED"
        case .malformed?, nil: return "INVALID_ARGUMENT"
        }
    }

    // MARK: Import

    private func importTokens(_ request: SandboxRequest, _ state: inout FCMState) throws(Refusal) -> JSONValue {
        let body = try? JSONValue(parsing: request.body)
        guard let application = body?["application"]?.stringValue, body?["sandbox"]?.boolValue != nil,
            let tokens = body?["apns_tokens"]?.arrayValue, (1...100).contains(tokens.count)
        else { throw Refusal(status: 400, error: "InvalidRequest") }
        var results: [JSONValue] = []
        for token in tokens {
            let token = token.stringValue ?? ""
            if var planned = state.itemErrors[token] {
                planned.times -= 1
                state.itemErrors[token] = planned.times > 0 ? planned : nil
                results.append(["apns_token": .string(token), "status": .string(planned.word)])
                continue
            }
            guard HexText.normalised(Substring(token)) != nil else {
                results.append(["apns_token": .string(token), "status": "INVALID_ARGUMENT"])
                continue
            }
            let registration = "imported:APA91b" + String(token.lowercased().reversed())
            state.devices[registration] = FCMDevice(platform: "IOS", application: application)
            results.append([
                "apns_token": .string(token), "status": "OK", "registration_token": .string(registration),
            ])
        }
        results.shuffle(using: &state.random)
        return ["results": .array(results)]
    }

    private static func json(_ status: Int, _ body: JSONValue) -> SandboxAnswer {
        SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "application/json; charset=UTF-8")],
            body: body.bytes
        )
    }
}
