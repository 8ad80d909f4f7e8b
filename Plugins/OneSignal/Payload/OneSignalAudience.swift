public import ChaparCore

/// Whom one OneSignal message goes to: exactly one kind in each request.
@nonexhaustive
public enum OneSignalAudience: Sendable, Hashable {
    /// Subscriptions (or players, in the legacy mode) by their ids.
    case subscriptions([String])
    /// Users by an alias, such as `external_id`; labels are case-sensitive.
    case aliases(label: String, ids: [String])
    /// All users in the first segments, except those in the others.
    case segments([String], excluding: [String] = [])
    /// All users whom the filters let through.
    case filters([OneSignalFilter])
    /// Device tokens as they are, of one service.
    case tokens([String], TokenService)

    /// How many ids the audience names; nil when only OneSignal knows.
    public var count: Int? {
        switch self {
        case .subscriptions(let ids), .aliases(_, let ids), .tokens(let ids, _): ids.count
        case .segments, .filters: nil
        }
    }

    /// Returns the members of the request for the audience.
    func members(isLegacy: Bool) -> JSONObject {
        func list(_ texts: [String]) -> JSONValue { .array(texts.map { .string($0) }) }
        switch self {
        case .subscriptions(let ids):
            return [isLegacy ? "include_player_ids" : "include_subscription_ids": list(ids)]
        case .aliases(let label, let ids):
            var labels = JSONObject()
            labels[label] = list(ids)
            return ["include_aliases": .object(labels), "target_channel": "push"]
        case .segments(let names, let excluded):
            var members: JSONObject = ["included_segments": list(names)]
            if !excluded.isEmpty { members["excluded_segments"] = list(excluded) }
            return members
        case .filters(let filters): return ["filters": .array(filters.map(\.json))]
        case .tokens(let tokens, let service):
            return [service == .iOSAPNs ? "include_ios_tokens" : "include_android_reg_ids": list(tokens)]
        }
    }

    /// Whether a member of a request names an audience, or one that OneSignal may add later: overrides must not set it.
    static func isName(_ member: String) -> Bool {
        ["filters", "tags", "segments", "target_channel"].contains(member)
            || ["include", "exclude"].contains { member.hasPrefix($0) }
    }
}

/// One entry of a list of filters: a condition, or the `OR` between two branches of conditions.
///
/// Neighbours are joined by AND, which binds tighter than OR. All operands are texts on the wire.
@nonexhaustive
public enum OneSignalFilter: Sendable, Hashable {
    /// How a tag or a number is compared.
    @nonexhaustive
    public enum Relation: String, Sendable {
        /// Equal.
        case equal = "="
        /// Not equal.
        case notEqual = "!="
        /// Greater.
        case greater = ">"
        /// Less.
        case less = "<"
        /// The tag is there.
        case exists
        /// The tag is not there.
        case notExists = "not_exists"
        /// One of up to 20 values, separated by commas.
        case inArray = "in_array"
        /// None of up to 20 values, separated by commas.
        case notInArray = "not_in_array"
        /// More seconds than this have passed since the time in the tag.
        case timeElapsedGreater = "time_elapsed_gt"
        /// Fewer seconds than this have passed since the time in the tag.
        case timeElapsedLess = "time_elapsed_lt"
    }

    /// A tag; the value is left out for ``Relation/exists`` and ``Relation/notExists``.
    case tag(String, Relation, String = "")
    /// Hours since the last session.
    case lastSession(Relation, hoursAgo: Double)
    /// Hours since the first session.
    case firstSession(Relation, hoursAgo: Double)
    /// The number of sessions.
    case sessionCount(Relation, Int)
    /// The seconds spent in the app.
    case sessionTime(Relation, Int)
    /// The language, two letters.
    case language(Relation, String)
    /// The app's version.
    case appVersion(Relation, String)
    /// The country, two letters.
    case country(String)
    /// Within `radius` metres of a place.
    case location(radius: Double, latitude: Double, longitude: Double)
    /// Begins another branch.
    case or

    /// The most entries, operators included.
    public static let limit = 200

    /// The entry on the wire.
    public var json: JSONValue {
        func entry(_ field: String, _ relation: Relation?, _ more: [(String, String)]) -> JSONValue {
            var object: JSONObject = ["field": .string(field)]
            for (name, value) in more { object[name] = .string(value) }
            if let relation { object["relation"] = .string(relation.rawValue) }
            return .object(object)
        }
        switch self {
        case .tag(let key, let relation, let value):
            let isBare = relation == .exists || relation == .notExists
            return entry("tag", relation, isBare ? [("key", key)] : [("key", key), ("value", value)])
        case .lastSession(let relation, let hours):
            return entry("last_session", relation, [("hours_ago", Self.text(hours))])
        case .firstSession(let relation, let hours):
            return entry("first_session", relation, [("hours_ago", Self.text(hours))])
        case .sessionCount(let relation, let count): return entry("session_count", relation, [("value", "\(count)")])
        case .sessionTime(let relation, let seconds): return entry("session_time", relation, [("value", "\(seconds)")])
        case .language(let relation, let language): return entry("language", relation, [("value", language)])
        case .appVersion(let relation, let version): return entry("app_version", relation, [("value", version)])
        case .country(let code): return entry("country", .equal, [("value", code)])
        case .location(let radius, let latitude, let longitude):
            return entry(
                "location",
                nil,
                [("radius", Self.text(radius)), ("lat", Self.text(latitude)), ("long", Self.text(longitude))]
            )
        case .or: return ["operator": "OR"]
        }
    }

    private static func text(_ number: Double) -> String {
        number == number.rounded() && abs(number) < 1e15 ? String(Int64(clamping: number)) : String(number)
    }

    /// Returns the filters of the gateway's tags: `key:value`, or `key` for a tag with any value.
    ///
    /// Tags of `all` and `none` stand in every branch; each tag of `any` makes a branch of its own. Nil without any
    /// tag.
    public static func filters(_ tags: TagFilter) -> [OneSignalFilter]? {
        func condition(_ tag: String, isWanted: Bool) -> OneSignalFilter {
            guard let (key, value) = tag.halves(at: ":") else { return .tag(tag, isWanted ? .exists : .notExists) }
            return .tag(key, isWanted ? .equal : .notEqual, value)
        }
        let common = tags.all.map { condition($0, isWanted: true) } + tags.none.map { condition($0, isWanted: false) }
        guard !tags.any.isEmpty else { return common.isEmpty ? nil : common }
        let branches = tags.any.map { common + [condition($0, isWanted: true)] }
        return Array(branches.joined(separator: [OneSignalFilter.or]))
    }
}
