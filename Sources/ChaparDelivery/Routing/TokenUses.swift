package import ChaparCore
internal import ChaparQueue

/// The kind of a device's tokens that a notification goes to, for each backend.
package struct TokenUses: Sendable {
    /// The app's own tokens at every backend.
    static let ordinary = TokenUses()

    /// The kinds by the names of the backends; nil, the usual case, is the app's own token at all of them.
    private var uses: [String: TokenUse]?

    private init() {}

    /// Whether it is the app's own token at every backend.
    var isOrdinary: Bool { uses == nil }

    /// Asks the backends (``PushBackend/tokenUse(of:)``), unless the notification has nothing that could matter to
    /// them.
    package init(_ notification: PushNotification, _ backends: [(name: String, backend: any PushBackend)]) {
        guard notification.activity != nil || !notification.overrides.isEmpty else { return }
        let uses = Dictionary(
            backends.compactMap { name, backend in backend.tokenUse(of: notification).map { (name, $0) } },
            uniquingKeysWith: { first, _ in first }
        )
        let isOrdinary = backends.allSatisfy { uses[$0.name] == TokenUse(.device) }
        if !isOrdinary { self.uses = uses }
    }

    /// The token use at a backend; nil when none of a device's tokens can take the notification there.
    package subscript(backend: String) -> TokenUse? {
        guard let uses else { return TokenUse(.device) }
        return uses[backend]
    }

    /// Returns the kinds that some backends need, or all of them, each once.
    package func kinds(of backends: [String]? = nil) -> [TokenKind] {
        guard let uses else { return [.device] }
        let wanted = backends.map { $0.compactMap { uses[$0] } } ?? Array(uses.values)
        return Set(wanted.map(\.kind)).sorted { TokenSlot(.iOSAPNs, $0) < TokenSlot(.iOSAPNs, $1) }
    }
}
