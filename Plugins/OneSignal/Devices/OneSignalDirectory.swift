public import ChaparCore

/// OneSignal's users with their aliases and subscriptions, which the abilities that all platforms share do not cover.
///
/// For code that keeps users of its own. Reading is limited to one request a second for each app; callers wait their
/// turn.
public struct OneSignalDirectory: Sendable {
    /// A user as OneSignal has it.
    public struct User: Sendable, Hashable {
        /// Its aliases by their labels, `onesignal_id` among them.
        public var aliases: [String: String]
        /// Its tags.
        public var tags: [String: String]
        /// Its subscriptions.
        public var subscriptions: [Subscription]
    }

    /// One subscription of a user.
    public struct Subscription: Sendable, Hashable {
        /// Its id.
        public var id: String
        /// Its type, such as `iOSPush`.
        public var type: String
        /// Its device token or address.
        public var token: String
        /// Whether it gets messages.
        public var isSubscribed: Bool
        /// OneSignal's number for its subscription state.
        public var reason: Int
    }

    /// One alias of a user.
    public struct Alias: Sendable, Hashable {
        /// The label, such as `external_id`; case-sensitive.
        public var label: String
        /// The id.
        public var id: String

        /// Makes an alias.
        public init(_ label: String, _ id: String) {
            self.label = label
            self.id = id
        }

        /// Makes an alias with the label `external_id`, which holds the app's own user id.
        public init(externalID: String) { self.init("external_id", externalID) }
    }

    let client: OneSignalClient

    private func path(_ rest: String...) throws(PushError) -> String {
        try FormEncoding.path(["apps", client.options.appID] + rest)
    }

    /// Reads a user; nil when there is none.
    public func user(_ alias: Alias) async throws(PushError) -> User? {
        let answer = try await client.call("GET", path("users", "by", alias.label, alias.id), quota: .views) {
            $0.status == 404
        }
        guard answer.status != 404 else { return nil }
        guard let body = answer.body else {
            throw PushError(.badAnswer, "OneSignal's answer shows no user", reason: "bad_answer")
        }
        return User(body)
    }

    /// Adds aliases to the user of a subscription; an alias of another user is refused as `conflicting_aliases`.
    public func name(ownerOf subscription: String, _ aliases: [Alias]) async throws(PushError) {
        var identity = JSONObject()
        for alias in aliases { identity[alias.label] = .string(alias.id) }
        let path = try path("subscriptions", subscription, "user", "identity")
        _ = try await client.call("PATCH", path, ["identity": .object(identity)], quota: .writes)
    }

    /// Returns the aliases of a subscription's user; nil when there is no such subscription.
    public func aliases(ownerOf subscription: String) async throws(PushError) -> [String: String]? {
        let path = try path("subscriptions", subscription, "user", "identity")
        let answer = try await client.call("GET", path, quota: .views) { $0.status == 404 }
        return answer.status == 404 ? nil : User.texts(answer.body?["identity"])
    }

    /// Moves a subscription to the user with this alias, who must exist.
    public func move(_ subscription: String, to owner: Alias) async throws(PushError) {
        var identity = JSONObject()
        identity[owner.label] = .string(owner.id)
        let path = try path("subscriptions", subscription, "owner")
        _ = try await client.call("PATCH", path, ["identity": .object(identity)], quota: .writes)
    }

    /// Deletes a user with its subscriptions; one that does not exist is no error.
    public func delete(_ alias: Alias) async throws(PushError) {
        _ = try await client.call("DELETE", path("users", "by", alias.label, alias.id), quota: .writes) {
            $0.status == 404
        }
    }
}

extension OneSignalDirectory.User {
    fileprivate init(_ body: JSONObject) {
        aliases = Self.texts(body["identity"])
        tags = Self.texts(body["properties"]?["tags"])
        subscriptions = (body["subscriptions"]?.arrayValue ?? []).compactMap { entry in
            guard let id = entry["id"]?.stringValue, let type = entry["type"]?.stringValue else { return nil }
            let reason = entry["notification_types"]?.integerValue.map { Int(clamping: $0) } ?? 1
            return OneSignalDirectory.Subscription(
                id: id,
                type: type,
                token: entry["token"]?.stringValue ?? "",
                isSubscribed: entry["enabled"]?.boolValue ?? (reason > 0),
                reason: reason
            )
        }
    }

    /// Returns the members of an object that are texts.
    fileprivate static func texts(_ value: JSONValue?) -> [String: String] {
        var texts: [String: String] = [:]
        for (name, value) in value?.objectValue ?? JSONObject() { texts[name] = value.stringValue }
        return texts
    }
}
