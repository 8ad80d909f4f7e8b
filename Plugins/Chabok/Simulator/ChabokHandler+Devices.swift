internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

extension ChabokHandler {
    func installations(_ call: Call) throws(Refusal) -> SandboxAnswer {
        switch (call.route, call.path.count) {
        case ("POST installations", 1): return try create(call)
        case ("GET installations/fetchById", 3): return try fetch(call.path[2])
        case ("GET installations/fetchByUserId", 3): return fetchAll(call.path[2])
        case ("GET installations/channels", 2): return Self.json(200, ["default"])
        case ("GET installations/tags", 2...3): return tags(of: call.path.count == 3 ? call.path[2] : nil)
        case ("GET installations/addTag", 4): return tag(call.path[2], [call.path[3]: ""])
        case ("GET installations/removeTag", 4): return tag(call.path[2], [call.path[3]: nil])
        case ("GET installations/v1", 6) where call.path[2...3] == ["uninstall", "report"]: return try report(call)
        case ("PUT installations/userInfo", 2): return try updateUserInfo(try object(call))
        case ("PUT " + call.path.joined(separator: "/"), 2): return try update(call)
        case ("DELETE " + call.path.joined(separator: "/"), 2): return try delete(call.path[1])
        case (let route, 2) where route.hasPrefix("POST "): return try post(call.path[1], call)
        default: throw Refusal(status: 404, message: "There is no method to handle \(call.route)")
        }
    }

    // MARK: Installations

    private func create(_ call: Call) throws(Refusal) -> SandboxAnswer {
        let fields = try object(call)
        for name in ["appId", "deviceToken", "deviceType"] where fields[name]?.stringValue?.isEmpty ?? true {
            throw Refusal(status: 422, name: "ValidationError", message: "The instance is not valid", fields: [name])
        }
        guard fields["appId"]?.stringValue == simulator.rules.appID else {
            throw Refusal(status: 404, message: "Unknown \"application\"")
        }
        let id = simulator.withState { $0.spaces[listener, default: .init()].addInstallation(fields) }
        return Self.json(200, ["id": .string(id), "created": .string(RFC3339.string(call.now))])
    }

    private func update(_ call: Call) throws(Refusal) -> SandboxAnswer {
        let fields = try object(call)
        let id = call.path[1]
        let isKnown = simulator.withState { state in
            guard let old = state.spaces[listener]?.installations[id] else { return false }
            state.spaces[listener]?.installations[id] = old.merging(fields)
            return true
        }
        guard isKnown else { throw Self.unknownInstallation(id) }
        return Self.json(200, ["id": .string(id)])
    }

    private func delete(_ id: String) throws(Refusal) -> SandboxAnswer {
        let isKnown = simulator.withState { $0.spaces[listener]?.installations.removeValue(forKey: id) != nil }
        guard isKnown else { throw Self.unknownInstallation(id) }
        return Self.json(200, ["count": 1])
    }

    private func fetch(_ id: String) throws(Refusal) -> SandboxAnswer {
        guard let found = simulator.installations(listener)[id] else { throw Self.unknownInstallation(id) }
        return Self.json(200, .object(found))
    }

    private func fetchAll(_ user: String) -> SandboxAnswer {
        let found = simulator.installations(listener).sorted { $0.key < $1.key }.map(\.value)
        return Self.json(200, .array(found.filter { $0["userId"]?.stringValue == user }.map { .object($0) }))
    }

    private func updateToken(_ fields: JSONObject) throws(Refusal) -> SandboxAnswer {
        let id = fields["installationId"]?.stringValue ?? ""
        guard let token = fields["deviceToken"], fields["deviceType"] != nil else {
            throw Refusal(status: 400, message: "deviceToken and deviceType are required")
        }
        let isKnown = simulator.withState { state in
            guard state.spaces[listener]?.installations[id] != nil else { return false }
            state.spaces[listener]?.installations[id]?["deviceToken"] = token
            return true
        }
        guard isKnown else { throw Self.unknownInstallation(id) }
        return Self.json(200, ["count": 1])
    }

    static func unknownInstallation(_ id: String) -> Refusal {
        Refusal(status: 404, message: "Unknown \"installation\" id \"\(id)\".")
    }

    // MARK: Tags, attributes, events

    private func post(_ name: String, _ call: Call) throws(Refusal) -> SandboxAnswer {
        if name == "trackBulk" { return try trackBulk(call) }
        let fields = try object(call)
        let user = fields["userId"]?.stringValue
        switch name {
        case "updateDeviceToken": return try updateToken(fields)
        case "addTags", "removeTags":
            guard let user, let tags = fields["tags"]?.arrayValue?.compactMap(\.stringValue), !tags.isEmpty else {
                throw Refusal(status: 400, message: "userId and tags are required")
            }
            return tag(user, Dictionary(tags.map { ($0, name == "addTags" ? "" : nil) }) { first, _ in first })
        case "addValueTag", "removeValueTag":
            guard let user, let tag = fields["tag"]?.stringValue else {
                throw Refusal(status: 400, message: "userId and tag are required")
            }
            let value = fields["value"]?.stringValue
            guard name == "removeValueTag" || value != nil else {
                throw Refusal(status: 400, message: "value is required")
            }
            return self.tag(user, [tag: name == "addValueTag" ? value : nil])
        case "attributes":
            guard fields["attributes"]?.objectValue != nil, user != nil || fields["installationId"] != nil else {
                throw Refusal(status: 400, message: "attributes and an owner are required")
            }
            setAttributes(fields["attributes"]?.objectValue ?? JSONObject()) { id, installation in
                id == fields["installationId"]?.stringValue
                    || user != nil && installation["userId"]?.stringValue == user
            }
            return Self.json(200, [:])
        case "incrementAttribute": return try increment(fields)
        case "track", "trackPurchase", "trackRevenue":
            try checkEvent(fields, name)
            return Self.json(200, ["queued": true])
        case "events":
            guard let id = fields["installationId"]?.stringValue, simulator.installations(listener)[id] != nil else {
                throw Self.unknownInstallation(fields["installationId"]?.stringValue ?? "")
            }
            guard fields["eventData"]?.arrayValue?.isEmpty == false else {
                throw Refusal(status: 400, message: "eventData is required")
            }
            return Self.json(200, [:])
        default: throw Refusal(status: 404, message: "There is no method to handle \(call.route)")
        }
    }

    /// Sets attributes on the installations that match.
    private func setAttributes(_ attributes: JSONObject, where isMeant: (String, JSONObject) -> Bool) {
        for (id, installation) in simulator.installations(listener) where isMeant(id, installation) {
            let info = (installation["userInfo"]?.objectValue ?? JSONObject()).merging(attributes)
            simulator.withState { $0.spaces[listener]?.installations[id]?["userInfo"] = .object(info) }
        }
    }

    private func userInfo(_ fields: JSONObject) throws(Refusal) -> (id: String, info: JSONObject) {
        let id = fields["installationId"]?.stringValue ?? ""
        guard let found = simulator.installations(listener)[id] else { throw Self.unknownInstallation(id) }
        return (id, found["userInfo"]?.objectValue ?? JSONObject())
    }

    private func updateUserInfo(_ fields: JSONObject) throws(Refusal) -> SandboxAnswer {
        var (id, info) = try userInfo(fields)
        guard let data = fields["data"]?.objectValue else { throw Refusal(status: 400, message: "data is required") }
        info = info.merging(data)
        for (name, key) in fields["__meta"]?["keys"]?.objectValue ?? JSONObject() {
            let values = key["value"]?.arrayValue ?? []
            let list = info[name]?.arrayValue ?? []
            switch key["operation"]?.stringValue {
            case "unset"?: info[name] = nil
            case "addToArray"?: info[name] = .array(list + values.filter { !list.contains($0) })
            case "removeFromArray"?: info[name] = .array(list.filter { !values.contains($0) })
            case nil where key["type"] == "date": break
            default: throw Refusal(status: 400, message: "operation of \(name)")
            }
        }
        simulator.withState { [info] in $0.spaces[listener]?.installations[id]?["userInfo"] = .object(info) }
        return Self.json(200, [:])
    }

    private func increment(_ fields: JSONObject) throws(Refusal) -> SandboxAnswer {
        var (id, info) = try userInfo(fields)
        guard let list = fields["attributes"]?.arrayValue, !list.isEmpty else {
            throw Refusal(status: 400, message: "attributes is required")
        }
        for entry in list {
            guard let name = entry["attribute"]?.stringValue, let amount = entry["value"]?.integerValue else {
                throw Refusal(status: 400, message: "attribute and value are required")
            }
            info[name] = .integer((info[name]?.integerValue ?? 0) &+ amount)
        }
        simulator.withState { [info] in $0.spaces[listener]?.installations[id]?["userInfo"] = .object(info) }
        return Self.json(200, [:])
    }

    /// Sets tags, or removes those without a value; the answer has the number of devices.
    private func tag(_ user: String, _ tags: [String: String?]) -> SandboxAnswer {
        let count = simulator.withState { state in
            for (name, value) in tags { state.spaces[listener]?.tags[user, default: [:]][name] = value }
            return state.spaces[listener]?.devices(of: user) ?? 0
        }
        return Self.json(200, ["count": .integer(Int64(count))])
    }

    private func tags(of user: String?) -> SandboxAnswer {
        let names = simulator.withState { state in
            let all = state.spaces[listener]?.tags ?? [:]
            return user.map { all[$0].map { Set($0.keys) } ?? [] } ?? Set(all.values.flatMap(\.keys))
        }
        return Self.json(200, .array(names.sorted().map { .string($0) }))
    }

    private func trackBulk(_ call: Call) throws(Refusal) -> SandboxAnswer {
        guard let list = call.body.arrayValue, (1...1000).contains(list.count) else {
            throw Refusal(status: 400, message: "1 to 1000 events")
        }
        for event in list { try checkEvent(event.objectValue ?? JSONObject(), "track") }
        return Self.json(200, ["queued": true, "n": .integer(Int64(list.count))])
    }

    private func checkEvent(_ event: JSONObject, _ call: String) throws(Refusal) {
        guard event["userId"] != nil || event["installationId"] != nil else {
            throw Refusal(status: 400, message: "userId or installationId is required")
        }
        let hasName = event["eventName"]?.stringValue?.isEmpty == false
        guard hasName == (call != "trackRevenue") else { throw Refusal(status: 400, message: "eventName") }
        switch event["revenue"] {
        case .integer?, .double?: break
        default:
            guard call == "track" else { throw Refusal(status: 400, message: "revenue is required") }
        }
        if let time = event["eventTime"], time.integerValue == nil {
            throw Refusal(status: 400, message: "eventTime is milliseconds")
        }
    }

    private func report(_ call: Call) throws(Refusal) -> SandboxAnswer {
        guard let from = Int64(call.path[4]), let to = Int64(call.path[5]) else {
            throw Refusal(status: 400, message: "from and to are milliseconds")
        }
        let offset = Int(call.query["offset"] ?? "0") ?? 0
        let limit = Int(call.query["limit"] ?? "25") ?? 25
        let rows = simulator.withState { $0.spaces[listener]?.uninstalls ?? [] }.filter { row in
            guard let time = row["time"]?.stringValue.flatMap(RFC3339.parse)?.millisecondsSince1970 else {
                return false
            }
            return from <= time && time <= to
        }
        let page = rows.dropFirst(offset).prefix(limit).map { JSONValue.object($0) }
        return Self.json(200, ["count": .integer(Int64(rows.count)), "data": .array(Array(page))])
    }

    private func object(_ call: Call) throws(Refusal) -> JSONObject {
        guard let fields = call.body.objectValue else { throw Refusal(status: 400, message: "The body is an object") }
        return fields
    }
}
