public import ChaparCore

/// The storage of the token that a chain saw last, so that a new one is recognized after a restart.
public protocol TokenMemory: Sendable {
    /// Returns the token seen last; nil when there was none.
    func lastToken() async -> DeviceToken?
    /// Stores a token in place of the last one; nil removes it.
    func remember(_ token: DeviceToken?) async
}

/// A memory that keeps the last token in a ``ChaparCore/StateStore``, under a name.
///
/// If the store fails, at most one token is announced a second time.
public struct StoredTokenMemory: TokenMemory {
    private let store: any StateStore
    private let name: String

    /// Makes a memory; one name for each device or installation.
    public init(_ store: any StateStore, name: String) {
        self.store = store
        self.name = name
    }

    /// Returns the token stored under the name.
    public func lastToken() async -> DeviceToken? {
        guard let bytes = try? await store.loadState(name),
            let recipient = Recipient(storedForm: String(decoding: bytes, as: UTF8.self)),
            case .token(let token) = recipient
        else { return nil }
        return token
    }

    /// Stores the token under the name.
    public func remember(_ token: DeviceToken?) async {
        try? await store.saveState(name, token.map { Array(Recipient.token($0).storedForm.utf8) })
    }
}
