internal import PushCore

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
}
