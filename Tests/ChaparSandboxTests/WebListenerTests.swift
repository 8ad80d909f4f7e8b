import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import Testing

@testable import ChaparSimulator

/// Answers with what it was asked.
private struct EchoHandler: SandboxHandler {
    func subject(of request: SandboxRequest) -> SandboxSubject { SandboxSubject(token: request.header("x-token")) }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        let text = "\(request.method) \(request.path) \(request.query) \(request.isHTTP2) "
        return SandboxReply(
            answer: SandboxAnswer(
                status: 200,
                headers: [HTTPHeader("x-echo", "1")],
                body: Array(text.utf8) + request.body
            )
        )
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        fault.plain(now: now)
    }
}

@Suite("A simulated web service over both versions of HTTP", .timeLimit(.minutes(1)))
struct WebListenerTests {
    static let versions: [HTTPPoolConfiguration.Version] = [.http1, .http2]

    private func run(
        _ version: HTTPPoolConfiguration.Version,
        _ body: (SandboxWebHost, any HTTPPool) async throws -> Void
    ) async throws {
        let host = SandboxWebHost(.init(), authority: try SandboxCertificateAuthority(), time: SystemTime())
        try await host.start([.init(name: "echo", port: 0, handler: EchoHandler())])
        let endpoint = try #require(HTTPEndpoint(url: host.url("echo")))
        var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: version)
        configuration.extraTrustPEM = host.authority.certificatePEM
        configuration.requestTimeout = .seconds(10)
        let transport = NIOTransport(logger: Logger(label: "test"))
        let pool = try transport.pool(configuration)
        try await body(host, pool)
        await transport.shutdown(grace: .seconds(1))
        await host.shutdown()
        #expect(host.counters.connectionsOpen == 0)
    }

    private func call(_ body: String = "", token: String = "t") -> HTTPCall {
        let template = HTTPCallTemplate(method: "POST", headers: [HTTPHeader("x-token", token)])
        return HTTPCall(template, path: "/a/b?c=d", body: Array(body.utf8))
    }

    private func failure(of pool: any HTTPPool, _ call: HTTPCall) async -> HTTPFailure? {
        do throws(HTTPFailure) {
            _ = try await pool.send(call)
            return nil
        } catch {
            return error
        }
    }

    @Test("A request is answered, and the next one uses the same connection", arguments: versions)
    func answers(_ version: HTTPPoolConfiguration.Version) async throws {
        try await run(version) { host, pool in
            for number in 0..<3 {
                let answer = try await pool.send(call("body \(number)"))
                #expect(answer.status == 200)
                #expect(answer.header("x-echo") == "1")
                #expect(
                    String(decoding: answer.body, as: UTF8.self)
                        == "POST /a/b c=d \(version == .http2) body \(number)"
                )
            }
            #expect(host.counters.requests == 3)
            #expect(host.counters.connectionsOpened == 1)
            #expect(host.counters.requestsOverHTTP1 == (version == .http1 ? 3 : 0))
        }
    }

    @Test("A fault rule means the same on both", arguments: versions)
    func faults(_ version: HTTPPoolConfiguration.Version) async throws {
        try await run(version) { host, pool in
            host.add([
                FaultRule(match: FaultMatch(tokenPrefix: "Slow"), .delay(.milliseconds(20))),
                FaultRule(match: FaultMatch(tokenPrefix: "No"), .answer(FaultAnswer(503, retryAfter: 7))),
                FaultRule(match: FaultMatch(tokenPrefix: "Cut"), .end(.reset)),
                FaultRule(match: FaultMatch(tokenPrefix: "Away"), .goAway(SandboxGoAway())),
            ])
            let refused = try await pool.send(call(token: "No1"))
            #expect(refused.status == 503)
            #expect(refused.header("retry-after") == "7")
            let slow = try await pool.send(call(token: "Slow1"))
            #expect(slow.status == 200)
            let last = try await pool.send(call(token: "Away1"))
            #expect(last.status == 200, "what is owed is answered")
            let cut = await failure(of: pool, call(token: "Cut1"))
            #expect(cut?.stage == .unknown)
            let next = try await pool.send(call())
            #expect(next.status == 200, "a new connection takes over")
            #expect(host.counters.faultsInjected == 4)
        }
    }

    @Test("A body may be cut short after its headers", arguments: versions)
    func bodyBreaksOff(_ version: HTTPPoolConfiguration.Version) async throws {
        try await run(version) { host, pool in
            host.add([FaultRule(at: .answerHeaders, match: FaultMatch(count: 1), .resetStream(code: 2))])
            let cut = await failure(of: pool, call())
            #expect(cut?.stage == .unknown)
            let next = try await pool.send(call())
            #expect(next.status == 200)
        }
    }
}
