import Foundation
import ChaparCore
import ChaparOAuth
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparService

/// A service behind a server that wants access tokens: any service, since the strategy knows nothing about push.
@Suite("A service of one's own: access tokens that are refreshed", .timeLimit(.minutes(1)))
struct ServiceAuthTests {
    private static func section(_ server: OAuth2Simulator, _ auth: JSONObject) -> SampleSection {
        SampleSection(
            [
                "url": .string(server.baseURL + "push"), "secret": .string(ServiceSimulator.secret),
                "services": ["x-pager"], "ca_file": "ca.pem", "batch_size": 1, "auth": .object(auth),
            ],
            files: ["ca.pem": server.certificatePEM]
        )
    }

    @Test("A hundred refused requests cause one refresh, and each goes out once more")
    func refreshes() async throws {
        try await OAuth2Simulator.run { server in
            let credential = server.issue()
            server.revokeAccessTokens()
            let transport = NIOTransport(logger: quiet)
            let sample = Self.section(
                server,
                [
                    "kind": "oauth2_refresh", "client_id": .string(OAuth2Simulator.clientID),
                    "token_url": .string(server.tokenURL),
                    "access_token": .string(credential.accessToken.reveal()),
                    "refresh_token": .string(credential.refreshToken?.reveal() ?? ""),
                    "store": ["kind": "memory"],
                ]
            )
            let context = BackendContext(name: "pager", http: transport, logger: quiet)
            let backend = try #require(sample.make(.service, context), "\(sample.issues)")
            let outcomes = await backend.send(.sample, to: (0..<100).map { Harness.token("t-\($0)") })
            // The server takes the token and says what it was asked, which is no batch of outcomes.
            #expect(outcomes.allSatisfy { $0.unknown?.reason == "bad_answer" }, "\(outcomes[0])")
            let seen = server.counters
            #expect(seen.tokenRequests == 1 && seen.refreshed == 1)
            #expect(seen.apiRequests == 100 + seen.refused && (1...100).contains(seen.refused))
            await backend.shutdown(grace: .zero)
            await transport.shutdown(grace: .milliseconds(100))
        }
    }

    @Test("A mistake in it is told with its key")
    func mistake() async throws {
        try await OAuth2Simulator.run { server in
            let transport = NIOTransport(logger: quiet)
            let sample = Self.section(server, ["kind": "oauth2_refreshed"])
            let context = BackendContext(name: "pager", http: transport, logger: quiet)
            #expect(sample.make(.service, context) == nil)
            #expect(sample.issues.map(\.path) == ["backends.sample.auth.kind"], "\(sample.issues)")
            await transport.shutdown(grace: .zero)
        }
    }
}
