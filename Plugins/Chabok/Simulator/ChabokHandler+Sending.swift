internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

extension ChabokHandler {
    private static let common: Set<String> = [
        "content", "data", "notification", "trackId", "ttl", "live", "useAsAlert", "autoNotify",
    ]
    /// The members of a body, by call; any other is refused, so that a client's misspelling shows.
    private static let fields: [String: Set<String>] = [
        "toUsers": common.union([
            "user", "users", "channel", "clientId", "inApp", "silent", "alertText", "fallback",
        ]),
        "byQuery": common.union(["target", "segment", "channel", "inApp", "silent", "alertText"]),
        "notifyUsers": common.union(["user", "users", "target", "segment"]),
        "notifyToUsers": common.union(["user", "fallback"]),
    ]

    func send(_ call: Call) throws(Refusal) -> SandboxAnswer {
        if call.route == "POST push/notifyUser", call.path.count == 3 { return try notifyUser(call) }
        let name = call.path.count == 2 ? call.path[1] : ""
        guard call.method == "POST", Self.fields[name] != nil else {
            throw Refusal(status: 404, message: "There is no method to handle \(call.route)")
        }
        let isList = call.body.arrayValue != nil
        guard !isList || name == "toUsers" || name == "notifyUsers" else {
            throw Refusal(status: 400, message: "The body is one message")
        }
        let bodies = call.body.arrayValue ?? [call.body]
        var checked: [JSONObject] = []
        for body in bodies { checked.append(try check(body, name, isInList: isList)) }
        let (sent, shape) = simulator.withState { [checked] state in
            let sent = checked.map { state.accept($0, at: call.now, listener) }
            return (sent, state.rules.shape)
        }
        return Self.json(200, Self.answer(sent, shape, isList: isList))
    }

    /// Sends a notification whose body is the object that other calls have under `notification`.
    private func notifyUser(_ call: Call) throws(Refusal) -> SandboxAnswer {
        try check(call.body, isSilent: false)
        for name in ["content", "data", "ttl", "notification", "user"] where call.body[name] != nil {
            throw Refusal(status: 400, message: "\(name) is not defined for notifyUser")
        }
        let body: JSONObject = ["user": .string(call.path[2]), "notification": call.body]
        try checkAudience(body, "notifyUser")
        let (sent, shape) = simulator.withState { state in
            ([state.accept(body, at: call.now, listener)], state.rules.shape)
        }
        return Self.json(200, Self.answer(sent, shape, isList: false))
    }

    private func check(_ value: JSONValue, _ call: String, isInList: Bool) throws(Refusal) -> JSONObject {
        guard let body = value.objectValue else { throw Refusal(status: 400, message: "A message is an object") }
        let known = Self.fields[call] ?? []
        for (name, _) in body where !known.contains(name) {
            throw Refusal(status: 400, message: "\(name) is not defined for \(call)")
        }
        guard let content = body["content"]?.stringValue, !content.isEmpty else {
            throw Refusal(
                status: 422,
                name: "ValidationError",
                message: "The instance is not valid",
                fields: ["content"]
            )
        }
        let audiences = ["user", "users", "target", "segment"].filter { body[$0] != nil }
        guard audiences.count == 1, !isInList || audiences == ["user"] else {
            throw Refusal(status: 400, message: "Exactly one of user, users, target, segment")
        }
        try checkAudience(body, call)
        if let notification = body["notification"] { try check(notification, isSilent: body["silent"] == true) }
        if let life = body["ttl"], life.integerValue.map({ $0 <= 0 }) ?? true {
            throw Refusal(status: 400, message: "ttl is seconds")
        }
        guard call == "notifyToUsers" else { return body }
        let fallback = body["fallback"]
        guard body["ttl"] != nil, fallback?["delay"]?.integerValue != nil,
            ["sms", "email"].contains(fallback?["media"]?.stringValue ?? ""),
            fallback?["policy"] == "NOTIFICATION_SHOWN"
        else { throw Refusal(status: 400, message: "ttl, fallback.delay, fallback.media and fallback.policy") }
        return body
    }

    private func checkAudience(_ body: JSONObject, _ call: String) throws(Refusal) {
        let channel = body["channel"]?.stringValue
        if let user = body["user"] {
            guard let id = user.stringValue, (1...64).contains(id.count) else {
                throw Refusal(status: 400, message: "userId has 1 to 64 characters")
            }
            if id == "*" {
                guard call == "toUsers", let channel, !channel.hasPrefix("private/") else {
                    throw Refusal(status: 400, message: "* needs a public channel")
                }
            } else if id.contains(where: { $0.isWhitespace || "/\\+*#".contains($0) }) {
                throw Refusal(status: 400, message: "userId is not valid")
            }
        }
        if let users = body["users"] {
            guard let list = users.arrayValue, !list.isEmpty, list.allSatisfy({ $0.stringValue != nil }) else {
                throw Refusal(status: 400, message: "users is a list of texts")
            }
        }
        if let segment = body["segment"] {
            let rules = segment["all"]?.arrayValue ?? segment["any"]?.arrayValue ?? []
            let isGood = rules.allSatisfy { $0["name"] != nil && $0["operator"] != nil && $0["value"] != nil }
            guard !rules.isEmpty, isGood else { throw Refusal(status: 400, message: "segment is not valid") }
        }
    }

    private func check(_ notification: JSONValue, isSilent: Bool) throws(Refusal) {
        let isBackground = notification["contentAvailable"] == true
        guard notification.objectValue != nil, notification["title"]?.stringValue?.isEmpty == false || isBackground
        else {
            throw Refusal(
                status: 422,
                name: "ValidationError",
                message: "The instance is not valid",
                fields: ["notification.title"]
            )
        }
        for action in notification["actions"]?.arrayValue ?? [] {
            guard action["id"]?.stringValue?.isEmpty == false, action["title"]?.stringValue?.isEmpty == false,
                (0...7).contains(action["options"]?.integerValue ?? 0)
            else {
                throw Refusal(
                    status: 422,
                    name: "ValidationError",
                    message: "The instance is not valid",
                    fields: ["actions"]
                )
            }
        }
    }

    /// Returns the answer in the shape of the rules.
    private static func answer(
        _ sent: [ChabokSimulator.Message],
        _ shape: ChabokSimulator.Shape,
        isList: Bool
    ) -> JSONValue {
        func one(_ message: ChabokSimulator.Message) -> JSONValue {
            let count = JSONValue.integer(Int64(message.devices))
            return shape == .count ? ["count": count] : ["id": .string(message.id), "count": count]
        }
        if shape == .ids { return ["ids": .array(sent.map { .string($0.id) })] }
        if shape == .array || isList { return .array(sent.map(one)) }
        return sent.first.map(one) ?? ["count": 0]
    }
}

extension ChabokState {
    /// Stores a message with the number of devices it goes to.
    mutating func accept(_ body: JSONObject, at now: Date, _ listener: SandboxListener) -> ChabokSimulator.Message {
        var space = spaces[listener] ?? Space()
        defer { spaces[listener] = space }
        let users =
            body["users"]?.arrayValue?.compactMap(\.stringValue) ?? (body["user"]?.stringValue.map { [$0] } ?? [])
        let devices: Int
        if users == ["*"] || users.isEmpty {
            devices = max(space.reached(by: body), rules.acceptsAnyUser ? 1 : 0)
        } else {
            devices = users.reduce(0) { sum, user in
                let own = space.devices(of: user)
                return sum + (own == 0 && rules.acceptsAnyUser ? 1 : own)
            }
        }
        var kept = body
        kept["createdAt"] = .integer(now.millisecondsSince1970)
        let id = space.newID("m")
        let message = ChabokSimulator.Message(
            id: id,
            user: body["user"]?.stringValue ?? "",
            devices: devices,
            body: kept
        )
        space.messages.append(message)
        return message
    }
}

extension ChabokState.Space {
    /// Returns the number of devices that a public channel, a flat query or rules about tags and device types reach;
    /// any other rule matches all.
    func reached(by body: JSONObject) -> Int {
        let rules = body["segment"]?["all"]?.arrayValue ?? []
        let flat = body["target"]?.objectValue ?? JSONObject()
        return installations.values.count { installation in
            let own = Set((installation["tags"]?.arrayValue ?? []).compactMap(\.stringValue))
                .union(tags[installation["userId"]?.stringValue ?? ""]?.map { $1.isEmpty ? $0 : "\($0)_\($1)" } ?? [])
            let fits = rules.allSatisfy { rule in
                let wanted = Set((rule["value"]?.arrayValue ?? []).compactMap(\.stringValue))
                return switch (rule["name"], rule["operator"]) {
                case ("tags", "include"): !own.isDisjoint(with: wanted)
                case ("tags", "not_include"): own.isDisjoint(with: wanted)
                case ("deviceType", "equal_to"): installation["deviceType"] == rule["value"]
                default: true
                }
            }
            return fits && flat.members.allSatisfy { installation[$0.name] == $0.value }
        }
    }
}
