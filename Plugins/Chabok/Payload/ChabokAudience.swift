public import ChaparCore

/// The audience of one message in Chabok's own words, also one that a `Recipient` cannot name (queries, stored
/// segments).
@nonexhaustive
public enum ChabokAudience: Sendable, Hashable {
    /// One user, by the app owner's id.
    case user(String)
    /// Several users who get the same message.
    case users([String])
    /// The users who fit the rules.
    case segment(ChabokSegment)
    /// A stored segment's id, or a flat query such as `{"deviceType":"ios"}`.
    case target(JSONValue)
    /// The subscribers of a public channel.
    case channel(String)
    /// Everybody, by push notification; only where it is allowed explicitly.
    case everyone
}

/// A channel in its written forms: `x` and `public/x` are public, `private/x` belongs to the user.
///
/// Reading returns nil for a text that the vendor's clients refuse: another prefix, more than one slash, an empty text.
public struct ChabokChannel: Sendable, Hashable {
    /// The name without a prefix.
    public let name: String
    /// Whether it belongs to one user.
    public let isPrivate: Bool

    /// Reads a channel as users write it.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        switch (parts.count, parts.first) {
        case (1, _): (name, isPrivate) = (text, false)
        case (2, "public"?): (name, isPrivate) = (String(parts[1]), false)
        case (2, "private"?): (name, isPrivate) = (String(parts[1]), true)
        default: return nil
        }
        guard !name.isEmpty, !name.contains(where: { $0.isWhitespace || "+#*".contains($0) }) else { return nil }
    }

    /// The name in realtime topics: `public/x`, or `x` of the user's own.
    public var normalized: String { isPrivate ? name : "public/\(name)" }
}

/// The rules for ids of users.
enum ChabokUserID {
    /// Returns the problem of an id; nil when there is none.
    static func problem(_ id: String, minimum: Int) -> String? {
        let least = max(1, minimum)
        guard (least...64).contains(id.count) else { return "A user id has \(least) to 64 characters." }
        guard !id.contains(where: { $0.isWhitespace || "/\\+*#".contains($0) }) else {
            return #"A user id holds no white space and none of / \ + * #."#
        }
        return nil
    }

    /// Whether an id has Persian or Arabic letters, which the vendor calls unsupported.
    static func isDoubtful(_ id: String) -> Bool { id.unicodeScalars.contains { (0x600...0x6FF).contains($0.value) } }
}

/// Rules that users must fit, all of them.
///
/// The audience of a message by tags, made of the caller's filter or in code. Chabok evaluates it, so the users it
/// reaches and their number are unknown here.
public struct ChabokSegment: Sendable, Hashable {
    /// How a value is compared.
    @nonexhaustive
    public enum Operator: String, Sendable, CaseIterable {
        /// Equal.
        case equalTo = "equal_to"
        /// Not equal.
        case notEqual = "not_equal"
        /// Less.
        case lesserThan = "lesser_than"
        /// Less or equal.
        case lesserEquals = "lesser_equals"
        /// Greater.
        case greaterThan = "greater_than"
        /// Greater or equal.
        case greaterEquals = "greater_equals"
        /// Has one of these.
        case include
        /// Has none of these.
        case notInclude = "not_include"
        /// Longer ago than a number of hours.
        case before
        /// Less long ago than a number of hours.
        case after
    }

    /// One rule.
    public struct Rule: Sendable, Hashable {
        /// `tags`, `deviceType`, `clientVersion`, … or a behaviour such as `purchase.count`.
        public var name: String
        /// How it is compared.
        public var comparison: Operator
        /// With what; `72h` for ``Operator/before`` and ``Operator/after``.
        public var value: JSONValue

        /// Makes a rule.
        public init(_ name: String, _ comparison: Operator, _ value: JSONValue) {
            self.name = name
            self.comparison = comparison
            self.value = value
        }
    }

    /// The names of rules that are no behaviours; the name of a behaviour has a point.
    public static let names: Set<String> = [
        "installDate", "launchTime", "launchCount", "tags", "deviceType", "clientVersion", "osVersion", "nearBy",
    ]
    private static let times: Set<String> = ["installDate", "launchTime"]

    /// The rules.
    public var rules: [Rule]
    /// Whether one rule is enough.
    ///
    /// Chabok does not document the key for it, so Chapar's key is a guess.
    public var isAny: Bool

    /// Makes a segment.
    public init(_ rules: [Rule], isAny: Bool = false) {
        self.rules = rules
        self.isAny = isAny
    }

    /// Returns a tag of the gateway's as Chabok stores it: `key:value` as `key_value`, any other unchanged.
    static func tag(_ tag: String) -> String { tag.replacing(":", with: "_", maxReplacements: 1) }

    /// Makes the segment of the gateway's tags; nil without any.
    public init?(_ filter: TagFilter) {
        func stored(_ tag: String) -> JSONValue { .string(Self.tag(tag)) }
        var rules = filter.all.map { Rule("tags", .include, [stored($0)]) }
        if !filter.any.isEmpty { rules.append(Rule("tags", .include, .array(filter.any.map(stored)))) }
        rules += filter.none.map { Rule("tags", .notInclude, [stored($0)]) }
        guard !rules.isEmpty else { return nil }
        self.init(rules)
    }

    /// The rules as the API takes them.
    public var json: JSONValue {
        let list = rules.map { rule -> JSONValue in
            ["name": .string(rule.name), "operator": .string(rule.comparison.rawValue), "value": rule.value]
        }
        return [isAny ? "any" : "all": .array(list)]
    }

    /// The problems of the rules.
    public var problems: [Finding] {
        var problems: [Finding] = []
        if rules.isEmpty {
            problems.append(Finding(pointer: "#/segment", code: "audience_empty", detail: "There is no rule."))
        }
        for (index, rule) in rules.enumerated() {
            func problem(_ code: String, _ detail: String) {
                problems.append(Finding(pointer: "#/segment/\(index)", code: code, detail: detail))
            }
            if !Self.names.contains(rule.name), !rule.name.contains(".") {
                problem("unknown_name", "Chabok knows no \"\(rule.name)\".")
            }
            let isAgo = rule.comparison == .before || rule.comparison == .after
            if isAgo, !Self.times.contains(rule.name) {
                problem("not_a_time", "before and after are for \(Self.times.sorted().joined(separator: ", ")).")
            } else if isAgo, !Self.isHours(rule.value.stringValue ?? "") {
                problem("bad_hours", "Write hours, such as 72h.")
            }
            if rule.comparison == .include || rule.comparison == .notInclude, rule.value.arrayValue?.isEmpty ?? true {
                problem("bad_list", "include and not_include take a list.")
            }
        }
        return problems
    }

    private static func isHours(_ text: String) -> Bool {
        text.last == "h" && text.count > 1 && text.dropLast().allSatisfy { $0.isASCII && $0.isNumber }
    }
}
