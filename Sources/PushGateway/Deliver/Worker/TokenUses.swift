internal import PushCore
internal import PushQueue

/// Which of a device's tokens a notification goes to, at each backend.
struct TokenUses: Sendable {
    /// The app's own tokens everywhere.
    static let ordinary = TokenUses()

    /// By the names of the backends; nil stands for the app's own token at all of them, and usually is.
    private var uses: [String: TokenUse]?

    private init() {}

    /// Whether it is the app's own token at every backend.
    var isOrdinary: Bool { uses == nil }

    /// Asks the backends (``PushBackend/tokenUse(of:)``), unless the notification has nothing that they could look at.
    init(_ notification: PushNotification, _ backends: [(name: String, backend: any PushBackend)]) {
        guard notification.activity != nil || !notification.overrides.isEmpty else { return }
        let uses = Dictionary(
            backends.compactMap { name, backend in backend.tokenUse(of: notification).map { (name, $0) } },
            uniquingKeysWith: { first, _ in first }
        )
        let isOrdinary = backends.allSatisfy { uses[$0.name] == TokenUse(.device) }
        if !isOrdinary { self.uses = uses }
    }

    /// What a backend wants; nil when none of a device's tokens can take the notification there.
    subscript(backend: String) -> TokenUse? {
        guard let uses else { return TokenUse(.device) }
        return uses[backend]
    }

    /// The kinds that are wanted, each once: by some backends, or by all.
    func kinds(of backends: [String]? = nil) -> [TokenKind] {
        guard let uses else { return [.device] }
        let wanted = backends.map { $0.compactMap { uses[$0] } } ?? Array(uses.values)
        return Set(wanted.map(\.kind)).sorted { TokenSlot(.iOSAPNs, $0) < TokenSlot(.iOSAPNs, $1) }
    }
}
