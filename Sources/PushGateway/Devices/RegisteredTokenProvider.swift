public import PushCore
public import PushQueue

/// The token that a device of the registry has of one service, as a provider among others of a chain.
///
/// It gives what the device registered, unless a platform has declared it dead.
public struct RegisteredTokenProvider: TokenProvider {
    /// The service whose token it gives.
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
    ///   - backends: Those that are asked what a token of the service looks like; without any, every text is taken.
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

    /// The registered token; nil when the device has none, when it is dead, or when there is no such device.
    ///
    /// Throws `PushError.Code.unavailable` when the registry cannot be read.
    public func token() async throws(PushError) -> DeviceToken? {
        do throws(StoreError) {
            return try await store.device(device)?.liveToken(of: service)
        } catch {
            throw PushError(.unavailable, "the device registry cannot be read: \(error)")
        }
    }

    /// Brings a text to the form that a backend of the service wants.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken {
        guard !text.isEmpty else { throw InvalidToken(service, "it is empty") }
        return try backends.checked(DeviceToken(text, service: service))
    }
}
