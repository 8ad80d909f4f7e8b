import Foundation
import ChaparCore
import ChaparQueue
import ChaparGateway
import ChaparStoreContract
import ChaparTesting
import Testing

/// The gateway's wrappers of stores and providers keep the promises of the wrapped ones.
@Suite("The gateway's own stores and providers pass their kits", .timeLimit(.minutes(1)))
struct KitTests {
    /// A backend of one service that knows what its tokens look like.
    private struct Strict: PushBackend {
        let kind: BackendKind = "strict"
        let audience = BackendAudience(services: [.androidFirebase])

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}

        func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
            let plain = token.value.trimmingCharacters(in: .whitespacesAndNewlines)
            guard !plain.isEmpty, !plain.contains("!") else { throw InvalidToken(token.service, "it has other signs") }
            return DeviceToken(plain, service: token.service)
        }
    }

    @Test(
        "A device's registered token comes from a provider like any other",
        arguments: TokenProviderConformance.checks
    )
    func registered(check: TokenProviderConformance.Check) async throws {
        let store = MemoryDeviceStore()
        let token = DeviceToken("token-a", service: .androidFirebase)
        let device = Device(id: "a", tokens: [RegisteredToken(token, registeredAt: .now)], createdAt: .now)
        _ = try await store.put([device])
        func provider(of device: String) -> RegisteredTokenProvider {
            RegisteredTokenProvider(.androidFirebase, of: device, in: store, backends: [Strict()])
        }
        try await check.run(
            TokenProviderConformance.Subject(
                provider: provider(of: "a"),
                empty: provider(of: "nobody"),
                invalidTexts: ["not!one"]
            )
        )
    }
}
