import Foundation
import ChaparCore
import ChaparQueue
import Testing

@Suite("The rule of an audience")
struct AudienceRuleTests {
    private func read(_ text: String) throws -> (rule: AudienceRule?, mistakes: [String]) {
        let found = AudienceRule.reading(try JSONValue(parsing: Array(text.utf8)), at: "#/to/audience")
        return (found.rule, found.mistakes.map { "\($0.pointer) \($0.code)" })
    }

    private func device(
        tags: [String] = [],
        locale: String? = nil,
        version: String? = nil,
        seen: Double? = nil
    ) -> AudienceFacts {
        let device = Device(
            id: "d",
            platform: "ios",
            tags: tags,
            locale: locale,
            appVersion: version,
            timeZone: "Asia/Tehran",
            createdAt: Date(timeIntervalSince1970: 0),
            lastSeen: seen.map(Date.init(timeIntervalSince1970:))
        )
        return AudienceFacts(device, moment: 1_000_000)
    }

    @Test("The rule of the documentation is read, and written in the form that it is read from")
    func example() throws {
        let text = """
            {"all":[{"tag":"news"},{"any":[{"platform":"ios"},{"tag":"beta"}]},{"not":{"tag":"muted"}},\
            {"seen_within":"P30D"},{"locale":"fa"},{"version":{"below":"4.2"}}]}
            """
        let (rule, mistakes) = try read(text)
        #expect(mistakes.isEmpty)
        #expect(rule?.json.text == text)
        #expect(rule.flatMap { AudienceRule(stored: $0.stored) } == rule)
        #expect(rule?.leafCount == 7)
        let coded = try JSONDecoder().decode(AudienceRule.self, from: JSONEncoder().encode(rule))
        #expect(coded == rule)
    }

    @Test(
        "A bad rule is told of with the pointer to each mistake",
        arguments: [
            ("{}", ["#/to/audience audience_empty"]), (#"{"all":[]}"#, ["#/to/audience/all audience_empty"]),
            (#"{"tag":"a","platform":"ios"}"#, ["#/to/audience audience_ambiguous"]),
            (#"{"tagg":"a"}"#, ["#/to/audience/tagg unknown_leaf"]), ("[]", ["#/to/audience wrong_type"]),
            (
                #"{"any":[{"tag":""},{"tag":5},{"zone":"Mars/Base"},{"service":"pigeon"},{"everyone":false}]}"#,
                [
                    "#/to/audience/any/0/tag empty", "#/to/audience/any/1/tag wrong_type",
                    "#/to/audience/any/2/zone unknown_zone", "#/to/audience/any/3/service unknown_service",
                    "#/to/audience/any/4/everyone audience_empty",
                ]
            ), (#"{"seen_within":"P1M"}"#, ["#/to/audience/seen_within bad_duration"]),
            (#"{"version":{"above":"4"}}"#, ["#/to/audience/version/above unknown_field"]),
            (#"{"version":"beta"}"#, ["#/to/audience/version bad_version"]),
            (#"{"segment":"a b"}"#, ["#/to/audience/segment bad_segment"]),
            (#"{"platform":"Android"}"#, ["#/to/audience/platform unknown_platform"]),
            (#"{"platform":"windows"}"#, ["#/to/audience/platform unknown_platform"]),
            (#"{"platform":"x-"}"#, ["#/to/audience/platform unknown_platform"]),
        ]
    )
    func mistakes(text: String, expected: [String]) throws {
        let found = try read(text)
        #expect(found.mistakes == expected)
        #expect(found.rule == nil)
    }

    @Test("A platform is a known one or x- and a name; a stored rule keeps the one that it has")
    func platforms() throws {
        for name in ["ios", "android", "harmony", "web", "x-watch"] {
            #expect(try read(#"{"platform":"\#(name)"}"#).rule == .platform(name))
        }
        #expect(AudienceRule(stored: Array(#"{"platform":"windows"}"#.utf8)) == .platform("windows"))
        let (_, mistakes, _) = AudienceRule.reading(["platform": "Android"], at: "#")
        #expect(mistakes.first?.detail.hasPrefix("Did you mean \"android\"?") == true, "\(mistakes)")
    }

    @Test("Depth, leaves and alternatives have bounds")
    func bounds() throws {
        func nested(_ depth: Int) -> String {
            String(repeating: #"{"not":"#, count: depth - 1) + #"{"tag":"a"}"#
                + String(repeating: "}", count: depth - 1)
        }
        #expect(try read(nested(8)).mistakes.isEmpty)
        #expect(try read(nested(9)).mistakes.first?.hasSuffix("too_deep") == true)
        func some(_ count: Int, _ node: String = "any") -> String {
            "{\"\(node)\":[" + (0..<count).map { "{\"tag\":\"t\($0)\"}" }.joined(separator: ",") + "]}"
        }
        #expect(try read(some(50)).mistakes.isEmpty)
        #expect(try read(some(51)).mistakes == ["#/to/audience/any too_many_rules"])
        #expect(try read("{\"all\":[\(some(50)),\(some(50))]}").mistakes.isEmpty)
        let tooMany = try read("{\"all\":[\(some(50)),\(some(50)),{\"tag\":\"x\"}]}")
        #expect(tooMany.mistakes == ["#/to/audience too_many_leaves"])
    }

    @Test("A leaf is false for a device without the value, and not is true for it")
    func absence() {
        let bare = device()
        let leaves: [AudienceRule] = [
            .tag("a"), .userTag("a"), .service("ios-apns"), .locale("fa"), .version(.init(below: "9")),
            .seenWithin(9_999_999), .segment("vip"),
        ]
        for leaf in leaves {
            #expect(!leaf.matches(bare), "\(leaf)")
            #expect(AudienceRule.not(leaf).matches(bare), "\(leaf)")
        }
    }

    @Test("Locales match by subtags, versions by numbers, spans to the second")
    func leaves() {
        #expect(AudienceRule.locale("fa").matches(device(locale: "fa-IR")))
        #expect(AudienceRule.locale("FA").matches(device(locale: "fa_IR")))
        #expect(!AudienceRule.locale("fa").matches(device(locale: "fab")))
        #expect(!AudienceRule.locale("fa-IR").matches(device(locale: "fa")))
        let below = AudienceRule.version(.init(below: "4.10"))
        #expect(below.matches(device(version: "4.9")))
        #expect(!below.matches(device(version: "4.10.0")))
        #expect(!below.matches(device(version: "5")))
        #expect(AudienceRule.version(.init(equal: "4.2")).matches(device(version: "4.2.0-beta")))
        #expect(AudienceRule.version(.init(below: "5", atLeast: "4")).matches(device(version: "4")))
        #expect(
            !AudienceRule.version(.init(atLeast: "1")).matches(device(version: "99999999999999999999999.x")) == false
        )
        #expect(AudienceRule.seenWithin(100).matches(device(seen: 900)))
        #expect(!AudienceRule.seenWithin(100).matches(device(seen: 899.999)))
        #expect(AudienceRule.registeredWithin(Int64.max).matches(device()))
    }

    @Test("A rule is narrow when every way to match needs a tag or a segment")
    func narrow() {
        let (tag, platform) = (AudienceRule.tag("a"), AudienceRule.platform("ios"))
        for rule in [
            tag, .userTag("a"), .segment("s"), .all([platform, tag]), .any([tag, .segment("s")]), .not(.not(tag)),
        ] {
            #expect(rule.isNarrow, "\(rule)")
        }
        let broad: [AudienceRule] = [
            .everyone, platform, .not(tag), .any([tag, platform]), .not(.all([tag, tag])), .all([.not(tag), platform]),
        ]
        for rule in broad { #expect(!rule.isNarrow, "\(rule)") }
        // What is not narrow has no index that contains its devices.
        for rule in broad { #expect(rule.sources(in: .default) { _ in 1 } == nil, "\(rule)") }
    }

    @Test("The rarest part of all is what is read, and the union of any")
    func sources() throws {
        let counts = ["t:common": Int64(1_000), "t:rare": 10, "u:gold": 200]
        func plan(_ rule: AudienceRule) -> AudiencePlan {
            AudiencePlan(Audience(app: .default, rule: rule, services: [], moment: 0), counts: counts)
        }
        #expect(plan(.all([.tag("common"), .tag("rare")])).sources == [.tag("rare")])
        let any = plan(.any([.tag("common"), .userTag("gold"), .tag("common")]))
        #expect(any.sources == [.tag("common"), .label("u:gold")])
        #expect(any.candidates == 2_200)
        #expect(plan(.any([.tag("rare"), .platform("ios")])).sources == nil)
    }

    @Test("Spans are written and read", arguments: [("P30D", 2_592_000), ("PT1H30M", 5_400), ("P2W", 1_209_600)])
    func spans(text: String, seconds: Int64) {
        #expect(ISODuration.seconds(text) == seconds)
        #expect(ISODuration.seconds(ISODuration.text(seconds)) == seconds)
    }

    @Test(
        "Other texts are no spans",
        arguments: ["", "P", "PT", "30D", "P1Y", "P1M", "PT1S1M", "P-1D", "P99999999999999999999D"]
    )
    func noSpans(text: String) { #expect(ISODuration.seconds(text) == nil) }
}
