package import Foundation
package import NIOSSL
package import ChaparDelivery
internal import ChaparCore
internal import ChaparModules
internal import ChaparQueue
internal import Synchronization

/// The values that the API computes once for a configuration instead of for each request: keys, known names, limits.
///
/// ``APISnapshots`` makes a new one at each reload; a request uses the one that it started with.
package final class APISnapshot: Sendable {
    /// The whole gateway; callers get the view that ``gateway(for:)`` returns.
    fileprivate let gateway: GatewaySnapshot
    package let keyring: Keyring
    let origins: OriginGuard
    private let proxies: [PeerNetwork]
    /// The TLS context of new connections.
    package let tls: NIOSSLContext?
    /// The expiry of the certificate of ``tls``; nil without one.
    let certificateNotAfter: Date?
    /// Whether connections must be encrypted: without a usable certificate none is accepted then.
    package let isEncrypted: Bool
    /// The backend kinds that `overrides` may name.
    let kinds: [String]
    /// The token checks of the backends.
    let tokens: TokenCheck

    package init(
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

    /// Returns the gateway as a caller sees it: its backends, its apps, and the routes through them.
    func gateway(for caller: Caller) -> GatewaySnapshot { caller.view ?? gateway }

    /// The modules of plugins, which add routes.
    var modules: [any GatewayModule] { gateway.modules }

    /// Whether a caller may use the data of an app by its name; a gateway with one app ignores the name.
    func mayUse(appNamed name: String, _ caller: Caller) -> Bool {
        gateway.apps.count <= 1 || caller.mayUse(app: AppName(rawValue: name))
    }

    /// Whether a caller may change the data of an app by its name, which affects every backend of the app.
    func mayChange(appNamed name: String, _ caller: Caller) -> Bool {
        mayUseWhole(gateway.apps.count > 1 ? AppName(rawValue: name) : gateway.apps.first ?? .default, caller)
    }

    /// Whether a caller may use every backend of an app.
    func mayUseWhole(_ app: AppName, _ caller: Caller) -> Bool {
        gateway.backends(of: app).allSatisfy { caller.mayUse(backend: $0.name) }
    }

    package var server: GatewayConfiguration.Server { gateway.configuration.server }
    var limits: GatewayConfiguration.Limits { gateway.configuration.limits }

    /// The most connections of one peer: the configured number, but never more than half of those for all requests.
    package var connectionsPerPeer: Int {
        min(limits.connectionsPerPeer, (server.maximumRequests + Admission.maximumStreams) / 2)
    }

    /// Whether an address belongs to a trusted proxy, whose header about its peers counts.
    package func isProxy(_ address: PeerAddress) -> Bool { proxies.contains { address.isWithin($0) } }

    /// Returns the peer of a request: the other end of the connection, or the one that a trusted proxy names.
    ///
    /// It is the last address in `X-Forwarded-For` that is not a proxy's, since a client may have written the addresses
    /// before it.
    package func peer(_ connected: PeerAddress, forwardedFor fields: [String]) -> PeerAddress {
        guard !proxies.isEmpty, isProxy(connected) else { return connected }
        for text in fields.reversed().lazy.flatMap({ $0.split(separator: ",").reversed() }) {
            guard let address = PeerAddress(text) else { return connected }
            if !isProxy(address) { return address }
        }
        return connected
    }

    /// Returns the expiry times of the gateway's own credentials: `server_certificate`, and `api_key.NAME` of the
    /// caller's key.
    ///
    /// Administrators also see those of keys whose notifications they may see.
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

    /// The most reports of arrivals and openings a second of the app that may send most; 0 when none sends any.
    var receiptsPerApp: Int { gateway.configuration.receipts.values.map(\.perSecond).max() ?? 0 }

    /// Admits a request, or throws the reason why not.
    ///
    /// - Parameters:
    ///   - fields: The request's header fields about its caller.
    ///   - access: The scope that the route requires.
    ///   - peer: An address that made too many wrong attempts, else nil. For such an address only keys are compared
    ///     that were used successfully from there lately.
    ///   - now: The wall-clock time, at which keys expire, and the steady time.
    /// - Returns: The caller.
    /// - Throws: 401 without a valid key, 403 for a key without the scope.
    package func admit(
        _ fields: CallerFields,
        _ access: Route.Access,
        onlyKnownFrom peer: PeerAddress? = nil,
        at now: (wall: Date, steady: Date)
    ) throws(Problem) -> Caller {
        if access != .open, keyring.isKeyless { try origins.admit(fields) }
        return try keyring.admit(fields.authorization, access, onlyKnownFrom: peer, at: now)
    }
}

/// The snapshot of the configuration in force, made again after a reload.
package final class APISnapshots: Sendable {
    private let state: GatewayState
    private let api: APIState
    private let knownKinds: [String]
    private let derived: Mutex<APISnapshot>

    package init(_ state: GatewayState, _ api: APIState, knownKinds: [String]) {
        self.state = state
        self.api = api
        self.knownKinds = knownKinds
        derived = Mutex(Self.derive(from: state.snapshot, state, api, knownKinds))
    }

    package var current: APISnapshot {
        let current = state.snapshot
        return derived.withLock { derived in
            if derived.gateway !== current {
                derived = Self.derive(from: current, state, api, knownKinds)
            }
            return derived
        }
    }

    private static func derive(
        from current: GatewaySnapshot,
        _ state: GatewayState,
        _ api: APIState,
        _ knownKinds: [String]
    ) -> APISnapshot {
        APISnapshot(
            current,
            knownKinds: knownKinds,
            uses: api.keyUses,
            dashboard: api.dashboard,
            at: state.time.steady
        )
    }
}
