internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// Users with their subscriptions, and the legacy players.
extension OneSignalHandler {
    private static let types: Set<String> = [
        "iOSPush", "AndroidPush", "HuaweiPush", "FireOSPush", "WindowsPush", "macOSPush", "ChromePush", "FirefoxPush",
        "SafariPush",
    ]
    private static let limit = 20
    private static let impossible: Set<String> = ["", "null", "NA", "undefined", "0", "-1"]

    func users(_ call: Call) throws(Refusal) -> SandboxAnswer {
        let rest = Array(call.path.dropFirst(2))
        switch (call.method, rest.first, rest.count) {
        case ("POST", "users", 1): return try createUser(call)
        case (_, "users", 4...) where rest[1] == "by":
            return try user(call, label: rest[2], value: rest[3], tail: Array(rest.dropFirst(4)))
        case (_, "subscriptions", 2...):
            return try subscription(call, id: rest[1].lowercased(), tail: Array(rest.dropFirst(2)))
        case ("PATCH", "subscriptions_by_token", 3):
            guard let id = simulator.withState({ $0.playerOfToken["\(rest[1]) \(rest[2])"] }) else {
                throw Self.unknown()
            }
            return try patch(call, id)
        default: throw Self.refuse(404, "Not found")
        }
    }

    private static func unknown() -> Refusal { refuse(404, code: "subscription-0", "Subscription not found") }

    private func createUser(_ call: Call) throws(Refusal) -> SandboxAnswer {
        var aliases: [String: String] = [:]
        for (label, value) in call.body["identity"]?.objectValue ?? JSONObject() {
            guard let text = value.stringValue, !Self.impossible.contains(text) else {
                throw Self.refuse(400, code: "user-3", "An alias has an impossible id")
            }
            aliases[label] = text
        }
        let subscriptions = call.body["subscriptions"]?.arrayValue ?? []
        guard !aliases.isEmpty || !subscriptions.isEmpty else {
            throw Self.refuse(400, code: "user-1", "A user has an identity or a subscription")
        }
        for subscription in subscriptions { try Self.check(subscription) }
        let found = simulator.withState { state in
            aliases.compactMap { state.user($0.key, $0.value) }.first
        }
        if let found { try reserve { $0.reserveWrite(found, at: call.now) } }
        let made = simulator.withState { state -> (user: String, ids: [String])? in
            let user = found ?? state.addUser(aliases)
            let owned = state.players.values.filter { $0.user == user }.count
            guard owned + subscriptions.count <= Self.limit || found == nil else { return nil }
            if let language = call.body["properties"]?["language"]?.stringValue {
                state.users[user]?.properties["language"] = .string(language)
            }
            if let tags = call.body["properties"]?["tags"]?.objectValue { state.setTags(tags, of: user) }
            let ids = subscriptions.map { Self.put($0, user, in: &state, at: call.now) }
            return (user, ids)
        }
        guard let made else { throw Self.full() }
        return Self.json(found == nil ? 201 : 202, show(made.user, call.now, isAnswerToWrite: true))
    }

    private static func full() -> Refusal {
        refuse(
            409,
            code: "subscription-1",
            "The user has too many subscriptions",
            meta: ["user_subscription_limit": 20]
        )
    }

    private static func check(_ subscription: JSONValue) throws(Refusal) {
        guard types.contains(subscription["type"]?.stringValue ?? ""),
            let token = subscription["token"]?.stringValue, !token.isEmpty
        else { throw refuse(400, code: "subscription-2", "A subscription has a type and a token") }
        if subscription["type"] == "iOSPush", token.utf8.count != 64 || !token.allSatisfy(\.isHexDigit) {
            throw refuse(400, code: "subscription-3", "The token is no APNs token")
        }
        try checkTypes(subscription, isEnabled: subscription["enabled"]?.boolValue ?? true)
    }

    private static func checkTypes(_ subscription: JSONValue, isEnabled: Bool) throws(Refusal) {
        guard let types = subscription["notification_types"]?.integerValue, types <= 0, isEnabled else { return }
        throw refuse(400, code: "subscription-9", "notification_types is not positive while enabled")
    }

    private static func put(
        _ subscription: JSONValue,
        _ user: String,
        in state: inout OneSignalState,
        at now: Date
    ) -> String {
        let (type, token) = (subscription["type"]?.stringValue ?? "", subscription["token"]?.stringValue ?? "")
        let id = state.addPlayer(type, token, user: user)
        apply(subscription, to: id, in: &state)
        if state.rules.writeDelay > .zero {
            state.visibleAt[id] = now.addingTimeInterval(state.rules.writeDelay.inSeconds)
        }
        return id
    }

    private static func apply(_ subscription: JSONValue, to id: String, in state: inout OneSignalState) {
        if let enabled = subscription["enabled"]?.boolValue { state.players[id]?.isEnabled = enabled }
        if let types = subscription["notification_types"]?.integerValue {
            state.players[id]?.notificationTypes = Int(clamping: types)
        }
        if let test = subscription["test_type"]?.integerValue { state.players[id]?.testType = Int(clamping: test) }
        for name in ["app_version", "device_model", "device_os"] {
            if let text = subscription[name]?.stringValue { state.players[id]?.fields[name] = text }
        }
        if let token = subscription["token"]?.stringValue { state.setToken(token, of: id) }
    }

    /// Returns a user in OneSignal's form.
    private func show(_ user: String, _ now: Date, isAnswerToWrite: Bool = false) -> JSONValue {
        simulator.withState { state in
            var identity: JSONObject = ["onesignal_id": .string(user)]
            for (label, value) in (state.users[user]?.aliases ?? [:]).sorted(by: { $0.key < $1.key }) {
                identity[label] = .string(value)
            }
            var tags = JSONObject()
            for (name, value) in (state.users[user]?.tags ?? [:]).sorted(by: { $0.key < $1.key }) {
                tags[name] = .string(value)
            }
            var object: JSONObject = ["identity": .object(identity), "properties": ["tags": .object(tags)]]
            if !isAnswerToWrite || state.rules.returnsSubscriptions && state.rules.writeDelay == .zero {
                object["subscriptions"] = .array(
                    state.subscriptions(of: user, at: now).map { player in
                        [
                            "id": .string(player.id), "app_id": .string(state.rules.appID),
                            "type": .string(player.type),
                            "token": .string(player.token), "enabled": .bool(player.isEnabled),
                            "notification_types": .integer(Int64(player.notificationTypes)),
                        ]
                    }
                )
            }
            return .object(object)
        }
    }

    private func user(_ call: Call, label: String, value: String, tail: [String]) throws(Refusal) -> SandboxAnswer {
        guard let user = simulator.withState({ $0.user(label, value) }) else {
            throw Self.refuse(404, code: "user-2", "User not found")
        }
        switch (call.method, tail.first) {
        case ("GET", nil):
            try reserve { $0.reserveView(at: call.now) }
            return Self.json(200, show(user, call.now))
        case ("PATCH", nil):
            try reserve { $0.reserveWrite(user, at: call.now) }
            let tags = call.body["properties"]?["tags"]?.objectValue ?? JSONObject()
            guard tags.count <= 100 else {
                throw Self.refuse(400, code: "user-5", "At most 100 changes in one request")
            }
            guard tags.allSatisfy({ $0.value.stringValue != nil }) else {
                throw Self.refuse(400, code: "user-6", "The value of a tag is a text")
            }
            guard simulator.withState({ $0.hasRoom(for: tags, of: user) }) else {
                throw Self.refuse(400, code: "user-7", "The plan's number of tags is exceeded")
            }
            simulator.withState { $0.setTags(tags, of: user) }
            return Self.json(202, ["properties": ["tags": .object(tags)]])
        case ("DELETE", nil):
            simulator.withState { state in
                for player in state.players.values where player.user == user { _ = state.removePlayer(player.id) }
                state.users[user] = nil
            }
            return Self.json(202, ["identity": ["onesignal_id": .string(user)]])
        case ("POST", "subscriptions"):
            let subscription = call.body["subscription"] ?? .null
            try Self.check(subscription)
            let id = simulator.withState { state -> String? in
                guard state.players.values.filter({ $0.user == user }).count < Self.limit else { return nil }
                return Self.put(subscription, user, in: &state, at: call.now)
            }
            guard let id else { throw Self.full() }
            return Self.json(202, ["subscription": ["id": .string(id)]])
        default: throw Self.refuse(404, "Not found")
        }
    }

    private func subscription(_ call: Call, id: String, tail: [String]) throws(Refusal) -> SandboxAnswer {
        guard let player = simulator.player(id) else { throw Self.unknown() }
        switch (call.method, tail) {
        case ("PATCH", []): return try patch(call, id)
        case ("DELETE", []):
            _ = simulator.withState { $0.removePlayer(id) }
            return Self.json(202, [:])
        case ("PATCH", ["owner"]):
            let identity = call.body["identity"]?.objectValue ?? JSONObject()
            guard identity.count == 1, let alias = identity.members.first, let value = alias.value.stringValue else {
                throw Self.refuse(400, code: "identity-1", "Exactly one alias names the owner")
            }
            let owner = simulator.withState { state -> String? in
                guard let owner = state.user(alias.name, value) else { return nil }
                state.players[id]?.user = owner
                return owner
            }
            guard let owner else { throw Self.refuse(404, code: "user-2", "User not found") }
            return Self.json(202, show(owner, call.now))
        case ("GET", ["user", "identity"]): return Self.json(200, show(player.user, call.now))
        case ("PATCH", ["user", "identity"]):
            for (label, value) in call.body["identity"]?.objectValue ?? JSONObject() {
                let text = value.stringValue ?? ""
                let other = simulator.withState { $0.user(label, text) }
                guard other == nil || other == player.user else {
                    throw Self.refuse(
                        409,
                        code: "user-2",
                        "The alias belongs to another user",
                        meta: ["conflicting_aliases": [.string(label)]]
                    )
                }
                simulator.withState { $0.users[player.user]?.aliases[label] = text }
            }
            return Self.json(200, show(player.user, call.now))
        default: throw Self.refuse(404, "Not found")
        }
    }

    private func patch(_ call: Call, _ id: String) throws(Refusal) -> SandboxAnswer {
        try reserve { $0.reserveWrite(id, at: call.now) }
        let subscription = call.body["subscription"] ?? .null
        let isEnabled = simulator.player(id)?.isEnabled ?? true
        try Self.checkTypes(subscription, isEnabled: subscription["enabled"]?.boolValue ?? isEnabled)
        simulator.withState { Self.apply(subscription, to: id, in: &$0) }
        return Self.json(202, [:])
    }

    // MARK: Players

    func players(_ call: Call) throws(Refusal) -> SandboxAnswer {
        guard simulator.rules.servesPlayers else { throw Self.refuse(404, "Not found") }
        if call.method == "POST", call.path.count == 1 { return try addPlayer(call) }
        guard call.path.count == 2 else { throw Self.refuse(404, "Not found") }
        let id = call.path[1].lowercased()
        guard let player = simulator.player(id) else { throw Self.refuse(400, "No user with this id found") }
        switch call.method {
        case "PUT":
            try reserve { $0.reserveWrite(id, at: call.now) }
            let tags = call.body["tags"]?.objectValue ?? JSONObject()
            guard simulator.withState({ $0.hasRoom(for: tags, of: player.user) }) else {
                throw Self.refuse(400, "The plan's number of tags is exceeded")
            }
            simulator.withState { Self.edit(call.body, id, in: &$0) }
            return Self.json(200, ["success": true])
        case "GET":
            try reserve { $0.reserveView(at: call.now) }
            return Self.json(
                200,
                [
                    "id": .string(id), "identifier": .string(player.token),
                    "invalid_identifier": .bool(!player.isSubscribed),
                    "notification_types": .integer(Int64(player.notificationTypes)),
                ]
            )
        case "DELETE":
            _ = simulator.withState { $0.removePlayer(id) }
            return Self.json(200, ["success": true])
        default: throw Self.refuse(404, "Not found")
        }
    }

    private func addPlayer(_ call: Call) throws(Refusal) -> SandboxAnswer {
        guard let type = call.body["device_type"]?.integerValue.flatMap({ Self.type(Int(clamping: $0)) }) else {
            throw Self.refuse(400, "device_type is required")
        }
        guard let token = call.body["identifier"]?.stringValue, !token.isEmpty else {
            throw Self.refuse(400, "identifier is required")
        }
        let id = simulator.withState { state in
            let id = state.addPlayer(type, token, user: nil)
            Self.edit(call.body, id, in: &state)
            return id
        }
        return Self.json(200, ["success": true, "id": .string(id)])
    }

    /// Returns the subscription type of a device type.
    static func type(_ number: Int) -> String? {
        [0: "iOSPush", 1: "AndroidPush", 2: "FireOSPush", 5: "ChromePush", 13: "HuaweiPush"][number]
    }

    /// Applies the fields of an edit to a player.
    static func edit(_ fields: JSONObject, _ id: String, in state: inout OneSignalState) {
        guard let player = state.players[id] else { return }
        if let types = fields["notification_types"]?.integerValue {
            state.players[id]?.notificationTypes = Int(clamping: types)
            state.players[id]?.isEnabled = types > 0
        }
        if let test = fields["test_type"]?.integerValue { state.players[id]?.testType = Int(clamping: test) }
        if let token = fields["identifier"]?.stringValue, token != player.token { state.setToken(token, of: id) }
        if let tags = fields["tags"]?.objectValue { state.setTags(tags, of: player.user) }
        if let user = fields["external_user_id"]?.stringValue {
            state.users[player.user]?.aliases["external_id"] = user.isEmpty ? nil : user
        }
        for (name, value) in fields where value.arrayValue == nil && value.objectValue == nil {
            state.players[id]?.fields[name] = value.stringValue ?? value.text
        }
    }
}
