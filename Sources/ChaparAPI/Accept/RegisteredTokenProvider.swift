internal import ChaparDelivery
public import ChaparCore
public import ChaparQueue

/// A provider of the token that a device of the registry has for one service, for use in a chain of providers.
///
/// It returns the token that the device registered, unless a platform has called it dead.
public struct RegisteredTokenProvider: TokenProvider {
    /// The service of the token.
    public let service: TokenService
    private let device: String
    private let store: any DeviceStore
    private let backends: [any PushBackend]

    /// Makes a provider of a device's token.
    ///
    /// - Parameters:
    ///   - service: The service.
    ///   - device: The id of the device.
    ///   - store: The registry.
    ///   - backends: The backends that check the form of a token of the service; without any, every text is accepted.
    public init(
        _ service: TokenService,
        of device: String,
        in store: any DeviceStore,
        backends: [any PushBackend] = []
    ) {
        self.service = service
        self.device = device
        self.store = store
        self.backends = backends
    }

    /// Returns the registered token; nil when the device has none, when it is dead, or when there is no such device.
    ///
    /// Throws `PushError.Code.unavailable` when the registry cannot be read.
    public func token() async throws(PushError) -> DeviceToken? {
        do throws(StoreError) {
            return try await store.device(device)?.liveToken(of: service)
        } catch {
            throw PushError(.unavailable, "the device registry cannot be read: \(error)")
        }
    }

    /// Converts a text to the form that a backend of the service requires.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken {
        guard !text.isEmpty else { throw InvalidToken(service, "it is empty") }
        return try backends.checked(DeviceToken(text, service: service))
    }
}
