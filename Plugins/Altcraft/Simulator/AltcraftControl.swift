internal import ChaparCore
internal import ChaparSimulator

/// The control API of the simulator of Altcraft, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where it listens |
/// | `GET /profiles` | all profiles with their fields and subscriptions |
/// | `GET /events` | the deliveries and openings that were told, and events of the app's own |
/// | `GET /launches` | the campaigns that were started |
/// | `GET /counters` | what happened |
/// | and | those of ``HostControl`` |
struct AltcraftControl: SimulatorControl {
    let simulator: AltcraftSimulator

    var common: HostControl {
        let words = FaultVocabulary(listeners: [AltcraftSimulator.pixel], foldsTokens: false)
        return HostControl(host: simulator.host, words: words)
    }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return ["api": .string(simulator.url)]
        case ("GET", "/profiles"): return ["profiles": .array(simulator.profiles.map(\.json))]
        case ("GET", "/events"):
            let list = simulator.events.map { event -> JSONValue in
                [
                    "smid": .string(event.smid), "type": .string(event.type), "time": .integer(event.time),
                    "count": .integer(Int64(event.count)),
                ]
            }
            let own = simulator.mobileEvents.map { event -> JSONValue in
                [
                    "name": .string(event.name), "pixel": .string(event.pixel), "time": .integer(event.time),
                    "data": event.values["wd"] ?? [:], "count": .integer(Int64(event.count)),
                ]
            }
            return ["events": .array(list), "mobile_events": .array(own)]
        case ("GET", "/launches"):
            let list = simulator.launches.map { launch -> JSONValue in
                ["request": .object(launch.request), "reached": .integer(Int64(launch.reached))]
            }
            return ["launches": .array(list)]
        case ("GET", "/counters"):
            var object = simulator.host.counters.json
            object["api_requests"] = .integer(Int64(simulator.counters.requests))
            object["refused"] = .integer(Int64(simulator.counters.refused))
            return .object(object)
        default: return nil
        }
    }
}

extension AltcraftProfile {
    fileprivate var json: JSONValue {
        let list = subscriptions.map { entry -> JSONValue in
            var object = entry.json.objectValue ?? JSONObject()
            object["received"] = .array(entry.received.map { .string($0) })
            return .object(object)
        }
        return [
            "id": .string(id), "db_id": .integer(databaseID), "key": key.map { .string($0) } ?? .null,
            "fields": .object(fields), "subscriptions": .array(list),
        ]
    }
}
