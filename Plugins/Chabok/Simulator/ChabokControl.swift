internal import ChaparCore
internal import ChaparSimulator

/// The control API of the simulator of Chabok, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where both states listen |
/// | `GET /messages` | the messages of both states |
/// | `GET /installations` | the installations of both states |
/// | `GET /counters` | what happened |
/// | `POST /shape` | `{"shape": "count" \| "id_and_count" \| "array" \| "ids"}`: how sends are answered |
/// | and | those of ``HostControl`` |
struct ChabokControl: SimulatorControl {
    let simulator: ChabokSimulator

    var common: HostControl {
        let words = FaultVocabulary(
            listeners: [ChabokSimulator.sandbox, ChabokSimulator.production],
            foldsTokens: false
        )
        return HostControl(host: simulator.host, words: words)
    }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"):
            return [
                "sandbox": .string(simulator.url(ChabokSimulator.sandbox)),
                "production": .string(simulator.url(ChabokSimulator.production)),
            ]
        case ("GET", "/messages"):
            return byWorld { .array(simulator.messages($0).map(\.json)) }
        case ("GET", "/installations"):
            return byWorld { .array(simulator.installations($0).sorted { $0.key < $1.key }.map { .object($0.value) }) }
        case ("GET", "/counters"):
            var object = simulator.host.counters.json
            let taken =
                simulator.messages(ChabokSimulator.sandbox).count + simulator.messages(ChabokSimulator.production).count
            object["messages"] = .integer(Int64(taken))
            return .object(object)
        case ("POST", "/shape"):
            var fields = try ControlFields(try request.json(), in: "shape")
            let shape = try fields.require(try fields.choice("shape", ChabokSimulator.Shape.self), "shape")
            try fields.finish()
            simulator.rules.shape = shape
            return [:]
        default: return nil
        }
    }

    private func byWorld(_ value: (SandboxListener) -> JSONValue) -> JSONValue {
        ["sandbox": value(ChabokSimulator.sandbox), "production": value(ChabokSimulator.production)]
    }
}

extension ChabokSimulator.Message {
    fileprivate var json: JSONValue {
        [
            "id": .string(id), "user": .string(user), "devices": .integer(Int64(devices)), "body": .object(body),
        ]
    }
}
