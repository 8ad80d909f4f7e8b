import Foundation
import OneSignalBench
import ChaparCore
import ChaparOAuth
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

/// `auth: { kind: oauth2_refresh, … }` in the section of a backend: OneSignal behind a relay that takes access tokens.
@Suite("OAuth 2 refresh in a backend's section", .timeLimit(.minutes(5)))
struct OAuth2RelayTests {
    private struct Files: ConfigFileReader {
        let pem: String
        func contents(of path: String) throws -> [UInt8] { Array(pem.utf8) }
    }

    private struct Bench {
        let platform: OneSignalSimulator
        let server: OAuth2Simulator
        let transport: NIOTransport
        let state: MemoryState
        let notices: Recorder<BackendNotice>
        let credential: OAuthCredential

        /// The backend of a configuration file, as a gateway makes it.
        func backend() throws -> any PushBackend {
            let auth: JSONObject = [
                "kind": "oauth2_refresh", "client_id": .string(OAuth2Simulator.clientID),
                "token_url": .string(server.tokenURL),
                "access_token": .string(credential.accessToken.reveal()),
                "refresh_token": .string(credential.refreshToken?.reveal() ?? ""),
            ]
            let section: JSONValue = [
                "partner": [
                    "kind": "onesignal", "app_id": .string(platform.rules.appID), "base_url": .string(platform.apiURL),
                    "ca_file": "ca.pem", "request_limit": 6000, "timeout": 280, "auth": .object(auth),
                ]
            ]
            let report = ConfigReport()
            let files = Files(pem: platform.certificatePEM)
            let backends = try BackendRegistry([.oneSignal]).backends(
                in: ConfigSection(ConfigNode(section), report: report, files: files)
            ) { name in
                BackendContext(
                    name: name,
                    http: transport,
                    time: MovableTime(),
                    state: state,
                    logger: quiet,
                    announce: { notices.add($0) }
                )
            }
            #expect(report.issues.isEmpty, "\(report.issues)")
            return try #require(backends.first?.backend)
        }
    }

    private func run(_ body: (Bench) async throws -> Void) async throws {
        await Turns.shared.take()
        defer { Turns.shared.giveBack() }
        let authority = try SandboxCertificateAuthority()
        let platform = try OneSignalSimulator(.lenient, authority: authority)
        let server = try OAuth2Simulator(relayed: platform, authority: authority)
        let transport = NIOTransport(logger: quiet)
        try await platform.start()
        try await server.start()
        let bench = Bench(
            platform: platform,
            server: server,
            transport: transport,
            state: MemoryState(),
            notices: Recorder(),
            credential: server.issue()
        )
        let result = await Result { try await body(bench) }
        await transport.shutdown(grace: .milliseconds(100))
        await server.shutdown()
        await platform.shutdown()
        try result.get()
    }

    @Test("A thousand messages at once that meet 401 cause exactly one refresh, and all thousand are taken")
    func thousand() async throws {
        try await run { bench in
            let backend = try bench.backend()
            let ids = bench.platform.addPlayers(1000)
            bench.server.revokeAccessTokens()
            let taken = await withTaskGroup(of: Bool.self) { tasks in
                for id in ids {
                    tasks.addTask { await backend.send(.sample, to: [.platformID(id)])[0].acceptance != nil }
                }
                return await tasks.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(taken == 1000)
            let (tokens, platform) = (bench.server.counters, bench.platform.counters)
            #expect(tokens.tokenRequests == 1 && tokens.refreshed == 1)
            #expect(platform.created == 1000 && platform.delivered == 1000)
            #expect(platform.createRequests == 1000 + tokens.refused, "at most two exchanges for each")
            #expect((1...1000).contains(tokens.refused))
            await backend.shutdown(grace: .zero)
        }
    }

    @Test("The refreshed credential is in the gateway's store, and the next process begins with it")
    func stored() async throws {
        try await run { bench in
            let first = try bench.backend()
            let id = bench.platform.addPlayers(1)[0]
            bench.server.revokeAccessTokens()
            #expect(await first.send(.sample, to: [.platformID(id)])[0].acceptance != nil)
            await first.shutdown(grace: .zero)
            #expect(bench.state.values["oauth2/partner"] != nil)
            let second = try bench.backend()
            #expect(await second.send(.sample, to: [.platformID(id)])[0].acceptance != nil)
            #expect(bench.server.counters.tokenRequests == 1)
            await second.shutdown(grace: .zero)
        }
    }

    @Test("A refresh token that is refused parks the backend and is announced; no answer shows a token")
    func refused() async throws {
        try await run { bench in
            let backend = try bench.backend()
            let id = bench.platform.addPlayers(1)[0]
            bench.server.revokeAccessTokens()
            bench.server.revokeRefreshTokens()
            let outcome = await backend.send(.sample, to: [.platformID(id)])[0]
            #expect(outcome.refusal?.kind == .account && outcome.refusal?.advice == .parkBackend, "\(outcome)")
            #expect(Set(bench.notices.all.map(\.name)).isSuperset(of: ["credential_dropped", "token_refresh"]))
            let said = "\(outcome) \(bench.notices.all)"
            #expect(!said.contains("at-1-sandbox") && !said.contains("rt-1-sandbox"))
            #expect(bench.platform.counters.created == 0)
            await backend.shutdown(grace: .zero)
        }
    }
}

extension Result where Failure == any Error {
    /// Runs a body that suspends.
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
