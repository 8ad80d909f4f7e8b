internal import HTTPTypes
internal import PushCore

/// The caller of a request: the holder of an API key, or any local caller of a keyless gateway.
///
/// One object for each key of a configuration, shared by its requests.
final class Caller: Sendable {
    /// The key's name; empty without keys.
    let name: String
    /// What it uses of the gateway; nil for whoever needs no key.
    let use: KeyUses.Use?
    /// The gateway as it sees it; nil is the whole.
    let view: GatewaySnapshot?
    /// The largest part of the queue that the caller's waiting deliveries may take; 1 is all.
    let queueShare: Double
    private let scopes: Set<GatewayConfiguration.APIKey.Scope>

    /// Every caller of a keyless gateway.
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

    /// Whether it may see whole device tokens, and the notifications of other keys with the same or smaller bounds.
    var isAdministrator: Bool { scopes.contains(.admin) }

    /// Whether it may see the notifications of every key.
    var seesAll: Bool { isAdministrator && view == nil }

    /// Whether it may send through a backend, work with it and see its numbers.
    ///
    /// A key that names backends, or an app, may not use a backend that is no longer configured.
    func mayUse(backend: String) -> Bool { view.map { $0.app(ofBackend: backend) != nil } ?? true }

    /// Whether it may know of an app.
    func mayUse(app: AppName) -> Bool { view?.configuration.apps.contains(app) ?? true }

    /// Whether it may see the notifications of a sender: its own, and for administrators those of every key whose
    /// bounds are within their own.
    func maySee(sender: String) -> Bool {
        // A notification that was sent without a key belongs to no key.
        if sender == name, !name.isEmpty { return true }
        return isAdministrator && view?.configuration.apiKeys.contains { $0.name == sender } ?? true
    }

    /// Whether it may see a series of a metric: one without a backend, app or route, or with one that it may use.
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
