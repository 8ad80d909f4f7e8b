internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The control API of the HMS simulator, under `/hms`, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where everything listens, the seed, the magic tokens |
/// | `GET /inbox?from=0&limit=100` | accepted messages, oldest first; `next` is the next `from` |
/// | `GET /counters` | what happened |
/// | `POST /tokens` | makes device tokens `alive`, `refused` (with `reason`) or `unknown`; `apple`, `harmony` |
/// | `POST /access` | `{"do":"revoke"}` or `{"do":"expire"}`: ends all access tokens |
/// | `POST /limits` | `devices_per_second`, `retry_after`, `urgent_right`, `token_lifetime`: changes the rules |
/// | `POST /receipts` | `url`, `signature`, `form`, `doubled`, `reversed`, `delay`, `statuses`: how receipts are sent |
/// | `POST /reset` | forgets inbox, counters and rules |
/// | and | those of every simulated web service: `/rules`, `/goaway`, `/settings`, `/end` |
struct HMSControl: SimulatorControl {
    let simulator: HMSSimulator
    let common: HostControl
    var place: String { "/hms" }

    init(simulator: HMSSimulator) {
        self.simulator = simulator
        let words = FaultVocabulary(listeners: [HMSSimulator.push, HMSSimulator.token], foldsTokens: false)
        common = HostControl(host: simulator.host, words: words)
    }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return overview
        case ("GET", "/inbox"): return request.page(of: simulator.inbox(from:limit:)) { ($0.number, $0.json) }
        case ("GET", "/counters"): return .object(counters)
        case ("POST", "/tokens"): return try setTokens(try request.json())
        case ("POST", "/access"): return try endAccess(try request.json())
        case ("POST", "/limits"): return try setLimits(try request.json())
        case ("POST", "/receipts"): return try setReceipts(try request.json())
        case ("POST", "/reset"):
            simulator.reset()
            return [:]
        default: return nil
        }
    }

    private var overview: JSONValue {
        [
            "seed": .string("\(simulator.seed)"),
            "listeners": [
                "push": .string(simulator.url(HMSSimulator.push)), "token": .string(simulator.url(HMSSimulator.token)),
            ],
            "app_id": .string(simulator.app.appID), "project_id": .string(simulator.app.projectID),
            "magic_tokens": .array(HMSMagicToken.prefixes.map { .string($0) }),
        ]
    }

    private var counters: JSONObject {
        let counters = simulator.counters
        var object = simulator.host.counters.json
        let numbers: [(String, Int)] = [
            ("tokens_issued", counters.tokensIssued), ("tokens_refused", counters.tokensRefused),
            ("sends", counters.sends), ("accepted", counters.accepted), ("duplicates", counters.duplicates),
            ("validated", counters.validated), ("revocations", counters.revocations), ("revoked", counters.revoked),
            ("callbacks", counters.callbacks), ("callbacks_taken", counters.callbacksTaken),
            ("callbacks_lost", counters.callbacksLost),
        ]
        object.add(counts: numbers)
        object["answers"] = .object(JSONObject(counts: counters.answers))
        return object
    }

    private func setTokens(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "tokens")
        let state = try fields.string("state") ?? "alive"
        let reason = try fields.string("reason") ?? "tokenFormatError"
        let isApple = try fields.bool("apple") ?? false
        let isHarmony = try fields.bool("harmony") ?? false
        let appID = try fields.string("app_id")
        guard let list = fields.remove("tokens")?.arrayValue else { throw fields.wrong("tokens", "a list of strings") }
        try fields.finish()
        let device: HMSDevice? =
            switch state {
            case "alive": HMSDevice(appID: appID, isApple: isApple, isHarmony: isHarmony)
            case "refused":
                HMSDevice(
                    appID: appID,
                    state: .refused(reason: reason),
                    isApple: isApple,
                    isHarmony: isHarmony
                )
            case "unknown": nil
            default: throw fields.wrong("state", "alive, refused or unknown")
            }
        var tokens: [String] = []
        for token in list {
            guard let token = token.stringValue else { throw fields.wrong("tokens", "a list of strings") }
            tokens.append(token)
        }
        simulator.setDevice(device, tokens: tokens)
        return ["changed": .integer(Int64(tokens.count))]
    }

    private func endAccess(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "access")
        switch try fields.string("do") {
        case "revoke"?: simulator.revokeTokens()
        case "expire"?: simulator.expireTokens()
        default: throw fields.wrong("do", "revoke or expire")
        }
        try fields.finish()
        return [:]
    }

    private func setLimits(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "limits")
        let perSecond = try fields.integer("devices_per_second")
        let retryAfter = try fields.integer("retry_after")
        let right = try fields.bool("urgent_right")
        let lifetime = try fields.seconds("token_lifetime")
        try fields.finish()
        var settings = simulator.settings
        // 0 removes a limit.
        if let perSecond { settings.devicesPerSecond = perSecond > 0 ? perSecond : nil }
        if let retryAfter { settings.flowRetryAfter = retryAfter > 0 ? retryAfter : nil }
        if let right { settings.hasUrgentRight = right }
        if let lifetime { settings.tokenLifetime = lifetime }
        simulator.settings = settings
        return [:]
    }

    private func setReceipts(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "receipts")
        var plan = HMSReceiptPlan(url: try fields.string("url"))
        plan.signature = try fields.choice("signature", HMSReceiptPlan.Signature.self) ?? .right
        plan.form = try fields.choice("form", HMSReceiptPlan.Form.self) ?? .new
        plan.isDoubled = try fields.bool("doubled") ?? false
        plan.isReversed = try fields.bool("reversed") ?? false
        if let delay = try fields.seconds("delay") { plan.delay = delay }
        if let statuses = fields.remove("statuses")?.objectValue {
            for (token, status) in statuses {
                guard let status = status.integerValue else { throw fields.wrong("statuses", "numbers by token") }
                plan.statuses[token] = Int(status)
            }
        }
        try fields.finish()
        simulator.receipts = plan
        return [:]
    }
}

extension HMSDelivery {
    /// The message as the control API returns it.
    var json: JSONValue {
        [
            "number": .integer(Int64(number)), "request_id": .string(requestID), "token": .string(token),
            "topic": .string(topic), "tag": tag.map { .string($0) } ?? .null, "message": .string(message),
            "batch": .integer(Int64(batch)), "accepted_at": .integer(acceptedAt.millisecondsSince1970),
            "is_duplicate": .bool(isDuplicate), "is_revoked": .bool(isRevoked),
        ]
    }
}
