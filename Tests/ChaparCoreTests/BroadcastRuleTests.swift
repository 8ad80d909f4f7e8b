import Foundation
import ChaparCore
import ChaparTesting
import Testing

@Suite("A recipient that is every user of a platform")
struct BroadcastRuleTests {
    static let recipients: [(Recipient, isEveryone: Bool)] = [
        (.everyone, true), (.tags(TagFilter(none: ["muted"])), true), (.tags(TagFilter()), true),
        (.tags(TagFilter(all: ["vip"], none: ["muted"])), false), (.tags(TagFilter(any: ["a", "b"])), false),
        (.topic("all"), true), (.topic("ALL"), true), (.topic(" all "), true), (.topic("/topics/all"), true),
        (.topic("public/all"), true), (.topic("allies"), false), (.topic("news"), false),
        (.token(DeviceToken("all", service: .iOSAPNs)), false), (.device("all"), false), (.user("all"), false),
        (.platformID("all"), false),
        // Conditions that hold for a user who joined no topic, or only the topics that reach every user.
        (.topic("'news' in topics"), false), (.topic("!('news' in topics)"), true),
        (.topic("!'news' in topics"), true), (.topic("!!('news' in topics)"), false),
        (.topic("'news' in topics && !('de' in topics)"), false),
        (.topic("'news' in topics || !('de' in topics)"), true),
        (.topic("'a' in topics || !('a' in topics)"), true), (.topic("'all' in topics"), true),
        (.topic("'all' in topics && 'vip' in topics"), false), (.topic("'all' in topics || 'vip' in topics"), true),
        (.topic("'all' in topics && !('vip' in topics)"), true), (.topic("!('all' in topics)"), true),
        (.topic("\"ALL\" in  topics"), true), (.topic("!('x' intopics)"), true),
        (.topic("('a' in topics && 'b' in topics) || 'c' in topics"), false),
        // From left to right, or && first: either counts.
        (.topic("!('x' in topics) || 'y' in topics && 'y' in topics"), true),
        // A condition that cannot be read may hold for every user.
        (.topic("not 'a' in topics"), true), (.topic("'a' in\ttopics"), true),
        // A name that is no condition.
        (.topic("It's hot"), false),
    ]

    @Test("is decided by the recipient and the topics that reach every user", arguments: recipients)
    func meaning(recipient: Recipient, isEveryone: Bool) {
        let closed = BroadcastRule(topics: ["All"])
        #expect(closed.isEveryone(recipient) == isEveryone)
        #expect((closed.refusal(of: recipient)?.reason == BroadcastRule.refusalReason) == isEveryone)
        #expect(BroadcastRule(isAllowed: true, topics: ["all"]).refusal(of: recipient) == nil)
    }

    @Test("is refused unless the operator allows it")
    func closedByDefault() {
        #expect(BackendAudience(forms: [.everyone]).broadcast.refusal(of: .everyone) != nil)
        #expect(BackendAudience(forms: [.topic]).broadcast.refusal(of: .topic("all")) == nil)
    }

    @Test("is read from a section")
    func reading() {
        func read(_ keys: JSONObject) -> (rule: BroadcastRule, issues: [String]) {
            let report = ConfigReport()
            let section = ConfigSection(ConfigNode(.object(keys)), path: "b", report: report, files: NoFiles())
            return (BroadcastRule(section), report.issues.map(\.path))
        }
        #expect(read([:]).rule == BroadcastRule())
        let full = read(["allow_broadcast": true, "everyone_topics": ["all", "News"]])
        #expect(full.rule == BroadcastRule(isAllowed: true, topics: ["all", "news"]) && full.issues.isEmpty)
        #expect(read(["everyone_topics": [" "]]).issues == ["b.everyone_topics"])
        #expect(read(["allow_broadcast": "maybe"]).issues == ["b.allow_broadcast"])
        #expect(BroadcastRule(topics: ["a"]).adding(topics: ["B"]).topics == ["a", "b"])
    }

    @Test("is not read for ever: a condition has a longest text and a deepest bracket")
    func bounds() {
        func nested(_ depth: Int) -> String {
            String(repeating: "(", count: depth) + "'a' in topics" + String(repeating: ")", count: depth)
        }
        #expect(TopicCondition(nested(31))?.topics == ["a"])
        #expect(TopicCondition(nested(32)) == nil)
        #expect(TopicCondition("'\(String(repeating: "a", count: TopicCondition.maximumBytes))' in topics") == nil)
        for text in [
            "", "'a'", "'a' in topics &&", "('a' in topics", "'' in topics", "a in topics", "'a' in topics 'b'",
        ] {
            #expect(TopicCondition(text) == nil, "\(text)")
        }
    }

    private struct NoFiles: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] { throw CocoaError(.fileNoSuchFile) }
    }
}
