internal import HTTPTypes
internal import ChaparDelivery
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue

/// The caller of a request: the holder of an API key, or any local caller of a keyless gateway.
///
/// There is one object for each key of a configuration, shared by its requests.
package final class Caller: Sendable {
    /// The key's name; empty without keys.
    package let name: String
    /// The usage record of the key; nil for a caller that needs no key.
    package let use: KeyUses.Use?
    /// The gateway as the caller sees it; nil is the whole gateway.
    let view: GatewaySnapshot?
    /// The largest part of the queue that the caller's waiting deliveries may take; 1 is all.
    let queueShare: Double
    /// The most devices of one audience; nil is any number.
    let maximumAudience: Int?
    private let scopes: Set<GatewayConfiguration.APIKey.Scope>

    /// The caller of every request to a keyless gateway.
    package static let everybody = Caller(name: "", scopes: [.admin])
    /// The caller of every request to an open route.
    package static let stranger = Caller(name: "", scopes: [])

    init(
        name: String,
        scopes: Set<GatewayConfiguration.APIKey.Scope>,
        view: GatewaySnapshot? = nil,
        queueShare: Double = 1,
        maximumAudience: Int? = nil,
        use: KeyUses.Use? = nil
    ) {
        self.maximumAudience = maximumAudience
        self.name = name
        self.use = use
        self.scopes = scopes
        self.view = view
        self.queueShare = queueShare
    }

    /// Whether the caller has a scope, directly or through a larger one.
    func has(_ scope: GatewayConfiguration.APIKey.Scope) -> Bool {
        scopes.contains(scope) || scopes.contains { $0.includes(scope) }
    }

    /// Whether the caller may see whole device tokens, and notifications of other keys with the same or narrower
    /// limits.
    var isAdministrator: Bool { scopes.contains(.admin) }

    /// Whether the caller may see the notifications of every key.
    var seesAll: Bool { isAdministrator && view == nil }

    /// Whether the caller may send through a backend, work with it and see its numbers.
    ///
    /// A key that names backends, or an app, may not use a backend that is no longer configured.
    func mayUse(backend: String) -> Bool { view.map { $0.app(ofBackend: backend) != nil } ?? true }

    /// Whether the caller may know of an app.
    func mayUse(app: AppName) -> Bool { view?.configuration.apps.contains(app) ?? true }

    /// Whether the caller may see a sender's notifications: its own, and for administrators those of every key whose
    /// limits are within their own.
    func maySee(sender: String) -> Bool {
        // A notification that was sent without a key belongs to no key.
        if sender == name, !name.isEmpty { return true }
        return isAdministrator && view?.configuration.apiKeys.contains { $0.name == sender } ?? true
    }

    /// Whether the caller may find a sender's notifications through some backends: those that it may see, and with the
    /// scope `read_all` those of every sender through the backends that it may use.
    func mayFind(sender: String, through record: NotificationRecord) -> Bool {
        if maySee(sender: sender) { return true }
        return has(.readAll) && record.plans.allSatisfy { $0.backends.allSatisfy(mayUse(backend:)) }
    }

    /// Whether the caller may read the contents of a sender's notifications that it found.
    func mayRead(contentsOf sender: String) -> Bool { maySee(sender: sender) || has(.readContent) }

    /// Whether the caller may see a series of a metric: one without a backend, app, route or key, or with one that it
    /// may use or see.
    func maySee(labels: [(String, String)]) -> Bool {
        guard let view else { return true }
        let isOfApp = labels.contains { $0.0 == "app" }
        return labels.allSatisfy { name, value in
            switch name {
            case "backend", "from", "to": value.isEmpty || mayUse(backend: value)
            case "app": mayUse(app: AppName(rawValue: value))
            case "key": maySee(sender: value)
            case "route" where isOfApp:
                ["automatic", "direct", "default"].contains(value)
                    || view.configuration.routes.contains { $0.name == value }
            default: true
            }
        }
    }

    /// Refuses a caller that has no key with the scope `admin`.
    func requireAdministrator() throws(Problem) {
        guard isAdministrator else { throw .lacks(.admin) }
    }
}

extension GatewayConfiguration.APIKey.Scope {
    /// Whether a key with this scope has the rights of another scope as well.
    func includes(_ other: Self) -> Bool {
        switch self {
        case .admin: true
        case .read: other == .metrics  // Metrics show less than a reader may see.
        case .readAll: other == .read || other == .metrics
        case .send, .broadcast, .devices, .readContent, .metrics, .webhooks: false
        }
    }
}
