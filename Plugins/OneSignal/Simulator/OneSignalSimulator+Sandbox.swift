internal import ChaparCore

extension OneSignalSimulator: SimulatedPlatform {
    var name: String { "onesignal" }

    var listeners: [(name: String, url: String)] { [("onesignal api", apiURL), ("onesignal idpush", idPushURL)] }

    var files: [SandboxFile] { [] }

    func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        let rules = rules
        let app: JSONObject = [
            "app_id": .string(rules.appID), "api_key": .string(rules.apiKey ?? ""), "base_url": .string(apiURL),
            "ca_file": .string(folder.ca), "allow_broadcast": true,
        ]
        var campaigns = SandboxBackend(name: "campaigns", keys: [("kind", "onesignal")])
        campaigns.keys += app.map { (key: $0.name, value: $0.value) }
        let idPush = SandboxBackend(
            name: "idpush",
            keys: [
                ("kind", "idpush"), ("project_id", .string(rules.projectID)), ("base_url", .string(idPushURL)),
                ("ca_file", .string(folder.ca)), ("onesignal", .object(app)),
            ]
        )
        return [campaigns, idPush]
    }

    /// | call | does |
    /// | --- | --- |
    /// | `GET /` | says where both listen |
    /// | `GET /players` | all players with their tags and what they have received |
    /// | `GET /messages` | all messages |
    /// | `GET /counters` | what happened |
    /// | `POST /players` | adds `{"count": n}` subscribed players |
    /// | `POST /subscribed` | `{"id": …, "subscribed": false}`: what the user does on the device |
    ///
    /// and those of ``HostControl``.
    func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        let words = FaultVocabulary(listeners: [Self.api, Self.idPush], foldsTokens: true)
        let common = HostControl(host: host, words: words)
        if let answer = try common.route(request) { return answer }
        switch (request.method, request.path) {
        case ("GET", "/"): return ["api": .string(apiURL), "idpush": .string(idPushURL)]
        case ("GET", "/players"): return ["players": .array(players.map { $0.json(tags(of: $0.id)) })]
        case ("GET", "/messages"): return ["messages": .array(messages.map(\.json))]
        case ("GET", "/counters"): return counters.json(host.counters.json)
        case ("POST", "/players"):
            var fields = try ControlFields(try request.json(), in: "players")
            let count = try fields.integer("count") ?? 1
            try fields.finish()
            guard (1...100_000).contains(count) else { throw ControlError("players.count: expected 1 to 100000") }
            return ["ids": .array(addPlayers(count).map { .string($0) })]
        case ("POST", "/subscribed"):
            var fields = try ControlFields(try request.json(), in: "subscribed")
            let id = try fields.require(try fields.string("id"), "id")
            let isSubscribed = try fields.bool("subscribed") ?? true
            try fields.finish()
            guard player(id) != nil else { throw ControlError("no such player", status: 404) }
            setSubscribed(isSubscribed, id)
            return [:]
        default: throw ControlError("no such call: \(request.method) \(request.path)", status: 404)
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
        for (name, value) in numbers { object[name] = .integer(Int64(value)) }
        return .object(object)
    }
}
