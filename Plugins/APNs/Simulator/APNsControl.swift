internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The control API of the APNs simulator, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where everything listens, the seed, the magic tokens |
/// | `GET /inbox?from=0&limit=100` | accepted pushes, oldest first; `next` is the next `from` |
/// | `GET /counters` | what happened |
/// | `POST /tokens` | makes device tokens known, unregistered, expired, offline or unknown |
/// | `POST /reset` | forgets inbox, counters and rules |
/// | and | those of ``HostControl`` |
struct APNsControl: SimulatorControl {
    let simulator: APNsSimulator

    var common: HostControl { HostControl(host: simulator, words: .apns) }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return overview
        case ("GET", "/inbox"): return request.page(of: simulator.inbox(from:limit:)) { ($0.number, $0.json) }
        case ("GET", "/counters"): return simulator.counters.json
        case ("POST", "/tokens"): return try setTokens(try request.json())
        case ("POST", "/reset"):
            simulator.reset()
            return [:]
        default: return nil
        }
    }

    private var overview: JSONValue {
        var listeners = JSONObject()
        for listener in APNsListener.allCases { listeners[listener.rawValue] = .string(simulator.url(listener)) }
        return [
            "seed": .string("\(simulator.seed)"), "listeners": .object(listeners),
            "magic_tokens": .array(APNsMagicToken.allCases.map { .string($0.rawValue) }),
        ]
    }

    private func setTokens(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "tokens")
        let environment = try fields.choice("environment", APNsEnvironment.self) ?? .production
        let topic = try fields.string("topic")
        let state = try fields.string("state") ?? "registered"
        let time = try fields.integer("at").map { Date(millisecondsSince1970: Int64($0)) } ?? simulator.service.now
        let isOnline = try fields.bool("online") ?? true
        guard let tokens = fields.remove("tokens")?.arrayValue else {
            throw fields.wrong("tokens", "a list of strings")
        }
        try fields.finish()
        let device: APNsDevice? =
            switch state {
            case "registered": APNsDevice(topic: topic, isOnline: isOnline)
            case "unregistered": APNsDevice(topic: topic, state: .unregistered(since: time), isOnline: isOnline)
            case "expired": APNsDevice(topic: topic, state: .expired(since: time), isOnline: isOnline)
            case "unknown": nil
            default: throw fields.wrong("state", "registered, unregistered, expired or unknown")
            }
        for token in tokens {
            guard let token = token.stringValue else { throw fields.wrong("tokens", "a list of strings") }
            simulator.setDevice(device, token: token, environment: environment)
            if isOnline { simulator.setOnline(true, token: token, environment: environment) }
        }
        return ["changed": .integer(Int64(tokens.count))]
    }
}

extension FaultVocabulary {
    /// The names of the APNs simulator.
    static let apns = FaultVocabulary(listeners: APNsListener.allCases.map(\.name), foldsTokens: true)
}

extension APNsDelivery {
    /// The push as the control API returns it.
    var json: JSONValue {
        var fields = JSONObject()
        for header in headers { fields[header.name] = .string(header.value) }
        return [
            "number": .integer(Int64(number)), "environment": .string(environment.rawValue),
            "apns_id": .string(apnsID), "token": .string(token), "topic": .string(topic), "headers": .object(fields),
            "payload": .string(String(decoding: payload, as: UTF8.self)),
            "accepted_at": .integer(acceptedAt.millisecondsSince1970), "connection": .integer(Int64(connection)),
            "stream": .integer(Int64(stream)), "is_duplicate_id": .bool(isDuplicateID),
            "is_duplicate_content": .bool(isDuplicateContent), "presentation": .string(presentation.rawValue),
        ]
    }
}

extension APNsCounters {
    /// The counters as the control API returns them.
    var json: JSONValue {
        let numbers: [(String, Int)] = [
            ("connection_attempts", connectionAttempts), ("connections_turned_away", connectionsTurnedAway),
            ("connections_opened", connectionsOpened), ("connections_open", connectionsOpen), ("requests", requests),
            ("accepted", accepted), ("streams_refused", streamsRefused), ("faults_injected", faultsInjected),
            ("go_aways", goAways), ("pings", pings), ("duplicate_ids", duplicateIDs),
            ("duplicate_contents", duplicateContents), ("doubled_on_device", doubledOnDevice), ("collapsed", collapsed),
            ("broadcasts", broadcasts),
        ]
        var object = JSONObject()
        object.add(counts: numbers)
        object["refused"] = .object(JSONObject(counts: refused))
        return .object(object)
    }
}
