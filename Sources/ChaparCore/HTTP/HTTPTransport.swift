/// A maker of connection pools for plugins.
///
/// `ChaparHTTP` holds the one real implementation.
///
/// A plugin asks for one pool for each endpoint and credential that it uses, and never sees a socket.
public protocol HTTPTransport: Sendable {
    /// Makes a pool; nothing is opened before the first call.
    func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool
}

/// The error for a pool configuration that cannot work: an unreadable certificate, an invalid proxy address.
public struct HTTPPoolError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The problem and its fix.
    ///
    /// Never holds key material.
    public let description: String

    /// Makes an error.
    public init(_ description: String) { self.description = description }
}

/// Connections to one endpoint under one credential.
///
/// Calls beyond the peer's stream limit wait in the pool, in order, until there is room or their deadline passes.
public protocol HTTPPool: Sendable {
    /// Sends every call once and reports each exactly once, as the answers come.
    ///
    /// `report` runs on the pool's event loop with all replies of one read: it must not block. The function returns
    /// when every call has been reported. Cancelling the task makes calls that are not written yet fail as `cancelled`;
    /// calls that are already written still report their answer or `unknown`.
    func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async

    /// The current state of the pool.
    var status: HTTPPoolStatus { get }

    /// Retires every connection: open streams end normally, new calls open new connections.
    ///
    /// Use it after a credential was replaced, or was refused by the platform.
    func replaceConnections()

    /// Shuts the pool down: waiting calls fail as `cancelled`, open ones have `grace` to end.
    func shutdown(grace: Duration) async
}

extension HTTPPool {
    /// Sends one call and waits for its answer.
    public func send(_ call: HTTPCall) async throws(HTTPFailure) -> HTTPAnswer {
        let slot = ReplySlot()
        await send([call]) { replies in
            for reply in replies { slot.put(reply.result) }
        }
        return try slot.take().get()
    }
}

/// A snapshot of a pool, for the dispatcher's window, health and metrics.
public struct HTTPPoolStatus: Sendable, Hashable {
    /// The number of connections that take calls.
    public var connections: Int
    /// The number of calls that are on the wire.
    public var openStreams: Int
    /// The number of calls that wait for a stream.
    public var waiting: Int
    /// The sum of the peers' current stream limits.
    public var streamLimit: Int
    /// The number of connections opened in this process.
    public var connectionsOpened: Int
    /// The failure of the last attempt to connect; nil after a success.
    public var lastConnectFailure: HTTPFailure?

    /// Makes a snapshot.
    public init(
        connections: Int = 0,
        openStreams: Int = 0,
        waiting: Int = 0,
        streamLimit: Int = 0,
        connectionsOpened: Int = 0,
        lastConnectFailure: HTTPFailure? = nil
    ) {
        self.connections = connections
        self.openStreams = openStreams
        self.waiting = waiting
        self.streamLimit = streamLimit
        self.connectionsOpened = connectionsOpened
        self.lastConnectFailure = lastConnectFailure
    }

    /// Makes the snapshot of several pools as of one; it has a failure only while none of them has a connection.
    public init(merging pools: [HTTPPoolStatus]) {
        self.init()
        for pool in pools {
            connections += pool.connections
            openStreams += pool.openStreams
            waiting += pool.waiting
            streamLimit += pool.streamLimit
            connectionsOpened += pool.connectionsOpened
        }
        if connections == 0 { lastConnectFailure = pools.lazy.compactMap(\.lastConnectFailure).first }
    }

    /// The reason why nothing gets through now: there is no connection, and the last attempt to open one failed.
    public var outage: HTTPFailure? { connections == 0 ? lastConnectFailure : nil }
}

/// The settings of a pool, with defaults that fit the push platforms.
public struct HTTPPoolConfiguration: Sendable {
    /// The protocol of the connections.
    @nonexhaustive
    public enum Version: Sendable {
        /// HTTP/1.1, one call at a time on a connection: at most as many at once as connections.
        case http1
        /// HTTP/2, negotiated by ALPN; if the peer chooses another protocol, the connection fails.
        ///
        /// It needs an `https` endpoint. Use it for platforms that document HTTP/2, when more calls must be in flight
        /// than there are connections.
        case http2
    }

    /// A client certificate with its key, both PEM.
    public struct ClientCertificate: Sendable {
        /// The certificate, followed by its intermediates.
        public let chainPEM: String
        /// The private key.
        public let keyPEM: Secret

        /// Makes a client certificate.
        public init(chainPEM: String, keyPEM: Secret) {
            self.chainPEM = chainPEM
            self.keyPEM = keyPEM
        }
    }

    /// The endpoint to connect to.
    public var endpoint: HTTPEndpoint
    /// The protocol of the connections.
    public var version: Version
    /// Certificates to trust beside the system's, PEM.
    ///
    /// They are for a private CA or a simulator.
    public var extraTrustPEM: String?
    /// The certificate the client shows, for mutual TLS.
    public var clientCertificate: ClientCertificate?
    /// An HTTP proxy (`http://host:port`) that is asked for a `CONNECT` tunnel.
    public var proxy: HTTPEndpoint?
    /// The user and the password that the proxy asks for; nil for a proxy that asks for none.
    public var proxyCredentials: HTTPProxyCredentials?
    /// The most connections at a time.
    public var maximumConnections: Int = 4
    /// The most calls that may wait for a stream; further ones fail as `queueFull`.
    public var maximumWaiting: Int = 10_000
    /// The longest time name resolution, TCP and TLS may take together.
    public var connectTimeout: Duration = .seconds(20)
    /// The longest time a call may take, unless its template says otherwise.
    public var requestTimeout: Duration = .seconds(20)
    /// The time with calls open and no byte read after which the peer is pinged.
    public var pingAfterSilence: Duration = .seconds(15)
    /// The longest time the answer to a ping may take before the connection counts as dead.
    public var pingTimeout: Duration = .seconds(10)
    /// The time after which a surplus connection without calls is closed; the last one stays open.
    public var idleTimeout: Duration = .seconds(600)
    /// The largest answer body that is kept, in bytes; a larger one fails the call as `badAnswer`.
    public var maximumAnswerBytes: Int = 1 << 20
    /// The pause before connecting again: from the lower to the upper bound, doubled each time, with full jitter.
    ///
    /// The pause is at most two seconds (or the lower bound, if that is longer) where no server could be reached. For a
    /// call that finds no other call waiting it is at most the lower bound. So a platform that is back gets its
    /// messages at once.
    public var reconnectBackoff: ClosedRange<Duration> = .seconds(1) ... .seconds(60)
    /// Whether connections are made to public addresses only: a host is refused if one of its addresses is not public,
    /// and each connection goes to an address that was checked.
    ///
    /// Set it for hosts that come from outside. It has no effect through a proxy, which resolves names itself.
    package var requiresPublicAddress = false
    /// The IP address to connect to.
    ///
    /// TLS and HTTP still use the name of ``endpoint``'s host. Nil resolves that name.
    package var resolvedAddress: String?
    /// The platform's own rules for connections; nil when it has none.
    public var policy: (any HTTPConnectionPolicy)?

    /// Makes a configuration with the defaults of this type.
    public init(endpoint: HTTPEndpoint, version: Version) {
        self.endpoint = endpoint
        self.version = version
    }
}

/// A platform's rules for its connections: a credential bound to each, and when one must no longer be used.
///
/// Called on the pool's event loop, once for a batch of calls or answers: it must return at once.
public protocol HTTPConnectionPolicy: Sendable {
    /// Returns the fields that calls on `connection` carry now, such as `authorization`.
    ///
    /// Called when the connection opens and then at most once a second, so that a replaced token is used without
    /// further steps.
    func headers(for connection: HTTPConnectionInfo) throws(HTTPFailure) -> [HTTPHeader]

    /// Decides what the answer means for its connection; called for every answer that is not a success.
    func verdict(on answer: HTTPAnswer, from connection: HTTPConnectionInfo) -> HTTPConnectionVerdict
}

/// A connection, as a policy sees it.
public struct HTTPConnectionInfo: Sendable, Hashable {
    /// A number that is never used again in this process.
    public let id: UInt64
    /// The time when the connection was ready for calls.
    public let openedAt: ContinuousClock.Instant

    /// Makes the description of a connection.
    public init(id: UInt64, openedAt: ContinuousClock.Instant) {
        self.id = id
        self.openedAt = openedAt
    }
}

/// The decision about a connection after an answer.
@nonexhaustive
public enum HTTPConnectionVerdict: Sendable {
    /// Keep using it.
    case keep
    /// Give it no new calls, let the open ones end, then close it; others replace it.
    case retire
}
