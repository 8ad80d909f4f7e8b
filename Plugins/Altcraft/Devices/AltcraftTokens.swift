import ChaparCore
import Synchronization

/// The tokens of subscriptions: the stored state of devices, and the order of token services.
///
/// ``AltcraftDevices`` owns it and calls it before each request.
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

    /// Returns the token for the device's subscription; nil when the device has none of a known service.
    ///
    /// A token set by hand is preferred to the registry's. A choice that differs from the last one emits an event
    /// (201).
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
