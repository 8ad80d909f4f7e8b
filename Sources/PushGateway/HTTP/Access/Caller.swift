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
    /// The gateway as it sees it; nil is the whole.
    let view: GatewaySnapshot?
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
        view: GatewaySnapshot? = nil,
        queueShare: Double = 1,
        use: KeyUses.Use? = nil
    ) {
        self.name = name
        self.use = use
        self.scopes = scopes
        self.view = view
        self.queueShare = queueShare
    }

    /// Whether a scope is given to it, by itself or by a larger one.
    func has(_ scope: GatewayConfiguration.APIKey.Scope) -> Bool {
        scopes.contains(scope) || scopes.contains { $0.includes(scope) }
    }

    /// Whether it may see what others sent, as far as its key reaches, and whole device tokens.
    var isAdministrator: Bool { scopes.contains(.admin) }

    /// Whether it may see what anybody sent.
    var seesAll: Bool { isAdministrator && view == nil }

    /// Whether it may send through a backend, work with it and see its numbers.
    ///
    /// A key that names backends, or an app, has nothing to do with one that is not configured any more.
    func mayUse(backend: String) -> Bool { view.map { $0.app(ofBackend: backend) != nil } ?? true }

    /// Whether it may know of an app.
    func mayUse(app: AppName) -> Bool { view?.configuration.apps.contains(app) ?? true }

    /// Whether a notification of a sender is its business: its own, and for administrators that of every key which reaches no
    /// further than theirs.
    func maySee(sender: String) -> Bool {
        // What was sent without a key is no key's own.
        if sender == name, !name.isEmpty { return true }
        return isAdministrator && view?.configuration.apiKeys.contains { $0.name == sender } ?? true
    }

    /// Whether a series of a metric is its business: of no backend, app or route, or of one that it may use.
    func maySee(labels: [(String, String)]) -> Bool {
        guard let view else { return true }
        let isOfApp = labels.contains { $0.0 == "app" }
        return labels.allSatisfy { name, value in
            switch name {
            case "backend", "from", "to": value.isEmpty || mayUse(backend: value)
            case "app": mayUse(app: AppName(rawValue: value))
            case "route" where isOfApp:
                ["automatic", "direct", "default"].contains(value)
                    || view.configuration.routes.contains { $0.name == value }
            default: true
            }
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
