internal import ChaparCore

extension ChabokSimulator: SimulatedPlatform {
    var name: String { "chabok" }

    var listeners: [(name: String, url: String)] {
        [("chabok sandbox", url(Self.sandbox)), ("chabok production", url(Self.production))]
    }

    var files: [SandboxFile] { [] }

    func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: "chabok",
                keys: [
                    ("kind", "chabok"), ("environment", "sandbox"), ("app_id", .string(rules.appID)),
                    ("access_token", .string(rules.accessTokens[Self.sandbox] ?? "")),
                    ("base_url", .string(url(Self.sandbox))), ("ca_file", .string(folder.ca)),
                    ("app_name", "Chapar"), ("probe_interval", 0), ("forward_clicks", true),
                    ("webhook_secret", .string(webhookSecret)), ("allow_broadcast", true),
                ]
            )
        ]
    }

    /// | call | does |
    /// | --- | --- |
    /// | `GET /` | says where both worlds listen |
    /// | `GET /messages` | the messages of both worlds |
    /// | `GET /installations` | the installations of both worlds |
    /// | `GET /counters` | what happened |
    /// | `POST /shape` | `{"shape": "count" \| "id_and_count" \| "array" \| "ids"}`: how sends are answered |
    ///
    /// and those of ``HostControl``.
    func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        let words = FaultVocabulary(listeners: [Self.sandbox, Self.production], foldsTokens: false)
        let common = HostControl(host: host, words: words)
        if let answer = try common.route(request) { return answer }
        switch (request.method, request.path) {
        case ("GET", "/"): return ["sandbox": .string(url(Self.sandbox)), "production": .string(url(Self.production))]
        case ("GET", "/messages"):
            return byWorld { .array(self.messages($0).map(\.json)) }
        case ("GET", "/installations"):
            return byWorld { .array(self.installations($0).sorted { $0.key < $1.key }.map { .object($0.value) }) }
        case ("GET", "/counters"):
            var object = host.counters.json
            let taken = messages(Self.sandbox).count + messages(Self.production).count
            object["messages"] = .integer(Int64(taken))
            return .object(object)
        case ("POST", "/shape"):
            var fields = try ControlFields(try request.json(), in: "shape")
            let shape = try fields.require(try fields.choice("shape", Shape.self), "shape")
            try fields.finish()
            rules.shape = shape
            return [:]
        default: throw ControlError("no such call: \(request.method) \(request.path)", status: 404)
        }
    }

    private func byWorld(_ value: (SandboxListener) -> JSONValue) -> JSONValue {
        ["sandbox": value(Self.sandbox), "production": value(Self.production)]
    }
}

extension ChabokSimulator.Message {
    fileprivate var json: JSONValue {
        [
            "id": .string(id), "user": .string(user), "devices": .integer(Int64(devices)), "body": .object(body),
        ]
    }
}
