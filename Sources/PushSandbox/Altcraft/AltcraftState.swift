internal import Foundation
public import PushCore

/// A profile of a simulated database.
public struct AltcraftProfile: Sendable, Hashable {
    /// Its id.
    public var id: String
    /// The database it is in.
    public var databaseID: Int64
    /// How requests find it: the matching mode and the identifier, as `email ada@example.com`; nil when by push token
    /// only.
    public var key: String?
    /// Its fields.
    public var fields = JSONObject()
    /// Its push subscriptions, the one changed last at the end.
    public var subscriptions: [AltcraftSubscription] = []
}

/// A push subscription of a profile.
public struct AltcraftSubscription: Sendable, Hashable {
    /// Its id, which is the push token.
    public var token: String
    /// The token service.
    public var provider: String
    /// `subscribed`, `suspended` or `unsubscribed`.
    public var status: String
    /// Its other id.
    public var hashID: String
    /// Its fields.
    public var fields = JSONObject()
    /// Its categories, each with whether it takes part.
    public var categories: [String: Bool] = [:]
    /// Whether triggers ignore it.
    public var skipsTriggers = false
    /// Titles of the messages that have reached it, oldest first; the last 100.
    public var received: [String] = []
}

/// A delivery or an opening that was told.
public struct AltcraftEventRecord: Sendable, Hashable {
    /// The message.
    public var smid: String
    /// `delivery` or `open`.
    public var type: String
    /// When it happened, as the request said, in seconds since 1970.
    public var time: Int64
    /// The id of the request that told it first.
    public var requestID: String
    /// How often it was told.
    public var count = 1
}

/// A start of a campaign.
public struct AltcraftLaunch: Sendable, Hashable {
    /// Tells it from others.
    public var number: Int
    /// The request.
    public var request: JSONObject
    /// How long the start was to be delayed, in seconds.
    public var delay: Int64 = 0
    /// How many subscriptions it reached; 0 before its start.
    public var reached: Int
}

/// Everything the simulator of Altcraft knows.
///
/// ``AltcraftSimulator`` owns it, and its handlers use it under the simulator's lock. It is plain data with the rules
/// that change it; it knows no request and no socket.
struct AltcraftState {
    var rules: AltcraftSimulator.Rules
    var counters = AltcraftSimulator.Counters()
    var profiles: [AltcraftProfile] = []
    var events: [AltcraftEventRecord] = []
    var launches: [AltcraftLaunch] = []
    var requestIDs: [String: Int] = [:]
    /// Campaigns that are to start.
    var starts: [AltcraftStart] = []
    var launchCount = 0
    /// Changes that were acknowledged and take effect later.
    var pending: [(due: Date, change: AltcraftSubscriptionChange)] = []

    init(_ rules: AltcraftSimulator.Rules) { self.rules = rules }

    // MARK: Profiles

    /// The place of a profile, by its key, or by a push token when the credential names no profile.
    func profile(_ caller: AltcraftCaller, _ provider: String?, _ token: String?) -> Int? {
        if let key = caller.key {
            return profiles.firstIndex { $0.databaseID == caller.databaseID && $0.key == key }
        }
        guard let token = caller.token ?? token else { return nil }
        let service = caller.provider ?? provider
        return profiles.firstIndex { profile in
            profile.databaseID == caller.databaseID
                && profile.subscriptions.contains { $0.token == token && (service == nil || $0.provider == service) }
        }
    }

    mutating func addProfile(_ caller: AltcraftCaller) -> Int {
        let id = String(UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(14))
        profiles.append(AltcraftProfile(id: id, databaseID: caller.databaseID, key: caller.key))
        return profiles.count - 1
    }

    /// Carries a change out; the place of the profile.
    mutating func apply(_ change: AltcraftSubscriptionChange) -> Int {
        let place = profile(change.caller, change.provider, change.token) ?? addProfile(change.caller)
        var entry: AltcraftSubscription
        if let index = profiles[place].subscriptions.firstIndex(where: {
            $0.token == change.token && $0.provider == change.provider
        }) {
            entry = profiles[place].subscriptions.remove(at: index)
        } else {
            let hash = String(UUID().uuidString.lowercased().prefix(8))
            entry = AltcraftSubscription(token: change.token, provider: change.provider, status: "", hashID: hash)
        }
        entry.status = change.status
        for (name, value) in change.fields { entry.fields[name] = value }
        for (name, isActive) in change.categories { entry.categories[name] = isActive }
        entry.skipsTriggers = change.skipsTriggers
        profiles[place].subscriptions.append(entry)
        if let fields = change.profileFields { profiles[place].fields = fields.applied(to: profiles[place].fields) }
        if change.replaces {
            for other in profiles.indices where other != place && profiles[other].databaseID == change.caller.databaseID
            {
                for index in profiles[other].subscriptions.indices
                where profiles[other].subscriptions[index].token == change.token {
                    profiles[other].subscriptions[index].status = "unsubscribed"
                }
            }
        }
        return place
    }

    /// Carries out what has become due.
    mutating func advance(at now: Date) {
        let due = pending.filter { $0.due <= now }
        pending.removeAll { $0.due <= now }
        for entry in due { _ = apply(entry.change) }
        startDue(at: now)
    }

    /// A log-in or log-out: the other profiles' subscriptions with the token sleep, this profile's wake up.
    mutating func unsuspend(_ caller: AltcraftCaller, _ provider: String, _ token: String) -> Int? {
        let place = profile(caller, provider, token)
        for other in profiles.indices where other != place {
            for index in profiles[other].subscriptions.indices
            where profiles[other].subscriptions[index].token == token
                && profiles[other].subscriptions[index].status == "subscribed"
            {
                profiles[other].subscriptions[index].status = "suspended"
            }
        }
        guard let place else { return nil }
        for index in profiles[place].subscriptions.indices
        where profiles[place].subscriptions[index].token == token
            && profiles[place].subscriptions[index].status == "suspended"
        {
            profiles[place].subscriptions[index].status = "subscribed"
        }
        return place
    }
}

/// Who asks: the database, and the profile that the credential names.
struct AltcraftCaller: Sendable {
    var databaseID: Int64
    /// The profile's key; nil when it is found by a push token.
    var key: String?
    /// The token in the credential itself, with its service.
    var token: String?
    var provider: String?
    /// What `matching_mode` must be.
    var modes: Set<String>
}

/// A change of a subscription, checked.
struct AltcraftSubscriptionChange: Sendable {
    var caller: AltcraftCaller
    var token: String
    var provider: String
    var status: String
    var fields: JSONObject
    var categories: [(name: String, isActive: Bool)]
    var profileFields: AltcraftFieldChanges?
    var replaces: Bool
    var skipsTriggers: Bool
}

/// Changes of profile fields, checked: plain values and functional fields.
///
/// The handlers make it of a request, against the fields that the account knows; applying it afterwards cannot fail.
/// Nothing is changed when one field is wrong.
struct AltcraftFieldChanges: Sendable {
    private let changes: JSONObject

    /// Checks them; the refusal's text when they cannot be.
    init(_ changes: JSONObject, known: Set<String>, current: JSONObject) throws(AltcraftHandler.Refusal) {
        self.changes = changes
        for (name, value) in changes {
            guard name.hasPrefix("_") || ["email", "phones"].contains(name) || known.contains(name) else {
                throw Self.refuse(name)
            }
            guard let change = value.objectValue, let action = change["action"] else { continue }
            let isGood: Bool
            switch action.stringValue {
            case "set": isGood = true
            case "unset": isGood = name != "email"
            case "incr":
                isGood = change["value"]?.numberValue != nil && current[name].map { $0.numberValue != nil } ?? true
            case "add", "delete": isGood = change["value"]?.arrayValue != nil
            case "upsert": isGood = change["submatch"]?.stringValue != nil || change["value"]?.objectValue != nil
            default: isGood = false
            }
            guard isGood else { throw Self.refuse(name) }
        }
    }

    private static func refuse(_ name: String) -> AltcraftHandler.Refusal {
        AltcraftHandler.refuse(400, "Platform profile processing error: with field \"\(name)\": Incorrect field")
    }

    func applied(to fields: JSONObject) -> JSONObject {
        var fields = fields
        for (name, value) in changes {
            guard let change = value.objectValue, let action = change["action"]?.stringValue else {
                fields[name] = value
                continue
            }
            let operand = change["value"] ?? .null
            switch action {
            case "unset": fields[name] = nil
            case "incr": fields[name] = Self.sum(fields[name], operand)
            case "add":
                var list = fields[name]?.arrayValue ?? []
                for element in operand.arrayValue ?? [] where !list.contains(element) { list.append(element) }
                fields[name] = .array(list)
            case "delete":
                let gone = operand.arrayValue ?? []
                fields[name] = .array((fields[name]?.arrayValue ?? []).filter { !gone.contains($0) })
            case "upsert":
                var object = fields[name]?.objectValue ?? JSONObject()
                if let property = change["submatch"]?.stringValue { object[property] = operand }
                fields[name] = .object(object)
            default: fields[name] = operand
            }
        }
        return fields
    }

    private static func sum(_ value: JSONValue?, _ operand: JSONValue) -> JSONValue {
        if let a = (value ?? 0).integerValue, let b = operand.integerValue { return .integer(a &+ b) }
        return .double((value?.numberValue ?? 0) + (operand.numberValue ?? 0))
    }
}
