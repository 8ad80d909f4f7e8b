internal import HTTPTypes
internal import PushCore

/// What a path names: the one list of everything the API answers to.
enum Endpoint: Equatable {
    case notifications
    case batch
    case notification(Substring)
    case deliveries(Substring)
    case devices
    case deviceBatch
    case device(Substring)
    case subscription(Substring)
    case deviceTags(Substring)
    case deviceEvents(Substring)
    case deviceOperations(Substring)
    case userSwitch(Substring)
    case clear(Substring)
    case events
    case backends
    case receipts(Substring)
    case webhook(Substring, secret: Substring)
    case clicks(Substring)
    case invalidations
    case backendInvalidations(Substring)
    case backendMove(Substring)
    case backendDrop(Substring)
    case health
    case readiness
    case metrics
    case openAPI
    case dashboard
    /// Of a plugin's module, by the module's number.
    case module(Int, ModuleEndpoint)

    /// Finds the endpoint of a path without its query; nil when there is none.
    init?(_ path: Substring) {
        if path == "/v1/notifications" {
            self = .notifications
            return
        }
        switch path {
        case "/v1/notifications/batch": self = .batch
        case "/v1/devices": self = .devices
        case "/v1/devices/batch": self = .deviceBatch
        case "/v1/events": self = .events
        case "/v1/backends": self = .backends
        case "/v1/invalidations": self = .invalidations
        case "/healthz": self = .health
        case "/readyz": self = .readiness
        case "/metrics": self = .metrics
        case "/openapi.json": self = .openAPI
        case "/": self = .dashboard
        default:
            let devices = "/v1/devices/"
            if path.hasPrefix(devices) {
                self.init(device: path.dropFirst(devices.count))
                return
            }
            if let user = Self.step(of: path, between: "/v1/users/", and: "/switch") {
                self = .userSwitch(user)
                return
            }
            if let name = Self.step(of: path, between: "/v1/backends/", and: "/clear") {
                self = .clear(name)
                return
            }
            if let name = Self.step(of: path, between: "/v1/backends/", and: "/receipts") {
                self = .receipts(name)
                return
            }
            if let name = Self.step(of: path, between: "/v1/backends/", and: "/clicks") {
                self = .clicks(name)
                return
            }
            if let (name, secret) = Self.webhook(path) {
                self = .webhook(name, secret: secret)
                return
            }
            if let name = Self.step(of: path, between: "/v1/backends/", and: "/invalidations") {
                self = .backendInvalidations(name)
                return
            }
            if let name = Self.step(of: path, between: "/v1/backends/", and: "/move") {
                self = .backendMove(name)
                return
            }
            if let name = Self.step(of: path, between: "/v1/backends/", and: "/drop") {
                self = .backendDrop(name)
                return
            }
            let prefix = "/v1/notifications/"
            guard path.hasPrefix(prefix) else { return nil }
            let parts = path.dropFirst(prefix.count).split(separator: "/", omittingEmptySubsequences: false)
            switch (parts.count, parts.first, parts.last) {
            case (1, let id?, _) where !id.isEmpty: self = .notification(id)
            case (2, let id?, "deliveries") where !id.isEmpty: self = .deliveries(id)
            default: return nil
            }
        }
    }

    /// Finds what follows `/v1/devices/`.
    private init?(device path: Substring) {
        let parts = path.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let id = parts.first, !id.isEmpty else { return nil }
        switch parts.count > 1 ? parts[1] : "" {
        case "" where parts.count == 1: self = .device(id)
        case "subscription": self = .subscription(id)
        case "tags": self = .deviceTags(id)
        case "events": self = .deviceEvents(id)
        case "operations": self = .deviceOperations(id)
        default: return nil
        }
    }

    /// What stands between a beginning and an end of a path, when that is one step.
    private static func step(of path: Substring, between beginning: String, and end: String) -> Substring? {
        guard path.hasPrefix(beginning), path.hasSuffix(end), path.count > beginning.count + end.count else {
            return nil
        }
        let step = path.dropFirst(beginning.count).dropLast(end.count)
        return step.contains("/") ? nil : step
    }

    /// The name and the secret of `/v1/backends/{name}/webhook/{secret}`.
    private static func webhook(_ path: Substring) -> (name: Substring, secret: Substring)? {
        let beginning = "/v1/backends/"
        guard path.hasPrefix(beginning) else { return nil }
        let steps = path.dropFirst(beginning.count).split(separator: "/", omittingEmptySubsequences: false)
        guard steps.count == 3, steps[1] == "webhook", !steps[0].isEmpty, !steps[2].isEmpty else { return nil }
        return (steps[0], steps[2])
    }

    /// The path with its variable parts as names, for metrics.
    var pattern: String {
        switch self {
        case .notifications: "/v1/notifications"
        case .batch: "/v1/notifications/batch"
        case .notification: "/v1/notifications/{id}"
        case .deliveries: "/v1/notifications/{id}/deliveries"
        case .devices: "/v1/devices"
        case .deviceBatch: "/v1/devices/batch"
        case .device: "/v1/devices/{id}"
        case .subscription: "/v1/devices/{id}/subscription"
        case .deviceTags: "/v1/devices/{id}/tags"
        case .deviceEvents: "/v1/devices/{id}/events"
        case .deviceOperations: "/v1/devices/{id}/operations"
        case .userSwitch: "/v1/users/{id}/switch"
        case .clear: "/v1/backends/{name}/clear"
        case .events: "/v1/events"
        case .backends: "/v1/backends"
        case .receipts: "/v1/backends/{name}/receipts"
        case .webhook: "/v1/backends/{name}/webhook/{secret}"
        case .clicks: "/v1/backends/{name}/clicks"
        case .invalidations: "/v1/invalidations"
        case .backendInvalidations: "/v1/backends/{name}/invalidations"
        case .backendMove: "/v1/backends/{name}/move"
        case .backendDrop: "/v1/backends/{name}/drop"
        case .health: "/healthz"
        case .readiness: "/readyz"
        case .metrics: "/metrics"
        case .openAPI: "/openapi.json"
        case .dashboard: "/"
        case .module(_, let endpoint): endpoint.pattern
        }
    }

    /// The methods it knows.
    ///
    /// Whoever may GET may HEAD.
    var methods: [HTTPRequest.Method] {
        switch self {
        case .notifications, .batch, .deviceBatch, .backendInvalidations, .receipts, .webhook, .clicks, .deviceEvents,
            .userSwitch,
            .clear, .backendMove, .backendDrop:
            [.post]
        case .module(_, let endpoint):
            endpoint.methods.keys.sorted().flatMap { word -> [HTTPRequest.Method] in
                word == "GET" ? [.get, .head] : [HTTPRequest.Method(rawValue: word)].compactMap(\.self)
            }
        case .subscription: [.get, .head, .put]
        case .deviceTags: [.patch]
        case .device: [.get, .head, .put, .patch, .delete]
        case .notification: [.get, .head, .delete]
        default: [.get, .head]
        }
    }

    /// Who may use it with a method.
    func access(_ method: HTTPRequest.Method) -> Access {
        switch self {
        case .health, .readiness, .dashboard: .open
        // The platform's signature or secret is the credential.
        case .receipts, .webhook: .open
        case .module(_, let endpoint):
            switch endpoint.methods[method == .head ? "GET" : method.rawValue] {
            case .open?: .open
            case .read?: .scope(.read)
            case .admin?: .scope(.admin)
            case nil: .anyKey
            }
        case .openAPI: .anyKey
        case .notifications, .batch: .scope(.send)
        case .notification: method == .delete ? .scope(.send) : .scope(.read)
        case .devices, .deviceBatch, .device, .subscription, .deviceTags, .deviceEvents, .deviceOperations, .userSwitch,
            .clear, .clicks:
            .scope(.devices)
        case .backendInvalidations, .backendMove, .backendDrop: .scope(.admin)
        case .deliveries, .events, .backends, .invalidations, .metrics: .scope(.read)
        }
    }

    /// Who may use an endpoint.
    enum Access: Equatable {
        /// Everybody.
        case open
        /// Whoever has a key.
        case anyKey
        /// Whoever has a key with the scope, or with `admin`.
        case scope(GatewayConfiguration.APIKey.Scope)
    }
}
