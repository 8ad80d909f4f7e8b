internal import HTTPTypes
internal import PushCore

/// The caller of a request: the holder of an API key, or any local caller while no keys are configured.
///
/// One object for each key of a configuration, shared by its requests.
final class Caller: Sendable {
    /// The key's name; empty without keys.
    let name: String
    /// What it uses of the gateway; nil for whoever needs no key.
    let use: KeyUses.Use?
    /// The app whose devices and users it is for; nil is all.
    let app: AppName?
    /// The backends it may send through and work with; nil is all.
    let backends: Set<String>?
    /// How much of the queue may be taken by what waits of it; 1 is all.
    let queueShare: Double
    private let scopes: Set<GatewayConfiguration.APIKey.Scope>

    /// Everybody, while there are no keys.
    static let everybody = Caller(name: "", scopes: [.admin])
    /// Nobody in particular: who asks for what is open to all.
    static let stranger = Caller(name: "", scopes: [])

    init(
        name: String,
        scopes: Set<GatewayConfiguration.APIKey.Scope>,
        app: AppName? = nil,
        backends: Set<String>? = nil,
        queueShare: Double = 1,
        use: KeyUses.Use? = nil
    ) {
        self.name = name
        self.use = use
        self.scopes = scopes
        self.app = app
        self.backends = backends
        self.queueShare = queueShare
    }

    /// Whether a scope is given to it, by itself or by a larger one.
    func has(_ scope: GatewayConfiguration.APIKey.Scope) -> Bool {
        scopes.contains(scope) || scopes.contains { $0.includes(scope) }
    }

    /// Whether it may see what others sent, and whole device tokens.
    var isAdministrator: Bool { scopes.contains(.admin) }

    /// Whether it may send through a backend and work with it.
    func mayUse(backend: String) -> Bool { backends?.contains(backend) ?? true }

    /// Whether a notification of a sender is its business.
    func maySee(sender: String) -> Bool { isAdministrator || sender == name }

    /// Refuses a backend that the key is not for.
    func require(backend: String) throws(Problem) {
        guard mayUse(backend: backend) else {
            throw Problem(
                .forbidden,
                "backend_not_allowed",
                "The API key may not use this backend",
                detail: "Its entry in auth.api_keys names other backends."
            )
        }
    }

    /// Refuses whoever has no key with the scope `admin`.
    func requireAdministrator() throws(Problem) {
        guard isAdministrator else { throw .lacks(.admin) }
    }
}

extension GatewayConfiguration.APIKey.Scope {
    /// Whether a key with this scope may do what another one is for.
    func includes(_ other: Self) -> Bool {
        switch self {
        case .admin: true
        case .read: other == .metrics  // Numbers show less than what a reader may see.
        case .send, .broadcast, .devices, .metrics: false
        }
    }
}
