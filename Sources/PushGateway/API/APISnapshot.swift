internal import PushCore
internal import Synchronization

/// What the API derives from a configuration once, not with every request: keys, known names, limits.
final class APISnapshot: Sendable {
    let gateway: GatewaySnapshot
    let keyring: Keyring
    let origins: OriginGuard
    /// The kinds that `overrides` may name.
    let kinds: [String]
    /// Which backends know what a device token looks like.
    let tokens: TokenCheck

    init(_ gateway: GatewaySnapshot, knownKinds: [String]) {
        self.gateway = gateway
        keyring = Keyring(gateway.configuration.apiKeys)
        origins = OriginGuard(host: gateway.configuration.server.host)
        tokens = TokenCheck(gateway)
        var kinds = knownKinds
        for backend in gateway.backends where !kinds.contains(backend.backend.kind.rawValue) {
            kinds.append(backend.backend.kind.rawValue)
        }
        self.kinds = kinds
    }

    var server: GatewayConfiguration.Server { gateway.configuration.server }
    var queue: GatewayConfiguration.Queue { gateway.configuration.queue }

    /// Lets a request through, or says why not.
    ///
    /// The result is the name of its API key, empty without keys.
    func admit(_ fields: CallerFields, _ access: Endpoint.Access) throws(Problem) -> String {
        if access != .open, keyring.isEmpty { try origins.admit(fields) }
        return try keyring.admit(fields.authorization, access)
    }
}

/// Gives what is derived from the configuration in force, made anew after a reload.
final class APISnapshots: Sendable {
    private let state: GatewayState
    private let knownKinds: [String]
    private let derived: Mutex<APISnapshot>

    init(_ state: GatewayState, knownKinds: [String]) {
        self.state = state
        self.knownKinds = knownKinds
        derived = Mutex(APISnapshot(state.snapshot, knownKinds: knownKinds))
    }

    var current: APISnapshot {
        let current = state.snapshot
        return derived.withLock { derived in
            if derived.gateway !== current { derived = APISnapshot(current, knownKinds: knownKinds) }
            return derived
        }
    }
}
