internal import Foundation
public import ChaparCore

/// A profile of a simulated database.
public struct AltcraftProfile: Sendable, Hashable {
    /// Its id.
    public var id: String
    /// The database it is in.
    public var databaseID: Int64
    /// The key by which requests find it: the matching mode and the identifier, as `email ada@example.com`; nil when it
    /// is found by push token only.
    public var key: String?
    /// Its fields.
    public var fields = JSONObject()
    /// Its push subscriptions, the most recently changed one last.
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
    /// Its categories, each with whether it is active.
    public var categories: [String: Bool] = [:]
    /// Whether triggers ignore it.
    public var skipsTriggers = false
    /// The titles of the last 100 messages that reached it, oldest first.
    public var received: [String] = []
}

/// A delivery or an opening that was reported.
public struct AltcraftEventRecord: Sendable, Hashable {
    /// The message.
    public var smid: String
    /// `delivery` or `open`.
    public var type: String
    /// The time of the event, as the request gave it, in seconds since 1970.
    public var time: Int64
    /// The id of the first request that reported it.
    public var requestID: String
    /// The number of times that it was reported.
    public var count = 1
}

/// An event of an app's own that was reported.
public struct AltcraftMobileEventRecord: Sendable, Hashable {
    /// The name of the event.
    public var name: String
    /// The pixel that took it.
    public var pixel: String
    /// The time of the event, as the request gave it, in seconds since 1970.
    public var time: Int64
    /// The text parts by their names, such as `tz`.
    public var texts: [String: String]
    /// The JSON parts by their names, such as `wd`.
    public var values: [String: JSONValue]
    /// The id of the request.
    public var requestID: String
    /// The number of requests with this id.
    public var count = 1
}

/// A start of a campaign.
public struct AltcraftLaunch: Sendable, Hashable {
    /// The number of the start, unique in the simulator.
    public var number: Int
    /// The request.
    public var request: JSONObject
    /// The requested delay of the start, in seconds.
    public var delay: Int64 = 0
    /// The number of subscriptions it reached; 0 before its start.
    public var reached: Int
}

/// The state of the Altcraft simulator.
///
/// ``AltcraftSimulator`` owns it, and its handlers use it under the simulator's lock. It is plain data with the rules
/// that change it, independent of requests and sockets.
struct AltcraftState {
    var rules: AltcraftSimulator.Rules
    var counters = AltcraftSimulator.Counters()
    var profiles: [AltcraftProfile] = []
    var events: [AltcraftEventRecord] = []
    var mobileEvents: [AltcraftMobileEventRecord] = []
    var launches: [AltcraftLaunch] = []
    var requestIDs: [String: Int] = [:]
    /// Campaign starts that are scheduled.
    var starts: [AltcraftStart] = []
    var launchCount = 0
    /// Changes that were acknowledged and take effect later.
    var pending: [(due: Date, change: AltcraftSubscriptionChange)] = []

    init(_ rules: AltcraftSimulator.Rules) { self.rules = rules }

    // MARK: Profiles

    /// Returns the index of a profile, found by its key, or by a push token when the credential names no profile.
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

    /// Applies a change, and returns the index of the profile.
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

    /// Applies the changes and starts that are due.
    mutating func advance(at now: Date) {
        let due = pending.filter { $0.due <= now }
        pending.removeAll { $0.due <= now }
        for entry in due { _ = apply(entry.change) }
        startDue(at: now)
    }

    /// Applies a log-in or log-out: suspends the other profiles' subscriptions with the token, and resumes this
    /// profile's.
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

/// The caller of a request: the database, and the profile that the credential names.
struct AltcraftCaller: Sendable {
    var databaseID: Int64
    /// The profile's key; nil when it is found by a push token.
    var key: String?
    /// The token in the credential itself, with its service.
    var token: String?
    var provider: String?
    /// The values that `matching_mode` may have.
    var modes: Set<String>
}

/// A checked change of a subscription.
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

/// Checked changes of profile fields: plain values and functional fields.
///
/// The handlers make them from a request, checked against the known fields of the account; applying them cannot fail.
/// When one field is wrong, nothing is changed.
struct AltcraftFieldChanges: Sendable {
    private let changes: JSONObject

    /// Checks the changes; throws the refusal when one is invalid.
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
