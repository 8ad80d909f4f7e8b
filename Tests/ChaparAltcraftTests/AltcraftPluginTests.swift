import Crypto
import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparAltcraft

/// The values of a configuration file, and every mistake in it.
@Suite("Altcraft: configuration", .timeLimit(.minutes(1)))
struct AltcraftPluginTests {
    private struct Files: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] {
            guard path == "key.pem" else { throw CocoaError(.fileNoSuchFile) }
            return Array(P256.Signing.PrivateKey().pemRepresentation.utf8)
        }
    }

    /// A section as a file would give it.
    private static func make(_ keys: JSONObject) async -> (backend: AltcraftBackend?, issues: [ConfigIssue]) {
        let report = ConfigReport()
        let section = ConfigSection(ConfigNode(.object(keys)), path: "backends.crm", report: report, files: Files())
        let transport = NIOTransport(logger: quiet)
        let context = BackendContext(name: "crm", http: transport, logger: quiet)
        let backend = BackendFactory.altcraft.make(section, context) as? AltcraftBackend
        section.finish()
        await backend?.shutdown(grace: .zero)
        await transport.shutdown(grace: .zero)
        return (backend, report.issues)
    }

    private static let least: JSONObject = [
        "api_url": "https://pxl-acme.altcraft.com/px/", "auth": ["kind": "rtoken", "rtoken": "secret-role"],
    ]

    static let good: [JSONObject] = [
        least,
        least.overlaid(with: [
            "provider_priority": ["IOS-Firebase", "ios-apns"], "sync": false, "event_codes": "current",
            "app_info": ["app_id": "1", "app_iid": "2", "app_ver": "3"], "on_remove": "nothing", "profile_update": true,
            "retry": ["schedule": "gateway", "max_attempts": 20, "sweep_seconds": 60, "also": [408, 429]],
            "campaign": ["url": "https://acme.altcraft.com", "api_token": "t", "trigger_id": 13],
        ]),
        least.overlaid(with: [
            "campaign": [
                "url": "https://acme.altcraft.com", "api_token": "t", "trigger_id": 13, "call": "import_and_start",
                "matching": "phone", "resource_id": 24, "db_id": 12,
            ]
        ]),
        least.overlaid(with: [
            "auth": [
                "kind": "jwt", "provider": "url", "url": "https://id.example.com/jwt", "secret": "s",
                "check_subject": true,
            ]
        ]),
        least.overlaid(with: ["auth": ["kind": "jwt", "provider": "file", "path": "/run/{user}.jwt"]]),
        least.overlaid(with: ["auth": ["kind": "jwt", "provider": "command", "command": ["/bin/echo", "{user}"]]]),
        least.overlaid(with: [
            "auth": [
                "kind": "jwt", "provider": "sign", "alg": "ES256", "key_file": "key.pem", "db_id": 12,
                "matching": "custom",
                "field_name": "crm_id", "anonymous": ["db_id": 11, "matching": "profile_id"],
            ]
        ]),
    ]

    @Test("Every kind of credential makes a backend, which can do what its keys say", arguments: good.indices)
    func makes(index: Int) async throws {
        let (backend, issues) = await Self.make(Self.good[index])
        #expect(issues.isEmpty, "\(issues)")
        let made = try #require(backend)
        #expect(made.subscriptions != nil && made.events != nil && made.devices != nil)
        guard index == 1 else { return }
        #expect(made.tags != nil && made.audience.forms == [.user, .platformID])
        #expect(made.mobile.stamp == "ios-firebase,ios-apns")
        #expect(made.operationPolicy.maximumAttempts == 20 && made.operationPolicy.honoursRetryAfter)
    }

    @Test("The pixel of custom events is the section's")
    func pixel() async throws {
        let (backend, issues) = await Self.make(Self.least.overlaid(with: ["pixel": "px-1"]))
        #expect(issues.isEmpty && backend?.customEvents != nil && backend?.client.options.pixel == "px-1")
    }

    static let bad: [(JSONObject, [String])] = [
        (least.overlaid(with: ["pixel": " "]), ["backends.crm.pixel"]),
        ([:], ["backends.crm.api_url", "backends.crm.auth"]),
        (least.overlaid(with: ["api_url": ""]), ["backends.crm.api_url"]),
        (least.overlaid(with: ["api_url": "ftp://x"]), ["backends.crm.api_url"]),
        (least.overlaid(with: ["api_url": "https://"]), ["backends.crm.api_url"]),
        (least.overlaid(with: ["api_url": "https://x.test/?a=1"]), ["backends.crm.api_url"]),
        (least.overlaid(with: ["api_url": "http://x.test"]), ["backends.crm.api_url"]),
        (least.overlaid(with: ["auth": ["kind": "rtoken"]]), ["backends.crm.auth.rtoken"]),
        (least.overlaid(with: ["auth": ["kind": "rtoken", "rtoken": " "]]), ["backends.crm.auth.rtoken"]),
        (
            least.overlaid(with: ["auth": ["kind": "rtoken", "rtoken": "x", "url": "https://y"]]),
            ["backends.crm.auth.url"]
        ),
        (least.overlaid(with: ["auth": ["kind": "basic"]]), ["backends.crm.auth.kind"]),
        (
            least.overlaid(with: ["auth": ["kind": "oauth2_refresh", "client_id": "c", "refresh_token": "r"]]),
            ["backends.crm.auth.kind"]
        ),
        (
            least.overlaid(with: [
                "campaign": [
                    "url": "https://a.test", "api_token": "t", "trigger_id": 13, "matching": "push_sub", "call": "stop",
                ]
            ]),
            ["backends.crm.campaign.call", "backends.crm.campaign.matching"]
        ),
        (least.overlaid(with: ["auth": ["kind": "jwt", "provider": "magic"]]), ["backends.crm.auth.provider"]),
        (least.overlaid(with: ["auth": ["kind": "jwt", "provider": "file", "path": "x"]]), ["backends.crm.auth.path"]),
        (
            least.overlaid(with: ["auth": ["kind": "jwt", "provider": "command", "command": ["x"]]]),
            ["backends.crm.auth.command"]
        ),
        (
            least.overlaid(with: [
                "auth": ["kind": "jwt", "provider": "sign", "key_file": "gone", "matching": "custom"]
            ]),
            ["backends.crm.auth.db_id", "backends.crm.auth.field_name", "backends.crm.auth.key_file"]
        ),
        (
            least.overlaid(with: [
                "auth": ["kind": "jwt", "provider": "sign", "key_file": "key.pem", "db_id": 1, "matching": "email"]
            ]), ["backends.crm.auth.key_file"]
        ),
        (least.overlaid(with: ["provider_priority": ["ios-apns", "amazon"]]), ["backends.crm.provider_priority"]),
        (least.overlaid(with: ["provider_priority": ["ios-apns", "ios-apns"]]), ["backends.crm.provider_priority"]),
        (least.overlaid(with: ["event_codes": "new", "sink": 1]), ["backends.crm.event_codes", "backends.crm.sink"]),
        (
            least.overlaid(with: ["retry": ["also": [500], "x": 1]]),
            ["backends.crm.retry.also", "backends.crm.retry.x"]
        ),
        (
            least.overlaid(with: ["campaign": ["matching": "custom"]]),
            [
                "backends.crm.campaign.api_token", "backends.crm.campaign.field_name",
                "backends.crm.campaign.trigger_id",
                "backends.crm.campaign.url",
            ]
        ),
    ]

    @Test("Every mistake is named with its key path, all at once, and no secret is in it", arguments: bad.indices)
    func refuses(index: Int) async {
        let (keys, paths) = Self.bad[index]
        let (backend, issues) = await Self.make(keys)
        #expect(backend == nil && issues.map(\.path).sorted() == paths, "\(issues)")
        #expect(!issues.contains { "\($0)".contains("secret-role") })
    }

    @Test("A service of one's own gives JWTs: asked with user and device, 404 is none")
    func service() async throws {
        try await Harness.run { harness in
            let url = try #require(HTTPBaseURL(url: harness.simulator.url + "/jwt"))
            var common = CommonBackendOptions(timeout: .seconds(10))
            common.trustPEM = harness.simulator.certificatePEM
            let source = try AltcraftURLTokens(url: url, secret: Secret("s"), common: common, http: harness.transport)
            let answers: [(Int, String, String?)] = [
                (200, AltcraftAuthTests.vector, AltcraftAuthTests.vector), (200, #"{"token":"t"}"#, "t"),
                (200, #"{"jwt":"j"}"#, "j"), (404, "", nil), (204, "", nil),
            ]
            for (status, body, expected) in answers {
                let answer = FaultAnswer(status, body: Array(body.utf8))
                harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(answer))])
                let jwt = try await source.jwt(for: AltcraftAuthTests.ada)?.reveal()
                #expect(jwt == expected)
            }
            harness.simulator.add([FaultRule(.answer(FaultAnswer(500)))])
            let error = await failure { () async throws(PushError) in
                _ = try await source.jwt(for: AltcraftAuthTests.ada)
            }
            #expect(error?.reason == "540" && error?.code == .unavailable)
            await source.shutdown(grace: .zero)
        }
    }

    @Test("The simulator accepts the gateway's JWT and refuses one of another key")
    func signed() async throws {
        let (ours, theirs) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        for (key, isGood) in [(ours, true), (theirs, false)] {
            let time = InstantTime(Date(timeIntervalSince1970: 1_760_000_000))
            let signer = try AltcraftSigner(
                .es256,
                keyPEM: Secret(key.pemRepresentation),
                users: .init(databaseID: 12, matching: "custom", fieldName: "crm_id"),
                time: time
            )
            var rules = AltcraftSimulator.Rules()
            rules.publicKeysPEM = [ours.publicKey.pemRepresentation]
            try await Harness.run(rules, source: signer) { harness in
                let error = await failure { () async throws(PushError) in _ = try await harness.change(.subscribed) }
                #expect((error == nil) == isGood && (harness.ada() != nil) == isGood)
                if !isGood { #expect(error?.code == .invalidRequest, "one user's JWT is not the account's fault") }
            }
        }
    }
}
