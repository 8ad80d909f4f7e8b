import Crypto
import Foundation
import ChaparCore
import ChaparSimulator
import Testing

@testable import ChaparAPNsSimulator

// Source: specs, APNs, sections 2.1 to 2.4.
@Suite("Who may send", .timeLimit(.minutes(1)))
struct APNsAuthenticationTests {
    static let tokens: [RuleCase] = [
        .init("no token", "MissingProviderToken") { $0.set("authorization", nil) },
        .init("Basic", "InvalidProviderToken") { $0.set("authorization", "Basic eDp5") },
        .init("two parts", "InvalidProviderToken") { $0.set("authorization", "bearer a.b") },
        .init("another algorithm", "InvalidProviderToken") {
            try $0.authorize(header: #"{"alg":"HS256","kid":"CHAPARKEY1"}"#, claims: claims(0))
        },
        .init("no key id", "InvalidProviderToken") { try $0.authorize(header: #"{"alg":"ES256"}"#, claims: claims(0)) },
        .init("unknown key id", "InvalidProviderToken") {
            try $0.authorize(header: #"{"alg":"ES256","kid":"UNKNOWNKEY"}"#, claims: claims(0))
        },
        .init("another key's signature", "InvalidProviderToken") { try $0.authorize(APNsSigningKey()) },
        .init("another team", "InvalidProviderToken") {
            try $0.authorize(header: header, claims: #"{"iss":"OTHERTEAM1","iat":1790000000}"#)
        },
        .init("an hour old", nil) { try $0.authorize(RuleBench.key, age: 3600) },
        .init("older than an hour", "ExpiredProviderToken") { try $0.authorize(RuleBench.key, age: 3601) },
        .init("a minute ahead", nil) { try $0.authorize(RuleBench.key, age: -60) },
        .init("more than a minute ahead", "InvalidProviderToken") { try $0.authorize(RuleBench.key, age: -61) },
        .init("key of the other environment", "BadEnvironmentKeyIdInToken") {
            let key = APNsSigningKey(keyID: "DEVKEY0001", environments: [.development])
            $0.state.register(key.registration)
            try $0.authorize(key)
        },
    ]

    /// Forms that the real service was seen to accept, with the refusal of the strict rules.
    static let lenientForms: [RuleCase] = [
        .init("Bearer with a capital", "InvalidProviderToken") { bench in
            bench.set("authorization", "Bearer " + (try RuleBench.key.providerToken(issuedAt: bench.now)))
        },
        .init("key id among the claims", "InvalidProviderToken") {
            try $0.authorize(
                header: header,
                claims: #"{"iss":"CHAPARTEAM","iat":1790000000,"kid":"CHAPARKEY1"}"#
            )
        },
        .init("DER signature", "InvalidProviderToken") { bench in
            let jwt = try RuleBench.key.providerToken(issuedAt: bench.now)
            let content = jwt[..<(try #require(jwt.lastIndex(of: ".")))]
            let signature = try RuleBench.key.privateKey.signature(for: Data(content.utf8))
            bench.set("authorization", "bearer \(content)." + Base64URL.encode(Array(signature.derRepresentation)))
        },
        .init("padded base64", "InvalidProviderToken") { bench in
            let jwt = try RuleBench.key.providerToken(issuedAt: bench.now)
            bench.set("authorization", "bearer \(jwt)==")
        },
    ]

    @Test("A provider token is judged", arguments: tokens)
    func judgesToken(_ rule: RuleCase) throws {
        var bench = try RuleBench()
        try rule.spoil(&bench)
        #expect(bench.verdict()?.reason == rule.reason)
    }

    @Test("Only the lenient mode takes sloppy forms", arguments: lenientForms)
    func judgesForms(_ rule: RuleCase) throws {
        for isStrict in [true, false] {
            var bench = try RuleBench()
            bench.options.isStrict = isStrict
            try rule.spoil(&bench)
            #expect(bench.verdict()?.reason == (isStrict ? rule.reason : nil))
        }
    }

    @Test("The header of every JWT library is fine")
    func typ() throws {
        var bench = try RuleBench()
        try bench.authorize(header: #"{"typ":"JWT","alg":"ES256","kid":"CHAPARKEY1"}"#, claims: Self.claims(0))
        #expect(bench.verdict() == nil)
    }

    @Test("A second token within 20 minutes is too soon, on this connection only")
    func tokenUpdates() throws {
        var bench = try RuleBench()
        #expect(bench.verdict() == nil)
        bench.now += 19 * 60
        let first = bench.headers
        try bench.authorize(RuleBench.key)
        #expect(bench.verdict() == APNsRefusal(429, "TooManyProviderTokenUpdates"))
        let second = bench.headers
        bench.headers = first
        #expect(bench.verdict() == nil, "the first token goes on working")
        bench.headers = second
        bench.now += 60
        #expect(bench.verdict() == nil)
        bench.connection = APNsConnectionState()
        bench.now += 1
        try bench.authorize(RuleBench.key)
        #expect(bench.verdict() == nil, "another connection")
    }

    @Test("The first accepted push binds the connection to its key and team")
    func binding() throws {
        var bench = try RuleBench()
        let other = APNsSigningKey(keyID: "OTHERKEY01")
        let foreign = APNsSigningKey(teamID: "OTHERTEAM1", keyID: "OTHERKEY02")
        let related = APNsSigningKey(keyID: "RELATED001", relatedKeyID: "CHAPARKEY1")
        for key in [other, foreign, related] { bench.state.register(key.registration) }
        #expect(bench.verdict() == nil)
        for (key, reason) in [(other, "UnrelatedKeyIdInToken"), (foreign, "InvalidProviderToken"), (related, nil)] {
            try bench.authorize(key)
            #expect(bench.verdict()?.reason == reason)
        }
    }

    @Test("A connection keeps the topics its key had at the first accepted push")
    func boundTopics() throws {
        var bench = try RuleBench()
        let key = APNsSigningKey(keyID: "TOPICKEY01", topics: .only([RuleBench.topic]))
        bench.state.register(key.registration)
        try bench.authorize(key)
        #expect(bench.verdict() == nil)
        bench.state.register(
            try APNsKeyRegistration(teamID: key.teamID, keyID: key.keyID, publicKeyPEM: key.publicKeyPEM)
        )
        bench.set("apns-topic", "com.example.new")
        bench.options.acceptsAnyToken = true
        bench.path = "/3/device/aa"
        #expect(bench.verdict()?.reason == "TopicDisallowed")
        bench.connection = APNsConnectionState()
        #expect(bench.verdict() == nil)
    }

    @Test("A wedged connection refuses everything after one expired token")
    func wedge() throws {
        var bench = try RuleBench()
        bench.connection.wedgesAfterExpiry = true
        try bench.authorize(RuleBench.key, age: 4000)
        #expect(bench.verdict()?.reason == "ExpiredProviderToken")
        try bench.authorize(RuleBench.key)
        #expect(bench.verdict()?.reason == "ExpiredProviderToken")
    }

    @Test("A key that was revoked is unknown at once")
    func revoked() throws {
        var bench = try RuleBench()
        #expect(bench.verdict() == nil)
        bench.state.revoke(keyID: RuleBench.key.keyID)
        #expect(bench.verdict()?.reason == "InvalidProviderToken")
    }

    static let certificates: [RuleCase] = [
        .init("with a topic of its own", nil) { certify(&$0, [RuleBench.topic]) },
        .init("one topic, none in the request", nil) {
            certify(&$0, [RuleBench.topic])
            $0.set("apns-topic", nil)
        },
        .init("several topics, none in the request", "MissingTopic") {
            certify(&$0, [RuleBench.topic, "com.example.other"])
            $0.set("apns-topic", nil)
        },
        .init("a topic it does not have", "TopicDisallowed") { certify(&$0, ["com.example.other"]) },
        .init("for development only", "BadCertificateEnvironment") {
            $0.set("authorization", nil)
            $0.connection.certificate = APNsProviderCertificate(topics: [RuleBench.topic], environments: [.development])
        },
        .init("for a Live Activity", "Forbidden") {
            certify(&$0, [RuleBench.topic])
            $0.set("apns-push-type", "liveactivity")
            $0.set("apns-topic", RuleBench.topic + ".push-type.liveactivity")
        },
        .init("of another kind", "BadCertificate") {
            $0.set("authorization", nil)
            $0.connection.hasForeignCertificate = true
        },
        .init("with an invalid token beside it, which is ignored", nil) {
            certify(&$0, [RuleBench.topic])
            $0.set("authorization", "bearer nonsense")
        },
    ]

    @Test("A client certificate is judged", arguments: certificates)
    func judgesCertificate(_ rule: RuleCase) throws {
        var bench = try RuleBench()
        try rule.spoil(&bench)
        #expect(bench.verdict()?.reason == rule.reason)
    }

    private static let header = #"{"alg":"ES256","kid":"CHAPARKEY1"}"#

    private static func claims(_ age: Int) -> String { #"{"iss":"CHAPARTEAM","iat":\#(1_790_000_000 - age)}"# }

    private static func certify(_ bench: inout RuleBench, _ topics: [String]) {
        bench.set("authorization", nil)
        bench.connection.certificate = APNsProviderCertificate(topics: topics)
    }
}
