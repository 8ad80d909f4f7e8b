import ChaparComposition
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@Suite("Token providers from closures", .timeLimit(.minutes(1)))
struct ClosureTokenProviderTests {
    private struct Down: Error {}

    private static func hang() async -> String? {
        // Heeds nothing: the worst an app can do.
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        return nil
    }

    @Test("Keep the promises of a provider", arguments: TokenService.known, TokenProviderConformance.checks)
    func conformance(_ service: TokenService, _ check: TokenProviderConformance.Check) async throws {
        let number = Mutex(0)
        let renewing = DeletingClosureTokenProvider(
            ClosureTokenProvider(service) { "token-\(number.withLock { $0 })" },
            delete: { token in number.withLock { if token.value == "token-\($0)" { $0 += 1 } } }
        )
        try await check.run(
            TokenProviderConformance.Subject(
                provider: ClosureTokenProvider(service) { "abc:DEF_1-2" },
                empty: ClosureTokenProvider(service) { " \n" },
                hanging: ClosureTokenProvider(service, deadline: .milliseconds(20)) { await Self.hang() },
                failing: ClosureTokenProvider(service) { throw Down() },
                renewing: renewing,
                invalidTexts: ["two words", "nul\u{0}byte", "سلام", String(repeating: "x", count: 5_000)]
            )
        )
    }
}
