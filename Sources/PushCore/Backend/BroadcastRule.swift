/// Whether the whole population of a platform may be addressed at one stroke, and by which topics that would happen.
///
/// The operator decides it where the backend is set up, for all who send through it: `allow_broadcast` in the backend's section,
/// or the options of code. Nothing in a notification can widen it. The gateway asks before it accepts, and each backend that can
/// address a population asks again before it sends.
public struct BroadcastRule: Sendable, Hashable {
    /// The word of every refusal.
    public static let refusalReason = "broadcast_not_allowed"

    /// `allow_broadcast`: whether everybody may be addressed, default false.
    public var isAllowed: Bool
    /// Topics or segments that stand for everybody: `everyone_topics`, and those of the platform itself.
    public private(set) var topics: Set<String>

    /// Makes a rule; nothing is allowed unless said.
    ///
    /// - Parameters:
    ///   - isAllowed: Whether everybody may be addressed.
    ///   - topics: Topics or segments that stand for everybody; letter case makes no difference.
    public init(isAllowed: Bool = false, topics: Set<String> = []) {
        self.isAllowed = isAllowed
        self.topics = Set(topics.map(Self.bare))
    }

    /// Reads `allow_broadcast` and `everyone_topics` of a backend's section: for each kind that can address a population.
    ///
    public init(_ section: ConfigSection) {
        let isAllowed = section.bool("allow_broadcast", default: false)
        let named = section.strings("everyone_topics") ?? []
        if named.contains(where: { $0.allSatisfy(\.isWhitespace) }) {
            section.reject("everyone_topics", "holds an empty name", fix: "Name topics, or leave the key out.")
        }
        self.init(isAllowed: isAllowed, topics: Set(named))
    }

    /// The rule with more topics that stand for everybody: those of the platform itself, whatever the operator names.
    public func adding(topics more: Set<String>) -> BroadcastRule {
        BroadcastRule(isAllowed: isAllowed, topics: topics.union(more))
    }

    /// Whether a recipient is everybody: as such, by tags that only leave some out, by a topic that stands for everybody, or by
    /// a condition over topics that holds for whoever joined no other.
    public func isEveryone(_ recipient: Recipient) -> Bool {
        switch recipient {
        case .token, .device, .user, .platformID: false
        case .tags(let filter): filter.all.isEmpty && filter.any.isEmpty
        case .topic(let text): isEveryone(topic: text)
        case .everyone: true
        }
    }

    /// Why a recipient gets nothing from a backend under this rule; nil when the rule does not stand against it.
    public func refusal(of recipient: Recipient) -> Refusal? {
        guard !isAllowed, isEveryone(recipient) else { return nil }
        return Refusal(
            .message,
            reason: Self.refusalReason,
            detail: "This addresses everybody on the platform: the operator allows it with allow_broadcast.",
            advice: .never
        )
    }

    private func isEveryone(topic text: String) -> Bool {
        if topics.contains(Self.bare(text)) { return true }
        guard TopicCondition.isMeant(by: text) else { return false }
        // One that cannot be read may mean anything.
        guard let condition = TopicCondition(text) else { return true }
        return condition.holds { _ in false } || condition.holds { topics.contains(Self.bare($0)) }
    }

    /// A topic without what platforms allow before its name.
    private static func bare(_ topic: String) -> String {
        var name = topic.lowercased().drop(while: \.isWhitespace)
        while name.last?.isWhitespace == true { name.removeLast() }
        let prefix = ["/topics/", "public/"].first { name.hasPrefix($0) } ?? ""
        return String(name.dropFirst(prefix.count))
    }
}
