public import PushCore

/// Keeps the token that a chain saw last, so that a new one is recognised after a restart.
public protocol TokenMemory: Sendable {
    /// The token seen last; nil when none was.
    func lastToken() async -> DeviceToken?
    /// Keeps a token in the place of the last one; nil removes it.
    func remember(_ token: DeviceToken?) async
}

/// Keeps the last token in a ``PushCore/StateStore``, under a name.
///
/// A store that fails costs no more than an announcement too many.
public struct StoredTokenMemory: TokenMemory {
    private let store: any StateStore
    private let name: String

    /// Makes a memory; one name for each device or installation.
    public init(_ store: any StateStore, name: String) {
        self.store = store
        self.name = name
    }

    /// The token kept under the name.
    public func lastToken() async -> DeviceToken? {
        guard let bytes = try? await store.loadState(name),
            let recipient = Recipient(storedForm: String(decoding: bytes, as: UTF8.self)),
            case .token(let token) = recipient
        else { return nil }
        return token
    }

    /// Keeps the token under the name.
    public func remember(_ token: DeviceToken?) async {
        try? await store.saveState(name, token.map { Array(Recipient.token($0).storedForm.utf8) })
    }
}
