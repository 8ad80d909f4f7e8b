/// Whether one message may go to every user of a platform, and which topics reach all of them.
///
/// The operator decides this in the backend's settings, for every caller of the backend: by `allow_broadcast` in the
/// backend's section, or by the options in code. No field of a notification can widen the rule. The gateway applies the
/// rule before it accepts a notification, and a backend applies it again before it sends.
public struct BroadcastRule: Sendable, Hashable {
    /// The reason of every refusal under a rule.
    public static let refusalReason = "broadcast_not_allowed"

    /// `allow_broadcast`: whether a message may go to every user, default false.
    public var isAllowed: Bool
    /// Topics or segments that reach every user: `everyone_topics`, and those of the platform itself.
    public private(set) var topics: Set<String>

    /// Makes a rule; by default it allows no message to every user.
    ///
    /// - Parameters:
    ///   - isAllowed: Whether a message may go to every user.
    ///   - topics: Topics or segments that reach every user; letter case makes no difference.
    public init(isAllowed: Bool = false, topics: Set<String> = []) {
        self.isAllowed = isAllowed
        self.topics = Set(topics.map(Self.bare))
    }

    /// Reads `allow_broadcast` and `everyone_topics` of a backend's section.
    ///
    /// Each kind of backend that can address every user calls it.
    public init(_ section: ConfigSection) {
        let isAllowed = section.bool("allow_broadcast", default: false)
        let named = section.strings("everyone_topics") ?? []
        if named.contains(where: { $0.allSatisfy(\.isWhitespace) }) {
            section.reject("everyone_topics", "holds an empty name", fix: "Name topics, or leave the key out.")
        }
        self.init(isAllowed: isAllowed, topics: Set(named))
    }

    /// Returns the rule with more topics that reach every user: those of the platform itself, in addition to the
    /// operator's.
    public func adding(topics more: Set<String>) -> BroadcastRule {
        BroadcastRule(isAllowed: isAllowed, topics: topics.union(more))
    }

    /// Whether a recipient is every user of the platform: `everyone`, tags with nothing but `none`, a topic that
    /// reaches every user, or a condition over topics that holds for a user who joined no other topic.
    public func isEveryone(_ recipient: Recipient) -> Bool {
        switch recipient {
        case .token, .device, .user, .platformID: false
        case .tags(let filter): filter.all.isEmpty && filter.any.isEmpty
        case .topic(let text): isEveryone(topic: text)
        case .everyone: true
        }
    }

    /// Returns the refusal of a recipient that the rule forbids; nil when it is allowed.
    public func refusal(of recipient: Recipient) -> Refusal? {
        guard !isAllowed, isEveryone(recipient) else { return nil }
        return Refusal(
            .message,
            reason: Self.refusalReason,
            detail: "This addresses every user of the platform: the operator must allow it with allow_broadcast.",
            advice: .never
        )
    }

    private func isEveryone(topic text: String) -> Bool {
        if topics.contains(Self.bare(text)) { return true }
        guard TopicCondition.isMeant(by: text) else { return false }
        // A condition that cannot be read may hold for every user.
        guard let condition = TopicCondition(text) else { return true }
        return condition.holds { _ in false } || condition.holds { topics.contains(Self.bare($0)) }
    }

    /// Returns a topic in lower case, without the white space and the prefix that platforms allow around its name.
    private static func bare(_ topic: String) -> String {
        var name = topic.lowercased().drop(while: \.isWhitespace)
        while name.last?.isWhitespace == true { name.removeLast() }
        let prefix = ["/topics/", "public/"].first { name.hasPrefix($0) } ?? ""
        return String(name.dropFirst(prefix.count))
    }
}
