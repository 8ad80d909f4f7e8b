public import Foundation
public import ChaparCore
internal import ChaparSimulator

/// A device in OneSignal: a subscription of the user model, a player of the legacy one.
public struct OneSignalPlayer: Sendable, Hashable {
    /// Its id, a UUID in lower case.
    public var id: String
    /// OneSignal's name of its type, such as `iOSPush`, `AndroidPush` or `HuaweiPush`.
    public var type: String
    /// Its device token.
    public var token: String
    /// Whether it may get messages.
    public var isEnabled = true
    /// OneSignal's number for its subscription state.
    public var notificationTypes = 1
    /// The entitlement of its token; nil is the App Store.
    public var testType: Int?
    /// The OneSignal id of the user that owns it.
    public var user: String
    /// The IDPush project it was registered through; nil when it was registered directly.
    public var project: String?
    /// All other fields of its registration.
    public var fields: [String: String] = [:]
    /// The titles of the last 100 messages that reached it, oldest first.
    public var received: [String] = []

    /// Whether it gets messages.
    public var isSubscribed: Bool { isEnabled && notificationTypes > 0 }
}

/// A message that was created.
public struct OneSignalMessage: Sendable, Hashable {
    /// Its id.
    public var id: String
    /// The request that created it.
    public var request: JSONObject
    /// The players it goes to.
    public var players: [String]
    /// The number of named players that are not subscribed.
    public var unsubscribed = 0
    /// When it was created.
    public var madeAt: Date
    /// When it is sent; nil for at once.
    public var sendAfter: Date?
    /// Whether it was cancelled.
    public var isCancelled = false
}

/// The state of the simulators of OneSignal and IDPush: one table of players for both.
///
/// ``OneSignalSimulator`` owns it and lends it to the handlers under its lock. Both models of OneSignal share the same
/// players.
struct OneSignalState {
    struct User {
        var id: String
        var aliases: [String: String] = [:]
        var tags: [String: String] = [:]
        var properties = JSONObject()
    }

    struct Kept {
        var answer: SandboxAnswer
        var at: Date
    }

    var rules: OneSignalSimulator.Rules
    var counters = OneSignalSimulator.Counters()
    var players: [String: OneSignalPlayer] = [:]
    var playerOfToken: [String: String] = [:]
    var users: [String: User] = [:]
    var messages: [String: OneSignalMessage] = [:]
    var order: [String] = []
    var keys: [String: Kept] = [:]
    /// The times at which writes become visible, for players that are not visible yet.
    var visibleAt: [String: Date] = [:]
    var views: [Date] = []
    var creates: [Date] = []
    var writes: [String: [Date]] = [:]

    init(_ rules: OneSignalSimulator.Rules) { self.rules = rules }

    static func newID() -> String { UUID().uuidString.lowercased() }

    // MARK: Players

    /// Adds a player, or finds the one with this token and gives it to `user`.
    mutating func addPlayer(_ type: String, _ token: String, user: String?) -> String {
        let key = "\(type) \(token)"
        if let id = playerOfToken[key], let player = players[id] {
            if let user, user != player.user {
                players[id]?.user = user
                dropUserIfEmpty(player.user)
            }
            return id
        }
        let id = Self.newID()
        let owner = user ?? addUser()
        players[id] = OneSignalPlayer(id: id, type: type, token: token, user: owner)
        playerOfToken[key] = id
        return id
    }

    mutating func removePlayer(_ id: String) -> Bool {
        guard let player = players.removeValue(forKey: id) else { return false }
        playerOfToken["\(player.type) \(player.token)"] = nil
        dropUserIfEmpty(player.user)
        return true
    }

    mutating func setToken(_ token: String, of id: String) {
        guard let player = players[id] else { return }
        playerOfToken["\(player.type) \(player.token)"] = nil
        players[id]?.token = token
        playerOfToken["\(player.type) \(token)"] = id
    }

    mutating func addUser(_ aliases: [String: String] = [:]) -> String {
        let id = Self.newID()
        users[id] = User(id: id, aliases: aliases)
        return id
    }

    private mutating func dropUserIfEmpty(_ id: String) {
        let isOwner = players.values.contains { $0.user == id }
        if !isOwner, users[id]?.aliases.isEmpty ?? false { users[id] = nil }
    }

    func user(_ label: String, _ value: String) -> String? {
        if label == "onesignal_id" { return users[value] == nil ? nil : value }
        return users.first { $0.value.aliases[label] == value }?.key
    }

    func subscriptions(of user: String, at now: Date) -> [OneSignalPlayer] {
        players.values.filter { $0.user == user && visibleAt[$0.id].map { $0 <= now } ?? true }.sorted { $0.id < $1.id }
    }

    /// Returns the tags of a player: its user's.
    func tags(of player: OneSignalPlayer) -> [String: String] { users[player.user]?.tags ?? [:] }

    mutating func setTags(_ tags: JSONObject, of user: String) {
        for (name, value) in tags {
            switch value {
            case .null, .string(""): users[user]?.tags[name] = nil
            case .string(let text): users[user]?.tags[name] = text
            default: users[user]?.tags[name] = value.text
            }
        }
    }

    /// Returns whether the plan allows a user these tags as well.
    func hasRoom(for tags: JSONObject, of user: String) -> Bool {
        guard let limit = rules.maximumTags else { return true }
        var names = Set(users[user]?.tags.keys ?? [:].keys)
        for (name, value) in tags {
            if value == .null || value == "" { names.remove(name) } else { names.insert(name) }
        }
        return names.count <= limit
    }

    // MARK: Budgets

    /// Reserves a view; returns nil when there is room, else the seconds to wait.
    ///
    /// Windows are those of OneSignal's limits, with a little grace.
    mutating func reserveView(at now: Date) -> Int? {
        guard rules.enforcesBudgets else { return nil }
        return Self.reserve(&views, 12, 10, now)
    }

    mutating func reserveCreate(at now: Date) -> Int? {
        guard rules.enforcesBudgets else { return nil }
        return Self.reserve(&creates, rules.createsPerSecond, 1, now)
    }

    mutating func reserveWrite(_ id: String, at now: Date) -> Int? {
        guard rules.enforcesBudgets else { return nil }
        if writes.count > 10_000 { writes.removeAll() }
        return Self.reserve(&writes[id, default: []], 3, 2, now)
    }

    private static func reserve(_ times: inout [Date], _ limit: Int, _ window: TimeInterval, _ now: Date) -> Int? {
        times.removeAll { now.timeIntervalSince($0) >= window }
        guard times.count < limit else { return max(1, Int(clamping: window - now.timeIntervalSince(times[0]) + 1)) }
        times.append(now)
        return nil
    }
}
