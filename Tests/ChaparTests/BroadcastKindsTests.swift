import Foundation
import Logging
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparCommands
@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer
@testable import chapar

/// `allow_broadcast` in the section of each kind of backend that can address every user.
@Suite("A message to every user, for every kind of backend", .timeLimit(.minutes(1)))
struct BroadcastKindsTests {
    private struct NoFiles: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] { throw CocoaError(.fileNoSuchFile) }
    }

    /// A kind, its section, the name that the rule is given by, and overrides that a sender may try.
    struct Kind: CustomTestStringConvertible {
        var name: String
        var section: JSONObject
        /// Topics that reach every user there without `everyone_topics`.
        var topics: [String] = []
        var overrides: [JSONObject] = []
        /// The part of the section that has the rule.
        var part: String?

        var testDescription: String { name }

        func allowing(_ isAllowed: Bool) -> JSONObject {
            let rule: JSONObject = ["allow_broadcast": .bool(isAllowed), "everyone_topics": ["everybody"]]
            guard let part else { return section.merging(rule) }
            var whole = section
            whole[part] = .object((section[part]?.objectValue ?? [:]).merging(rule))
            return whole
        }
    }

    private static let auth: JSONValue = [
        "kind": "oauth2_refresh", "client_id": "gateway", "access_token": "first", "refresh_token": "renewal",
        "expires_in": 3600, "token_url": "https://login.test/token",
    ]
    private static let app: JSONObject = ["app_id": "8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77", "api_key": "os_v2_app_x"]
    private static let segments: [JSONObject] = [
        ["included_segments": ["All"]], ["filters": []], ["include_aliases": [:]], ["excluded_segments": []],
    ]

    static let kinds: [Kind] = [
        Kind(
            name: "fcm",
            section: ["project_id": "shop", "auth": auth],
            topics: ["!('a' in topics)", "'everybody' in topics"],
            overrides: [["topic": "everybody"], ["condition": "!('a' in topics)"]]
        ),
        Kind(
            name: "hms",
            section: ["app_id": "1001", "auth": auth],
            topics: ["!('a' in topics)"],
            overrides: [["topic": "everybody"], ["condition": "!('a' in topics)"]]
        ),
        Kind(
            name: "rustore",
            section: ["project_id": "shop", "service_token": "t", "mode": "universal"],
            overrides: [["topic": "everybody"]]
        ),
        Kind(name: "onesignal", section: app, topics: ["All", "Subscribed Users"], overrides: segments),
        Kind(
            name: "idpush",
            section: ["project_id": "p", "onesignal": .object(app)],
            topics: ["All"],
            overrides: segments,
            part: "onesignal"
        ),
        Kind(
            name: "chabok",
            section: ["environment": "sandbox", "app_id": "shop", "access_token": "t"],
            topics: ["default", "public/default"],
            overrides: [["allow_broadcast": true], ["target": [:]], ["user": "*"]]
        ),
        Kind(
            name: "http",
            section: [
                "url": "https://own.test/push", "secret": "0123456789abcdef0123456789",
                "recipients": ["topic", "tags", "everyone"],
            ]
        ),
    ]

    private static func make(_ kind: String, _ keys: JSONObject) throws -> (any PushBackend, ScriptedTransport) {
        let factory = try #require(Plugins.program.backends.first { $0.kind.rawValue == kind })
        let report = ConfigReport()
        let section = ConfigSection(ConfigNode(.object(keys)), path: "b", report: report, files: NoFiles())
        let http = ScriptedTransport { _ in .success(HTTPAnswer(status: 200, body: Array("{}".utf8))) }
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let backend = factory.make(section, BackendContext(name: "own", http: http, logger: logger))
        section.finish()
        return (try #require(backend, "\(report.issues)"), http)
    }

    /// The codes of the issues in the gateway's answer to a request.
    private static func issues(_ backend: any PushBackend, _ to: JSONValue, _ overrides: JSONObject = [:]) -> [String] {
        var body: JSONObject = ["to": to, "content": ["title": "t", "body": "b"], "backend": "own"]
        if !overrides.isEmpty { body["overrides"] = .object(overrides) }
        let snapshot = GatewaySnapshot(
            configuration: GatewayConfiguration(),
            backends: [BackendRegistry.ConfiguredBackend(name: "own", backend: backend)]
        )
        do throws(DirectRequest.Refused) {
            let kinds = ["onesignal"]  // IDPush sends by OneSignal's words.
            _ = try DirectRequest(reading: JSONValue.object(body).bytes, snapshot: snapshot, knownKinds: kinds)
            return []
        } catch {
            return error.issues.map(\.code)
        }
    }

    /// Audiences that each kind counts as every user, and audiences that it does not.
    private static func audiences(_ kind: Kind, _ backend: any PushBackend) -> [(Recipient, JSONValue, Bool)] {
        var all: [(Recipient, JSONValue, Bool)] = [
            (.topic("news"), ["topic": "news"], false), (.everyone, ["everyone": true], true),
            (.tags(TagFilter(none: ["muted"])), ["tags": ["none": ["muted"]]], true),
            (.tags(TagFilter(all: ["vip"], none: ["muted"])), ["tags": ["all": ["vip"], "none": ["muted"]]], false),
        ]
        for topic in kind.topics + ["everybody", "Everybody"] {
            all.append((.topic(topic), ["topic": .string(topic)], true))
        }
        return all.filter { backend.audience.contains($0.0) }
    }

    @Test("goes out where the section allows it, and nowhere else", arguments: kinds, [false, true])
    func allowed(kind: Kind, isAllowed: Bool) async throws {
        guard Platforms.registered.contains(kind.name) else { return }
        let (backend, http) = try Self.make(kind.name, kind.allowing(isAllowed))
        let audiences = Self.audiences(kind, backend)
        #expect(audiences.contains { $0.2 } && audiences.contains { !$0.2 })
        for (recipient, to, isEverybody) in audiences {
            let refused = isEverybody && !isAllowed
            #expect(
                Self.issues(backend, to).contains(BroadcastRule.refusalReason) == refused,
                "\(recipient): \(Self.issues(backend, to))"
            )
            // In code, where there is no key and no gateway before it.
            let before = http.calls.count
            let outcome = await backend.send(PushNotification(title: "t", body: "b"), to: recipient)
            #expect((outcome.refusal?.reason == BroadcastRule.refusalReason) == refused, "\(recipient): \(outcome)")
            if refused { #expect(http.calls.count == before, "\(recipient)") }
        }
        await backend.shutdown(grace: .zero)
    }

    @Test("cannot be made by overrides, whatever the section says", arguments: kinds, [false, true])
    func overrides(kind: Kind, isAllowed: Bool) async throws {
        guard Platforms.registered.contains(kind.name) else { return }
        let (backend, http) = try Self.make(kind.name, kind.allowing(isAllowed))
        let word = kind.name == "idpush" ? "onesignal" : kind.name
        let forms: [(Recipient, JSONValue)] = [
            (.topic("news"), ["topic": "news"]), (.user("ada"), ["users": ["ada"]]),
        ]
        for own in kind.overrides {
            for (recipient, to) in forms where backend.audience.contains(recipient) {
                if case .topic = recipient {
                    #expect(!Self.issues(backend, to, [word: .object(own)]).isEmpty, "\(own)")
                }
                let notification = PushNotification(title: "t", body: "b", overrides: [word: own])
                let before = http.calls.count
                let outcome = await backend.send(notification, to: recipient)
                #expect(outcome.refusal?.kind == .message, "\(own): \(outcome)")
                #expect(http.calls.count == before, "\(own)")
            }
        }
        await backend.shutdown(grace: .zero)
    }

    @Test("is decided by the OneSignal app that sends, not by IDPush", .about("idpush"))
    func relay() throws {
        let report = ConfigReport()
        let keys: JSONObject = ["project_id": "p", "allow_broadcast": true, "onesignal": .object(Self.app)]
        let section = ConfigSection(ConfigNode(.object(keys)), path: "b", report: report, files: NoFiles())
        let factory = try #require(Plugins.program.backends.first { $0.kind.rawValue == "idpush" })
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        _ = factory.make(section, BackendContext(name: "own", http: ScriptedTransport(), logger: logger))
        section.finish()
        #expect(report.issues.map(\.path) == ["b.allow_broadcast"])
    }

    @Test("is no setting of kinds that address single devices only", arguments: ["apns", "altcraft"])
    func others(kind: String) throws {
        guard Platforms.registered.contains(kind) else { return }
        let report = ConfigReport()
        let keys: JSONObject = ["allow_broadcast": true]
        let section = ConfigSection(ConfigNode(.object(keys)), path: "b", report: report, files: NoFiles())
        let factory = try #require(Plugins.program.backends.first { $0.kind.rawValue == kind })
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let backend = factory.make(section, BackendContext(name: "own", http: ScriptedTransport(), logger: logger))
        section.finish()
        #expect(backend == nil)
        #expect(report.issues.contains { $0.path == "b.allow_broadcast" })
    }
}
