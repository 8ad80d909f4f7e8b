internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The control API of the FCM simulator, under `/fcm`, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /fcm` | says where everything listens, the seed, the magic tokens, the project |
/// | `GET /fcm/credentials` | the service-account key file |
/// | `GET /fcm/inbox?from=0&limit=100` | accepted messages, oldest first; `next` is the next `from` |
/// | `GET /fcm/counters` | what happened |
/// | `POST /fcm/tokens` | makes tokens alive, unregistered, other_sender, malformed, broken_apple_key or unknown |
/// | `POST /fcm/oauth` | lifetime of access tokens, revocation, the account's state |
/// | `POST /fcm/quotas` | messages a minute: project, device, topics; `retry_after` |
/// | `POST /fcm/items` | what the Instance ID service says of single tokens, and results that it leaves out |
/// | `POST /fcm/reset` | forgets inbox, counters and rules |
/// | and those of ``HostControl`` | rules, goaway, settings, end |
struct FCMControl: SimulatorControl {
    private static let words = FaultVocabulary(listeners: FCMListener.allCases.map(\.name), foldsTokens: false)

    let simulator: FCMSimulator
    var common: HostControl { HostControl(host: simulator.host, words: Self.words) }
    var place: String { "/fcm" }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return overview
        case ("GET", "/credentials"): return (try? JSONValue(parsing: Array(simulator.credentialsFile.utf8))) ?? [:]
        case ("GET", "/inbox"): return request.page(of: simulator.inbox(from:limit:)) { ($0.number, $0.json) }
        case ("GET", "/counters"): return counters
        case ("POST", "/tokens"): return try setTokens(try request.json())
        case ("POST", "/oauth"): return try changeOAuth(try request.json())
        case ("POST", "/quotas"): return try setQuotas(try request.json())
        case ("POST", "/items"): return try setItems(try request.json())
        case ("POST", "/reset"):
            simulator.reset()
            return [:]
        default: return nil
        }
    }

    private var overview: JSONValue {
        var listeners = JSONObject()
        for listener in FCMListener.allCases { listeners[listener.rawValue] = .string(simulator.url(listener)) }
        return [
            "seed": .string("\(simulator.seed)"), "listeners": .object(listeners),
            "project_id": .string(simulator.account.projectID), "token_uri": .string(simulator.tokenURI),
            "magic_tokens": .array(FCMMagicToken.allCases.map { .string($0.rawValue) }),
        ]
    }

    private var counters: JSONValue {
        let counters = simulator.counters
        var object = simulator.host.counters.json
        let numbers: [(String, Int)] = [
            ("sends", counters.sends), ("accepted", counters.accepted),
            ("accepted_for_audience", counters.acceptedForAudience), ("validated", counters.validated),
            ("tokens_issued", counters.tokensIssued), ("instance_id_calls", counters.instanceIDCalls),
            ("duplicates", counters.duplicates), ("doubled_on_device", counters.doubledOnDevice),
        ]
        object.add(counts: numbers)
        object["refused"] = .object(JSONObject(counts: counters.refused))
        object["tokens_refused"] = .object(JSONObject(counts: counters.tokensRefused))
        return .object(object)
    }

    private func setTokens(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "tokens")
        let state = try fields.string("state") ?? "alive"
        let platform = try fields.string("platform") ?? "ANDROID"
        guard let tokens = fields.remove("tokens")?.arrayValue else {
            throw fields.wrong("tokens", "a list of strings")
        }
        try fields.finish()
        let device: FCMDevice? =
            switch state {
            case "alive": FCMDevice(platform: platform)
            case "unregistered": FCMDevice(state: .unregistered, platform: platform)
            case "other_sender": FCMDevice(state: .otherSender, platform: platform)
            case "malformed": FCMDevice(state: .malformed, platform: platform)
            case "broken_apple_key": FCMDevice(state: .brokenAppleKey, platform: platform)
            case "unknown": nil
            default:
                throw fields.wrong("state", "alive, unregistered, other_sender, malformed, broken_apple_key or unknown")
            }
        for token in tokens {
            guard let token = token.stringValue else { throw fields.wrong("tokens", "a list of strings") }
            simulator.setDevice(device, token: token)
        }
        return ["changed": .integer(Int64(tokens.count))]
    }

    private func changeOAuth(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "oauth")
        let lifetime = try fields.integer("lifetime")
        let omitsLifetime = try fields.bool("omit_lifetime")
        let revokes = try fields.bool("revoke")
        let isDisabled = try fields.bool("disabled")
        try fields.finish()
        if let lifetime { simulator.setTokenLifetime(lifetime) }
        if omitsLifetime == true { simulator.setTokenLifetime(nil) }
        if revokes == true { simulator.revokeAccessTokens() }
        if let isDisabled { simulator.setAccountDisabled(isDisabled) }
        return [:]
    }

    private func setQuotas(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "quotas")
        var quotas = FCMSimulatorConfiguration.Quotas()
        quotas.project = try fields.integer("project")
        quotas.device = try fields.integer("device")
        quotas.topics = try fields.integer("topics")
        quotas.retryAfter = try fields.integer("retry_after")
        try fields.finish()
        simulator.setQuotas(quotas)
        return [:]
    }

    private func setItems(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "items")
        let token = try fields.string("token")
        let error = try fields.string("error")
        let times = try fields.integer("times") ?? 1
        let missing = try fields.integer("missing_results")
        try fields.finish()
        if let token {
            guard let error else { throw fields.wrong("error", "a word such as NOT_FOUND") }
            simulator.setItemError(error, token: token, times: times)
        }
        if let missing { simulator.dropResults(missing) }
        return [:]
    }
}

extension FCMDelivery {
    /// The message as the control API returns it.
    var json: JSONValue {
        let kind =
            switch target {
            case .token: "token"
            case .fid: "fid"
            case .topic: "topic"
            case .condition: "condition"
            }
        return [
            "number": .integer(Int64(number)), "message_id": .string(messageID), "target": .string(kind),
            "value": .string(target.value), "message": message,
            "accepted_at": .integer(acceptedAt.millisecondsSince1970), "connection": .integer(Int64(connection)),
            "stream": .integer(Int64(stream)), "is_duplicate": .bool(isDuplicate),
        ]
    }
}
