import ChaparCore
import Synchronization

/// The tokens that subscriptions are made of: what is stored of devices, and which token service goes before which.
///
/// ``AltcraftDevices`` owns it and asks it before each request.
final class AltcraftTokens: Sendable {
    let store: AltcraftStore
    private let client: AltcraftClient
    private let priority: Mutex<[TokenService]>

    init(_ client: AltcraftClient, context: BackendContext) {
        self.client = client
        store = AltcraftStore(context)
        priority = Mutex(client.options.providerPriority)
    }

    /// The order in which a device's tokens are preferred.
    var order: [TokenService] {
        get { priority.withLock { $0 } }
        set { priority.withLock { $0 = newValue } }
    }

    /// Returns the token that the device's subscription is made of; nil when it has none that counts.
    ///
    /// A token set by hand goes before the registry's. An event (201) tells of a choice that differs from the last
    /// one.
    func token(of device: DeviceRecord, _ record: AltcraftRecord) async throws(PushError) -> DeviceToken? {
        try await store.token(of: device, record, order: order) { [weak client = self.client] token in
            let shown = Fingerprint.of(token.value)
            client?.emit(
                .info,
                "pushProviderSet()",
                "push provider set: \(token.service). token: \(shown)",
                201,
                ["provider": .string(token.service.rawValue), "token": .string(shown)],
                device: device.id
            )
        }
    }
}
