import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparFCM

/// `auth: { kind: oauth2_refresh, … }` in the section of an fcm backend: Google's own refresh tokens, as RFC 6749 has
/// them.
@Suite("FCM with refreshed access tokens", .timeLimit(.minutes(2)))
struct FCMRefreshTests {
    private struct Files: ConfigFileReader {
        let pem: String
        func contents(of path: String) throws -> [UInt8] { Array(pem.utf8) }
    }

    private static func backend(
        _ section: JSONObject,
        pem: String = "",
        http: any HTTPTransport
    ) throws -> (backend: FCMBackend?, issues: [String]) {
        let report = ConfigReport()
        let all = ConfigSection(ConfigNode(["android": .object(section)]), report: report, files: Files(pem: pem))
        let backends = try BackendRegistry([.fcm]).backends(in: all) { name in
            BackendContext(name: name, http: http, logger: quiet)
        }
        return (backends.first?.backend as? FCMBackend, report.issues.map { "\($0.path): \($0.problem)" })
    }

    @Test("A backend begins with a refresh token, and any number of refused messages cause one refresh")
    func refreshes() async throws {
        try await FCMSimulator.run { simulator in
            let tokens = (0..<100).map(deviceToken)
            simulator.register(tokens: tokens)
            simulator.register(refreshToken: "1//person")
            let transport = NIOTransport(logger: quiet)
            let section: JSONObject = [
                "kind": "fcm", "project_id": .string(simulator.account.projectID), "ca_file": "ca.pem",
                "base_url": .string(simulator.url(.send)), "timeout": 60,
                "auth": [
                    "kind": "oauth2_refresh", "client_id": "c", "client_secret": "s", "client_auth": "post",
                    "body_encoding": "form", "send_access_token": "false", "token_url": .string(simulator.tokenURI),
                    "refresh_token": "1//person",
                ],
            ]
            let made = try Self.backend(section, pem: simulator.authority.certificatePEM, http: transport)
            let backend = try #require(made.backend, "\(made.issues)")
            let everybody = tokens.map { recipient($0) }
            let first = await backend.send(PushNotification(title: "one"), to: everybody)
            #expect(first.allSatisfy { $0.acceptance != nil } && simulator.counters.tokensIssued == 1)
            simulator.revokeAccessTokens()
            let second = await backend.send(PushNotification(title: "two"), to: everybody)
            #expect(second.allSatisfy { $0.acceptance != nil } && simulator.counters.tokensIssued == 2)
            #expect(simulator.inbox.count == 200, "nobody got it twice")
            await backend.shutdown(grace: .milliseconds(100))
            await transport.shutdown(grace: .milliseconds(100))
        }
    }

    static let refresh: JSONValue = ["kind": "oauth2_refresh", "client_id": "c", "refresh_token": "r"]
    static let mistakes: [(JSONObject, String)] = [
        (["auth": refresh], "android.project_id: is missing"),
        (["auth": refresh, "project_id": "p", "service_account": "{}"], "android.auth: stands beside service_account"),
        (["auth": ["kind": "basic"], "project_id": "p"], "android.auth.kind: \"basic\" is not allowed"),
        (["auth": ["kind": "oauth2_refresh"], "project_id": "p"], "android.auth.client_id: is missing"),
    ]

    @Test("A mistake is named with its path", arguments: mistakes)
    func namesMistake(keys: JSONObject, expected: String) throws {
        var section = keys
        section["kind"] = "fcm"
        let (backend, issues) = try Self.backend(section, http: NIOTransport(logger: quiet))
        #expect(backend == nil && issues.contains(expected), "\(issues)")
    }
}
