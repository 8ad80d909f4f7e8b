import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@Suite("Calls with the credential of a strategy", .timeLimit(.minutes(1)))
struct AuthorizedPoolTests {
    private static let endpoint = HTTPEndpoint(host: "push.example")

    /// Throws, or decides, as the test says.
    private struct Strategy: AuthStrategy {
        var failure: PushError?
        var decision = AuthDecision.retry

        func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
            if let failure { throw failure }
            return AuthCredential(headers: [.init("authorization", Secret("Bearer t"))], generation: 1)
        }

        func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision { decision }
    }

    private static func failure(_ strategy: Strategy, status: Int = 401) async throws -> (HTTPFailure?, calls: Int) {
        let platform = ScriptedTransport { _ in .success(HTTPAnswer(status: status)) }
        let transport = AuthorizedTransport(platform, strategy: strategy)
        let pool = try transport.pool(HTTPPoolConfiguration(endpoint: endpoint, version: .http1))
        do throws(HTTPFailure) {
            _ = try await pool.send(HTTPCall(HTTPCallTemplate(method: "POST"), path: "/"))
            return (nil, platform.calls.count)
        } catch {
            return (error, platform.calls.count)
        }
    }

    @Test(
        "A temporary failure to get a credential pauses the backend for the named time",
        arguments: [
            PushError(.unavailable, "the token service answered 503", retryAfter: .seconds(30)),
            PushError(.rateLimited, "the token service answered 429", retryAfter: .seconds(30)),
            PushError(.rateLimited, "the token service answered 429"), PushError(.badAnswer, "no token in it"),
        ]
    )
    func pause(error: PushError) async throws {
        let (failure, calls) = try await Self.failure(Strategy(failure: error))
        #expect(calls == 0)
        guard case .refused(let refusal)? = failure?.outcome() else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(refusal.kind == .platform && refusal.reason == "credentials_unavailable")
        #expect(refusal.advice == .slowBackend(after: error.retryAfter) && refusal.detail == error.message)
        #expect(failure?.pushError.retryAfter == error.retryAfter && failure?.pushError.code == .unavailable)
    }

    @Test(
        "A credential that was refused, or is for another address, parks the backend",
        arguments: [PushError.Code.credentialsRefused, .unsupported]
    )
    func refused(code: PushError.Code) async throws {
        let error = PushError(code, "wrong secret", retryAfter: .seconds(30))
        let (failure, calls) = try await Self.failure(Strategy(failure: error))
        #expect(calls == 0)
        guard case .refused(let refusal)? = failure?.outcome() else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(refusal.kind == .account && refusal.reason == "credentials" && refusal.advice == .parkBackend)
    }

    @Test("A strategy that waits after a refusal pauses the backend")
    func wait() async throws {
        let (failure, calls) = try await Self.failure(Strategy(decision: .wait(.seconds(7))))
        #expect(calls == 1)
        #expect(failure?.cause == .credentialsUnavailable && failure?.retryAfter == .seconds(7))
    }
}
