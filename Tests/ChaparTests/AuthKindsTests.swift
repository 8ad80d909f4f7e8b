import Foundation
import Logging
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparCommands
@testable import chapar

/// `auth: { kind: oauth2_refresh }` in the section of each kind of backend.
@Suite("Access tokens of one's own for every kind of backend", .timeLimit(.minutes(1)))
struct AuthKindsTests {
    private struct NoFiles: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] { throw CocoaError(.fileNoSuchFile) }
    }

    private static let auth: JSONValue = [
        "kind": "oauth2_refresh", "client_id": "gateway", "access_token": "first", "refresh_token": "renewal",
        "expires_in": 3600, "token_url": "https://login.test/token",
    ]

    /// The other keys that each kind needs, and a recipient that it reaches.
    static let kinds: [(kind: String, keys: JSONObject, recipient: Recipient)] = [
        (
            "apns", ["topic": "com.example.app", "base_url": "https://relay.test"],
            .token(DeviceToken(String(repeating: "ab", count: 32), service: .iOSAPNs))
        ),
        ("fcm", ["project_id": "shop"], .token(DeviceToken("fcm:token", service: .androidFirebase))),
        ("hms", ["app_id": "1001"], .token(DeviceToken("hms-token", service: .androidHuawei))),
        (
            "rustore", ["project_id": "shop", "base_url": "https://relay.test"],
            .token(DeviceToken("rustore-token", service: .androidRuStore))
        ),
        ("onesignal", ["app_id": "8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77"], .user("ada")),
        ("chabok", ["environment": "sandbox", "app_id": "shop"], .user("ada")),
        (
            "http", ["url": "https://own.test/push", "secret": "0123456789abcdef0123456789", "recipients": ["user"]],
            .user("ada")
        ),
    ]

    private static func make(
        _ kind: String,
        _ keys: JSONObject,
        _ http: any HTTPTransport
    ) throws -> (backend: (any PushBackend)?, issues: [ConfigIssue]) {
        let factory = try #require(Plugins.program.backends.first { $0.kind.rawValue == kind })
        let report = ConfigReport()
        let node = ConfigNode(.object(keys))
        let section = ConfigSection(node, path: "backends.own", report: report, files: NoFiles())
        let context = BackendContext(
            name: "own",
            http: http,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        let backend = factory.make(section, context)
        section.finish()
        return (backend, report.issues)
    }

    @Test(
        "A message carries the access token of auth; after a refusal it is refreshed, once, and the message goes again",
        arguments: kinds.indices
    )
    func carries(index: Int) async throws {
        let (kind, keys, recipient) = Self.kinds[index]
        guard Platforms.registered.contains(kind) else { return }
        let http = ScriptedTransport { sent in
            if sent.endpoint.host == "login.test" {
                let body = Array(#"{"access_token":"second","refresh_token":"next","expires_in":3600}"#.utf8)
                return .success(HTTPAnswer(status: 200, body: body))
            }
            return .success(HTTPAnswer(status: sent.header("authorization") == "Bearer second" ? 200 : 401))
        }
        let (made, issues) = try Self.make(kind, keys.merging(["auth": Self.auth]), http)
        let backend = try #require(made, "\(issues)")
        _ = await backend.send(PushNotification(title: "Hi", body: "there"), to: [recipient])
        let calls = http.calls.map { "\($0.endpoint.host) \($0.header("authorization") ?? "-")" }
        #expect(calls.count == 3 && calls[1] == "login.test -", "\(calls)")
        #expect(calls[0].hasSuffix(" Bearer first") && calls[2].hasSuffix(" Bearer second"), "\(calls)")
        await backend.shutdown(grace: .zero)
    }

    @Test("IDPush's own requests carry it as well")
    func relay() async throws {
        guard Platforms.registered.contains("idpush") else { return }
        let http = ScriptedTransport()
        let (made, issues) = try Self.make("idpush", ["project_id": "p", "auth": Self.auth], http)
        let backend = try #require(made, "\(issues)")
        let device = DeviceRecord(id: "d", tokens: [DeviceToken(String(repeating: "ab", count: 32), service: .iOSAPNs)])
        _ = try? await backend.devices?.register(device)
        #expect(http.calls.first?.header("authorization") == "Bearer first")
        await backend.shutdown(grace: .zero)
    }

    static let refused: [(String, JSONObject, String)] = [
        ("altcraft", ["api_url": "https://pxl.test", "auth": auth], "each request's credential names a profile"),
        ("apns", ["topic": "com.example.app", "auth": auth], "Apple takes no other access tokens than its own"),
        (
            "apns",
            ["topic": "com.example.app", "base_url": "https://relay.test", "key_id": "ABCDE12345", "auth": auth],
            "stands beside auth"
        ),
        ("hms", ["app_id": "1001", "client_secret": "s", "auth": auth], "stands beside auth"),
        (
            "chabok", ["environment": "sandbox", "app_id": "shop", "access_token": "t", "auth": auth],
            "stands beside auth"
        ),
        ("chabok", ["environment": "sandbox", "app_id": "shop", "auth": ["kind": "magic"]], "magic"),
        ("hms", ["app_id": "1001", "auth": ["kind": "oauth2_refresh"]], "client_id"),
        ("rustore", ["project_id": "shop", "service_token": "t", "auth": auth], "stands beside auth"),
        ("rustore", ["project_id": "shop", "mode": "universal", "auth": auth], "does not go with mode: universal"),
    ]

    @Test("Where it cannot be used, one sentence says why, and nothing is made", arguments: refused.indices)
    func refuses(index: Int) throws {
        let (kind, keys, words) = Self.refused[index]
        guard Platforms.registered.contains(kind) else { return }
        let (backend, issues) = try Self.make(kind, keys, ScriptedTransport())
        #expect(backend == nil && issues.count == 1, "\(issues)")
        #expect(issues.first.map { "\($0)".contains(words) } ?? false, "\(issues)")
    }
}
