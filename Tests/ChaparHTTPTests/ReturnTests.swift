import NIOCore
import NIOPosix
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparHTTP

/// A platform that is back: how soon a pool finds out.
@Suite("A platform that is back", .serialized, .timeLimit(.minutes(1)))
struct ReturnTests {
    private static let bounds: @Sendable (inout HTTPPoolConfiguration) -> Void = {
        $0.reconnectBackoff = .milliseconds(1) ... .seconds(3600)
    }

    @Test("The first call after others have failed connects at once, however long the wait has become")
    func http2() async throws {
        let stranger = try await ScriptedServer.start(try rules { $0.identity = try TestAuthority.stranger.identity() })
        let port = stranger.port
        var tuning = HTTP2Tuning.quick
        tuning.jitter = { 1 }
        try await withPool(port: port, tuning: tuning, Self.bounds) { pool in
            try await failOften(pool)
            #expect(stranger.connections.count == 16, "each call tried to connect")
            try await stranger.stop()
            try await withServer(port: port) {
                let taken = await ContinuousClock().measure { #expect(await pool.status(of: .post(bytes: 1)) == 200) }
                #expect(taken < .seconds(2))
            }
        }
    }

    @Test("The same over HTTP/1.1")
    func http1() async throws {
        let stranger = try await HTTP1Server.start(withTLS: true, identity: try TestAuthority.stranger.identity())
        let endpoint = try #require(HTTPEndpoint(url: stranger.url))
        var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
        configuration.extraTrustPEM = try TestAuthority.shared.certificatePEM
        Self.bounds(&configuration)
        let pool = try HTTP1Pool(
            configuration,
            loop: MultiThreadedEventLoopGroup.singleton.next(),
            logger: quiet,
            jitter: { 1 }
        )
        try await failOften(pool)
        #expect(stranger.connections == 16, "each call tried to connect")
        try await stranger.stop()
        let server = try await HTTP1Server.start(withTLS: true, port: endpoint.port)
        let taken = await ContinuousClock().measure { #expect(await pool.status(of: .post(bytes: 1)) == 200) }
        #expect(taken < .seconds(2))
        await pool.shutdown(grace: .zero)
        try await server.stop()
    }

    /// Sixteen calls, one after the other: with a wait that doubled for each they would take a minute.
    private func failOften(_ pool: any HTTPPool) async throws {
        let taken = await ContinuousClock().measure {
            for _ in 0..<16 { #expect(await pool.failure(of: .post(bytes: 1))?.cause == .tls) }
        }
        #expect(taken < .seconds(20))
    }

    private func rules(_ change: (inout ScriptedServer.Rules) throws -> Void) rethrows -> ScriptedServer.Rules {
        var rules = ScriptedServer.Rules()
        try change(&rules)
        return rules
    }

    private func withServer(port: Int, _ body: () async throws -> Void) async throws {
        let server = try await ScriptedServer.start(port: port)
        try await body()
        try await server.stop()
    }

    @Test("A server that could not be reached is seen to be back, without a call", arguments: [false, true])
    func seen(isHTTP1: Bool) async throws {
        let port = try await PeerProcess.freePort()
        var configuration = HTTPPoolConfiguration(
            endpoint: HTTPEndpoint(host: "127.0.0.1", port: port),
            version: isHTTP1 ? .http1 : .http2
        )
        configuration.extraTrustPEM = try TestAuthority.shared.certificatePEM
        configuration.requestTimeout = .milliseconds(500)
        let transport = NIOTransport(logger: quiet)
        let pool = try transport.pool(configuration)
        #expect(await pool.failure(of: .post(bytes: 1))?.cause == .connect)
        #expect(pool.status.outage?.cause == .connect)
        let server = try await ScriptedServer.start(port: port)
        try await eventually("the pool sees it") { pool.status.outage == nil }
        #expect(server.requests.isEmpty)
        await transport.shutdown(grace: .zero)
        try await server.stop()
    }

    @Test(
        "A server that could not be reached is tried again within two seconds; one that turns callers away may wait longer"
    )
    func longest() {
        let now = NIODeadline.now()
        for (isUnreachable, longest) in [(true, TimeAmount.seconds(2)), (false, .seconds(60))] {
            var backoff = Backoff(.seconds(1) ... .seconds(60))
            for _ in 0..<10 { backoff.fail(now, isUnreachable: isUnreachable, random: 1) }
            #expect(backoff.notBefore == now + longest)
            backoff.admitFirstCall()
            #expect(
                backoff.notBefore == now + .seconds(1),
                "and a call that finds no other one waits for the first span"
            )
        }
        var slow = Backoff(.seconds(5) ... .seconds(60))
        slow.fail(now, isUnreachable: true, random: 1)
        #expect(slow.notBefore == now + .seconds(5), "what is configured as the shortest wait stays")
    }
}
