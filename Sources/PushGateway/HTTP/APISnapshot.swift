internal import Foundation
internal import NIOSSL
internal import PushCore
internal import PushModules
internal import PushQueue
internal import Synchronization

/// What the API derives from a configuration once, not with every request: keys, known names, limits.
///
/// ``APISnapshots`` makes a new one at each reload; a request uses the one it began with.
final class APISnapshot: Sendable {
    /// The whole gateway: callers get what ``gateway(for:)`` gives.
    fileprivate let gateway: GatewaySnapshot
    let keyring: Keyring
    let origins: OriginGuard
    private let proxies: [PeerNetwork]
    /// What new connections are encrypted with.
    let tls: NIOSSLContext?
    /// When the certificate of ``tls`` ends; nil without one.
    let certificateNotAfter: Date?
    /// Whether connections are to be encrypted: without a usable certificate none is taken then.
    let isEncrypted: Bool
    /// The kinds that `overrides` may name.
    let kinds: [String]
    /// Which backends know what a device token looks like.
    let tokens: TokenCheck

    init(
        _ gateway: GatewaySnapshot,
        knownKinds: [String],
        uses: KeyUses,
        dashboard: DashboardAccess = DashboardAccess(),
        at steady: Date
    ) {
        self.gateway = gateway
        keyring = Keyring(gateway, uses: uses, dashboard: dashboard, at: steady)
        proxies = gateway.configuration.server.trustedProxies.compactMap(PeerNetwork.init)
        tls = gateway.configuration.tls.flatMap { try? $0.context() }
        certificateNotAfter = gateway.configuration.tls?.notAfter
        isEncrypted = gateway.configuration.tls != nil
        origins = OriginGuard(host: gateway.configuration.server.host, isEncrypted: isEncrypted)
        tokens = TokenCheck(gateway)
        var kinds = knownKinds
        for backend in gateway.backends where !kinds.contains(backend.backend.kind.rawValue) {
            kinds.append(backend.backend.kind.rawValue)
        }
        self.kinds = kinds
    }

    /// The gateway as a caller sees it: its backends, its apps, the routes through them.
    func gateway(for caller: Caller) -> GatewaySnapshot { caller.view ?? gateway }

    /// The routes of plugins.
    var modules: [any GatewayModule] { gateway.modules }

    /// Whether a caller may use the data under the name of an app; a gateway with one app ignores the name.
    func mayUse(appNamed name: String, _ caller: Caller) -> Bool {
        gateway.apps.count <= 1 || caller.mayUse(app: AppName(rawValue: name))
    }

    /// Whether a caller may change the data under the name of an app: it is for every backend of the app.
    func mayChange(appNamed name: String, _ caller: Caller) -> Bool {
        mayUseWhole(gateway.apps.count > 1 ? AppName(rawValue: name) : gateway.apps.first ?? .default, caller)
    }

    /// Whether a caller may use every backend of an app.
    func mayUseWhole(_ app: AppName, _ caller: Caller) -> Bool {
        gateway.backends(of: app).allSatisfy { caller.mayUse(backend: $0.name) }
    }

    var server: GatewayConfiguration.Server { gateway.configuration.server }
    var limits: GatewayConfiguration.Limits { gateway.configuration.limits }

    /// The most connections of one peer: what is configured, and never more than half of those of all requests.
    var connectionsPerPeer: Int {
        min(limits.connectionsPerPeer, (server.maximumRequests + Admission.maximumStreams) / 2)
    }

    /// Whether an address is that of a proxy whose header about its peers counts.
    func isProxy(_ address: PeerAddress) -> Bool { proxies.contains { address.isWithin($0) } }

    /// Who asks: the other end of the connection, or whom a trusted proxy names.
    ///
    /// Of the addresses in `X-Forwarded-For` it is the last that is no proxy's: what stands before that anybody may
    /// have written.
    func peer(_ connected: PeerAddress, forwardedFor fields: [String]) -> PeerAddress {
        guard !proxies.isEmpty, isProxy(connected) else { return connected }
        for text in fields.reversed().lazy.flatMap({ $0.split(separator: ",").reversed() }) {
            guard let address = PeerAddress(text) else { return connected }
            if !isProxy(address) { return address }
        }
        return connected
    }

    /// When the gateway's own credentials end: `server_certificate`, and `api_key.NAME` of the caller's key.
    ///
    /// Administrators see the expiries of the keys whose notifications they see.
    func credentialExpiries(for caller: Caller) -> [String: Date] {
        var expiries: [String: Date] = [:]
        expiries["server_certificate"] = certificateNotAfter
        for key in gateway.configuration.apiKeys where caller.maySee(sender: key.name) {
            expiries["api_key.\(key.name)"] = key.notAfter
        }
        return expiries
    }

    var queue: GatewayConfiguration.Queue { gateway.configuration.queue }

    /// The most waiting deliveries of a key without a share of its own.
    var waitingPerKey: Int {
        EnqueueBatch([], share: gateway.configuration.queueShare)
            .ownBound(of: gateway.configuration.store.maximumWaiting)
    }

    /// Lets a request through, or says why not.
    ///
    /// - Parameters:
    ///   - fields: The request's header fields about its caller.
    ///   - access: The scope that the route asks for.
    ///   - peer: An address that made too many wrong attempts: only keys that were good from there lately are compared.
    ///   - now: The time of day by which keys end, and the steady time.
    /// - Returns: The caller.
    /// - Throws: 401 without a right key, 403 for one without the scope.
    func admit(
        _ fields: CallerFields,
        _ access: Route.Access,
        onlyKnownFrom peer: PeerAddress? = nil,
        at now: (wall: Date, steady: Date)
    ) throws(Problem) -> Caller {
        if access != .open, keyring.isKeyless { try origins.admit(fields) }
        return try keyring.admit(fields.authorization, access, onlyKnownFrom: peer, at: now)
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
        derived = Mutex(Self.derive(from: state.snapshot, state, knownKinds))
    }

    var current: APISnapshot {
        let current = state.snapshot
        return derived.withLock { derived in
            if derived.gateway !== current {
                derived = Self.derive(from: current, state, knownKinds)
            }
            return derived
        }
    }

    private static func derive(
        from current: GatewaySnapshot,
        _ state: GatewayState,
        _ knownKinds: [String]
    ) -> APISnapshot {
        APISnapshot(
            current,
            knownKinds: knownKinds,
            uses: state.keyUses,
            dashboard: state.dashboard,
            at: state.time.steady
        )
    }
}
