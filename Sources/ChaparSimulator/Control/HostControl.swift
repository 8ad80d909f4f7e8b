package import ChaparCore

/// The control calls that every simulator has, beside those of its own control.
///
/// | call | does |
/// | --- | --- |
/// | `GET, POST, DELETE /rules` | fault rules: one object or a list; `DELETE /rules?name=…` removes by name |
/// | `POST /goaway` | announces the end of open connections |
/// | `POST /settings` | stream limit of open connections, offset of the server's clock |
/// | `POST /end` | ends open connections: reset, fin, half_close, close |
package struct HostControl: Sendable {
    package let host: any SimulatorHost
    package let words: FaultVocabulary

    package init(host: any SimulatorHost, words: FaultVocabulary) {
        self.host = host
        self.words = words
    }

    /// Carries out a common call; returns nil for any other.
    package func route(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/rules"): return rules
        case ("POST", "/rules"): return try addRules(try request.json())
        case ("DELETE", "/rules"):
            return ["removed": .integer(Int64(host.removeRules(named: request.query["name"])))]
        case ("POST", "/goaway"): return try goAway(try request.json())
        case ("POST", "/settings"): return try changeSettings(try request.json())
        case ("POST", "/end"): return try end(try request.json())
        default: return nil
        }
    }

    private var rules: JSONValue {
        let list = host.rules.map { entry -> JSONValue in
            [
                "name": .string(entry.rule.name), "at": .string(entry.rule.point.rawValue),
                "steps": .integer(Int64(entry.rule.steps.count)), "fired": .integer(Int64(entry.fired)),
            ]
        }
        return ["rules": .array(list)]
    }

    private func addRules(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var rules: [FaultRule] = []
        for value in json.arrayValue ?? [json] { rules.append(try FaultRule(value, words)) }
        host.add(rules)
        return ["added": .integer(Int64(rules.count))]
    }

    private func goAway(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "goaway")
        let listener = try fields.listener(words.listeners)
        let connection = try fields.integer("connection")
        let frame = try SandboxGoAway(&fields)
        try fields.finish()
        host.perform([.goAway(frame)], listener: listener, connection: connection)
        return [:]
    }

    private func changeSettings(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "settings")
        let listener = try fields.listener(words.listeners)
        let connection = try fields.integer("connection")
        let streams = try fields.integer("maximum_streams")
        let offset = try fields.seconds("clock_offset")
        try fields.finish()
        if let streams {
            host.perform([.settings([.maximumStreams(streams)])], listener: listener, connection: connection)
        }
        if let offset { host.clockOffset = offset }
        return [:]
    }

    private func end(_ json: JSONValue) throws(ControlError) -> JSONValue {
        var fields = try ControlFields(json, in: "end")
        let listener = try fields.listener(words.listeners)
        let connection = try fields.integer("connection")
        let how = try fields.choice("how", SandboxConnectionEnd.self) ?? .close
        try fields.finish()
        host.perform([.end(how)], listener: listener, connection: connection)
        return [:]
    }
}

extension SandboxWebCounters {
    /// The counts of connections and requests, as members for a simulator's counters.
    package var json: JSONObject {
        let numbers: [(String, Int)] = [
            ("connection_attempts", connectionAttempts), ("connections_opened", connectionsOpened),
            ("connections_open", connectionsOpen), ("requests", requests),
            ("requests_over_http1", requestsOverHTTP1), ("streams_refused", streamsRefused),
            ("faults_injected", faultsInjected), ("go_aways", goAways), ("pings", pings),
        ]
        var object = JSONObject()
        object.add(counts: numbers)
        return object
    }
}
