internal import ChaparCore
internal import ChaparSimulator

/// The control API of the simulator of OneSignal and IDPush, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where both listen |
/// | `GET /players` | all players with their tags and what they have received |
/// | `GET /messages` | all messages |
/// | `GET /counters` | what happened |
/// | `POST /players` | adds `{"count": n}` subscribed players |
/// | `POST /subscribed` | `{"id": …, "subscribed": false}`: what the user does on the device |
/// | and | those of ``HostControl`` |
struct OneSignalControl: SimulatorControl {
    let simulator: OneSignalSimulator

    var common: HostControl {
        let words = FaultVocabulary(listeners: [OneSignalSimulator.api, OneSignalSimulator.idPush], foldsTokens: true)
        return HostControl(host: simulator.host, words: words)
    }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return ["api": .string(simulator.apiURL), "idpush": .string(simulator.idPushURL)]
        case ("GET", "/players"):
            return ["players": .array(simulator.players.map { $0.json(simulator.tags(of: $0.id)) })]
        case ("GET", "/messages"): return ["messages": .array(simulator.messages.map(\.json))]
        case ("GET", "/counters"): return simulator.counters.json(simulator.host.counters.json)
        case ("POST", "/players"):
            var fields = try ControlFields(try request.json(), in: "players")
            let count = try fields.integer("count") ?? 1
            try fields.finish()
            guard (1...100_000).contains(count) else { throw ControlError("players.count: expected 1 to 100000") }
            return ["ids": .array(simulator.addPlayers(count).map { .string($0) })]
        case ("POST", "/subscribed"):
            var fields = try ControlFields(try request.json(), in: "subscribed")
            let id = try fields.require(try fields.string("id"), "id")
            let isSubscribed = try fields.bool("subscribed") ?? true
            try fields.finish()
            guard simulator.player(id) != nil else { throw ControlError("no such player", status: 404) }
            simulator.setSubscribed(isSubscribed, id)
            return [:]
        default: return nil
        }
    }
}

extension OneSignalPlayer {
    fileprivate func json(_ tags: [String: String]) -> JSONValue {
        var names = JSONObject()
        for (name, value) in tags.sorted(by: { $0.key < $1.key }) { names[name] = .string(value) }
        return [
            "id": .string(id), "type": .string(type), "token": .string(token), "subscribed": .bool(isSubscribed),
            "notification_types": .integer(Int64(notificationTypes)), "tags": .object(names),
            "project": project.map { .string($0) } ?? .null, "received": .array(received.map { .string($0) }),
        ]
    }
}

extension OneSignalMessage {
    fileprivate var json: JSONValue {
        [
            "id": .string(id), "players": .integer(Int64(players.count)), "cancelled": .bool(isCancelled),
            "made_at": .integer(madeAt.millisecondsSince1970), "request": .object(request),
        ]
    }
}

extension OneSignalSimulator.Counters {
    fileprivate func json(_ common: JSONObject) -> JSONValue {
        var object = common
        let numbers: [(String, Int)] = [
            ("create_requests", createRequests), ("created", created), ("replayed", replayed), ("delivered", delivered),
            ("views", views), ("writes", writes), ("idpush_requests", idPushRequests),
        ]
        object.add(counts: numbers)
        return .object(object)
    }
}
