import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAltcraft

/// A service that gives JWTs and answers nonsense costs nothing but the operations that need one.
///
/// `CHAPAR_FUZZ=20000` runs so many cases, `CHAPAR_FUZZ=1234...1234` just that one.
@Suite("Altcraft: broken services of JWTs", .timeLimit(.minutes(5)))
struct AltcraftBrokenPeerTests {
    @Test(
        "A session has a JWT whose profile can be read, or there is an error with its code",
        arguments: [true, false]
    )
    func sessions(breaksClaims: Bool) async throws {
        for seed in BrokenAnswers.seeds(2_000) {
            let transport = ScriptedTransport { _ in
                var broken = BrokenAnswers(seed: seed)
                let claims: JSONValue = [
                    "matching": ["db_id": 12, "matching": "email", "email": "ada@example.com"], "iat": 1_760_000_000,
                    "exp": 1_760_003_600, "sub": "ada",
                ]
                guard breaksClaims else {
                    return broken.next(instead: ["token": .string(AltcraftAuthTests.jwt(claims)), "expires_in": 60])
                }
                // The nonsense stands within the JWT, as far as it is an answer at all.
                return broken.next(instead: claims).map { answer in
                    let jwt = "e30." + Base64URL.encode(answer.body) + ".c2ln"
                    return HTTPAnswer(status: 200, body: Array(jwt.utf8))
                }
            }
            guard let url = HTTPBaseURL(url: "https://jwt.test/token") else { throw ConformanceFailure("no address") }
            let auth = AltcraftAuth(
                source: try AltcraftURLTokens(url: url, http: transport),
                time: InstantTime(Date(timeIntervalSince1970: 1_760_000_000))
            )
            do throws(PushError) {
                let session = try await auth.session(for: AltcraftAuthTests.ada)
                #expect(!session.matchingMode.isEmpty && session.tag.count == 64, "case \(seed)")
                _ = try await auth.session(for: AltcraftAuthTests.ada)
            } catch {
                #expect(["540", "541", "542", "543"].contains(error.reason ?? ""), "case \(seed): \(error)")
            }
        }
    }
}
