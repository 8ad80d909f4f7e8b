internal import ChaparCore
internal import ChaparSimulator

/// The control API of the simulator of a custom service, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where it listens |
/// | `GET /counters` | what happened |
/// | `GET /taken` | the messages that were taken |
/// | and | those of ``HostControl`` |
struct ServiceControl: SimulatorControl {
    let simulator: ServiceSimulator

    var common: HostControl {
        let words = FaultVocabulary(listeners: [ServiceSimulator.listener], foldsTokens: false)
        return HostControl(host: simulator.host, words: words)
    }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return ["service": .string(simulator.url)]
        case ("GET", "/taken"): return .array(simulator.taken)
        case ("GET", "/counters"):
            let seen = simulator.counters
            var object = simulator.host.counters.json
            let numbers: [(String, Int)] = [
                ("batches", seen.batches), ("messages", seen.messages), ("repeats", seen.repeats),
                ("dry_runs", seen.dryRuns), ("unsigned", seen.unsigned), ("malformed", seen.malformed),
            ]
            object.add(counts: numbers)
            return .object(object)
        default: return nil
        }
    }
}
