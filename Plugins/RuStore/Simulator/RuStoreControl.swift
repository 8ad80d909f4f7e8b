internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The control API of the RuStore simulator, under `/rustore`, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /rustore` | says where everything listens, the seed, the magic tokens, the project |
/// | `GET /rustore/inbox?from=0&limit=100` | accepted messages, oldest first; `next` is the next `from` |
/// | `GET /rustore/counters` | what happened |
/// | `POST /rustore/tokens` | makes tokens alive, dead, unregistered, malformed, universal or unknown |
/// | `POST /rustore/answers` | shapes: `errors`, `success`, `provider_code` |
/// | `POST /rustore/reset` | forgets inbox, counters and rules |
/// | and those of ``HostControl`` | rules, goaway, settings, end |
struct RuStoreControl: SimulatorControl {
    private static let words = FaultVocabulary(listeners: RuStoreListener.allCases.map(\.name), foldsTokens: false)

    let simulator: RuStoreSimulator
    var common: HostControl { HostControl(host: simulator.host, words: Self.words) }
    var place: String { "/rustore" }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return overview
        case ("GET", "/inbox"): return request.page(of: simulator.inbox(from:limit:)) { ($0.number, $0.json) }
        case ("GET", "/counters"): return counters
        case ("POST", "/tokens"): return try setTokens(try request.json())
        case ("POST", "/answers"): return try setAnswers(try request.json())
        case ("POST", "/reset"):
            simulator.reset()
            return [:]
        default: return nil
        }
    }

    private var overview: JSONValue {
        var listeners = JSONObject()
        for listener in RuStoreListener.allCases { listeners[listener.rawValue] = .string(simulator.url(listener)) }
        return [
            "seed": .string("\(simulator.seed)"), "listeners": .object(listeners),
            "project_id": .string(simulator.projectID),
            "magic_tokens": .array(RuStoreMagicToken.allCases.map { .string($0.rawValue) }),
        ]
    }

    private var counters: JSONValue {
        let counters = simulator.counters
        var object = simulator.host.counters.json
        let numbers: [(String, Int)] = [
            ("sends", counters.sends), ("accepted", counters.accepted),
            ("accepted_for_topics", counters.acceptedForTopics), ("thrown_away", counters.thrownAway),
            ("duplicates", counters.duplicates),
        ]
        object.add(counts: numbers)
        object["refused"] = .object(JSONObject(counts: counters.refused))
        return .object(object)
    }

    private func setTokens(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "tokens")
        let state = try fields.string("state") ?? "alive"
        guard let tokens = fields.remove("tokens")?.arrayValue else {
            throw fields.wrong("tokens", "a list of strings")
        }
        try fields.finish()
        let device = RuStoreDevice(rawValue: state)
        guard device != nil || state == "unknown" else {
            throw fields.wrong("state", "alive, dead, unregistered, malformed, universal or unknown")
        }
        for token in tokens {
            guard let token = token.stringValue else { throw fields.wrong("tokens", "a list of strings") }
            simulator.setDevice(device, token: token)
        }
        return ["changed": .integer(Int64(tokens.count))]
    }

    private func setAnswers(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "answers")
        var answers = simulator.answers
        if let word = try fields.string("errors") {
            guard let shape = RuStoreSimulatorConfiguration.Answers.ErrorShape(rawValue: word) else {
                throw fields.wrong("errors", "top or nested")
            }
            answers.errorShape = shape
        }
        if let word = try fields.string("success") {
            guard let success = RuStoreSimulatorConfiguration.Answers.Success(rawValue: word) else {
                throw fields.wrong("success", "documented, lowercase or empty")
            }
            answers.success = success
        }
        if let code = try fields.integer("provider_code") { answers.providerCode = code }
        try fields.finish()
        simulator.answers = answers
        return [:]
    }
}

extension RuStoreDelivery {
    /// The message as the control API returns it.
    var json: JSONValue {
        [
            "number": .integer(Int64(number)), "target": .string(isForTopic ? "topic" : "token"),
            "value": .string(target), "message": message, "ttl": .double(timeToLive),
            "listener": .string(listener.rawValue), "accepted_at": .integer(acceptedAt.millisecondsSince1970),
            "is_duplicate": .bool(isDuplicate),
        ]
    }
}
