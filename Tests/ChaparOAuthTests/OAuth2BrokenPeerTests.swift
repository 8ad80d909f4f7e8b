import Foundation
import ChaparCore
import ChaparOAuth
import ChaparTesting
import Synchronization
import Testing

/// A token endpoint that answers nonsense costs nothing but time.
///
/// `CHAPAR_FUZZ=20000` runs so many cases, `CHAPAR_FUZZ=1234...1234` just that one.
@Suite("OAuth 2 refresh: broken peers", .timeLimit(.minutes(5)))
struct OAuth2BrokenPeerTests {
    private static let endpoint = HTTPEndpoint(host: "api.test")

    @Test("A refresh ends with a token that the answer holds, or with an error, and later ones work")
    func refreshes() async throws {
        for seed in BrokenAnswers.seeds(2_000) {
            let clock = MovableClock()
            let isWell = Mutex(false)
            let tokens = Recorder<String>()
            let transport = ScriptedTransport { _ in
                let number = tokens.all.count
                let good: JSONValue = [
                    "access_token": .string("at-\(number)"), "refresh_token": "rt", "token_type": "bearer",
                    "expires_in": 3600,
                ]
                var broken = BrokenAnswers(seed: seed)
                let result =
                    isWell.withLock { $0 }
                    ? .success(HTTPAnswer(status: 200, body: good.bytes)) : broken.next(instead: good)
                let json = (try? result.get()).flatMap { try? JSONValue(parsing: $0.body) }
                tokens.add(json?["access_token"]?.stringValue ?? "")
                return result
            }
            guard let base = HTTPBaseURL(url: "https://api.test") else { throw CancellationError() }
            let old = OAuthCredential(
                accessToken: Secret("old"),
                refreshToken: Secret("rt-0"),
                expiresIn: 0,
                createdAt: clock.now
            )
            let strategy = try OAuth2RefreshToken(
                OAuth2Settings(base: base, clientID: "gateway"),
                store: MemoryCredentialStore(old),
                http: transport,
                time: clock,
                now: { clock.instant }
            )
            do {
                let credential = try await strategy.credential(for: Self.endpoint)
                let header = credential.headers.first?.value.reveal() ?? ""
                #expect(tokens.all.contains { !$0.isEmpty && header == "Bearer \($0)" }, "case \(seed): \(header)")
                #expect(header.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }, "case \(seed)")
                // Whatever it says of its life, it is used and looked at.
                clock.advance(by: .seconds(1_000_000))
            } catch {
                // To fail is right here; what counts is what comes after.
            }
            isWell.withLock { $0 = true }
            clock.advance(by: .seconds(86_401))
            do {
                _ = try await strategy.credential(for: Self.endpoint)
            } catch {
                // What only an operator can mend stays; everything else has passed.
                let code = error.reason ?? "\(error)"
                let lasting = [
                    "reauthorization_required", "misconfigured", "unsupported_token_type", "missing_credential",
                ]
                #expect(lasting.contains(code), "case \(seed): \(error)")
            }
            await strategy.shutdown()
        }
    }
}
