public import Logging

/// The entry point of a plugin: makes a backend of its kind from a section of a configuration file.
///
/// The factory reads its keys from the section, which collects every mistake. It does not use the network, and reads no
/// files but those that the section names. It returns nil after reporting at least one issue.
public struct BackendFactory: Sendable {
    /// The kind it makes.
    public let kind: BackendKind
    /// Other names under which people look for the platform, such as `firebase`; for these the error suggests the kind.
    public let otherNames: [String]
    /// One line that describes the platform.
    public let summary: String
    /// The outcome for each reason in the plugin's table of rejections, which `explain` shows.
    ///
    /// Refusals and unknown outcomes, one for each reason; times in them have no meaning.
    public let reasons: [DeliveryOutcome]
    /// The platform's answer when it accepts a message.
    ///
    /// `chapar send --dry-run`, which sends nothing, gives the plugin this answer. Nil where the plugin makes the
    /// message's request without such an answer. The answer is never shown, and never becomes an outcome.
    public let previewAnswer: HTTPAnswer?
    /// Makes a backend from a section.
    public let make: @Sendable (ConfigSection, BackendContext) -> (any PushBackend)?

    /// Makes a factory.
    ///
    /// - Parameters:
    ///   - kind: The word after `kind:`.
    ///   - otherNames: Other names under which people look for the platform.
    ///   - summary: One line that describes the platform.
    ///   - reasons: The outcomes in the plugin's table of rejections, one for each reason.
    ///   - previewAnswer: The platform's answer when it accepts a message, where a dry run needs it before the plugin
    ///     makes the message's request.
    ///   - make: Reads every key of the section, and returns nil after reporting a mistake.
    public init(
        _ kind: BackendKind,
        otherNames: [String] = [],
        summary: String,
        reasons: [DeliveryOutcome] = [],
        previewAnswer: HTTPAnswer? = nil,
        make: @escaping @Sendable (ConfigSection, BackendContext) -> (any PushBackend)?
    ) {
        self.kind = kind
        self.otherNames = otherNames
        self.summary = summary
        self.reasons = reasons
        self.previewAnswer = previewAnswer
        self.make = make
    }
}

/// The dependencies that a backend gets from its creator: everything that it does not own.
public struct BackendContext: Sendable {
    /// The name the configuration gives it, such as `ios`; used in logs and metrics.
    public let name: String
    /// The transport that it sends through.
    public let http: any HTTPTransport
    /// The wall clock.
    public let time: any TimeSource
    /// The store for small values that survive a restart; nil when nothing is kept.
    public let state: (any StateStore)?
    /// The store for credentials that survive a restart, encrypted if the gateway has a key; nil when nothing is kept.
    public let credentials: (any StateStore)?
    /// The logger, with the backend's name in its metadata.
    public let logger: Logger
    /// Passes notices on to listeners; returns at once.
    ///
    /// It drops the notices when there are no listeners.
    public let announce: @Sendable (BackendNotice) -> Void

    /// Makes a context; without `credentials` they are kept in `state`, unencrypted.
    public init(
        name: String,
        http: any HTTPTransport,
        time: any TimeSource = SystemTime(),
        state: (any StateStore)? = nil,
        credentials: (any StateStore)? = nil,
        logger: Logger,
        announce: @escaping @Sendable (BackendNotice) -> Void = { _ in }
    ) {
        self.name = name
        self.http = http
        self.time = time
        self.state = state
        self.credentials = credentials ?? state
        self.logger = logger
        self.announce = announce
    }

    /// Returns this context with the given store where it has no `state` of its own, and with another for credentials.
    package func keeping(in store: any StateStore, credentials: any StateStore) -> Self {
        Self(
            name: name,
            http: http,
            time: time,
            state: state ?? store,
            credentials: credentials,
            logger: logger,
            announce: announce
        )
    }

    /// Returns this context with the factory's own yes, where the transport plays the platform.
    func previewing(_ factory: BackendFactory) -> Self {
        guard let answer = factory.previewAnswer, let played = http as? any PlayedTransport else { return self }
        return Self(
            name: name,
            http: played.answering(answer),
            time: time,
            state: state,
            credentials: credentials,
            logger: logger,
            announce: announce
        )
    }

    /// Returns this context with notices that name a device by its key (``AppName``), as every other event does.
    func announcing(for app: AppName) -> Self {
        guard app != .default else { return self }
        return Self(
            name: name,
            http: http,
            time: time,
            state: state,
            credentials: credentials,
            logger: logger
        ) { [announce] notice in
            var keyed = notice
            keyed.device = notice.device.map(app.key)
            announce(keyed)
        }
    }
}

/// A transport that plays every platform and sends nothing, for `send --dry-run`.
package protocol PlayedTransport: HTTPTransport {
    /// Returns a transport that gives this answer to messages in the place of its own.
    func answering(_ answer: HTTPAnswer) -> any HTTPTransport
}

/// The keys that every backend takes: where and how to connect. (`max_in_flight` and `rate_limit` belong to the queue;
/// the registry reads them.)
public struct CommonBackendOptions: Sendable {
    /// `base_url`: the platform's own address, a simulator's or a relay's.
    public var address: PlatformAddress
    /// `ca_file`: certificates to trust beside the system's, PEM.
    public var trustPEM: String?
    /// `timeout`: how long a request may take, 1 to 300 s, default 20 unless the platform asks for another.
    public var timeout: Duration
    /// `proxy`: an HTTP proxy to tunnel through.
    public var proxy: HTTPEndpoint?
    /// The user and the password in `proxy`; nil without them.
    public var proxyCredentials: HTTPProxyCredentials?
    /// `max_connections`: connections at a time, 1 to 64.
    public var maximumConnections: Int

    /// Makes options in code: the platform's own address, the system's trust, 20 s, no proxy.
    public init(
        address: PlatformAddress = .platform,
        trustPEM: String? = nil,
        timeout: Duration = .seconds(20),
        proxy: HTTPEndpoint? = nil,
        proxyCredentials: HTTPProxyCredentials? = nil,
        maximumConnections: Int = 4
    ) {
        self.address = address
        self.trustPEM = trustPEM
        self.timeout = timeout
        self.proxy = proxy
        self.proxyCredentials = proxyCredentials
        self.maximumConnections = maximumConnections
    }

    /// Reads the common keys of a backend's section; the parameters are the platform's own defaults.
    ///
    /// A platform whose address may have a path reads `base_url` itself, with ``ConfigSection/baseURL(_:)``. For a
    /// platform that repeats work when calls are given up early, `shortestTimeout` is the shortest `timeout` that a
    /// configuration may have.
    public init(
        _ section: ConfigSection,
        readsBase: Bool = true,
        connections: Int = 4,
        timeout fallback: Duration = .seconds(20),
        shortestTimeout: Duration = .seconds(1)
    ) {
        let base = readsBase ? section.endpoint("base_url") : nil
        address = base.map { PlatformAddress($0) } ?? .platform
        trustPEM = section.certificates("ca_file")
        timeout = section.seconds("timeout", in: shortestTimeout.inSeconds...300, default: fallback)
        let way = section.proxy("proxy")
        proxy = way?.endpoint
        proxyCredentials = way?.credentials
        maximumConnections = section.integer("max_connections", in: 1...64, default: connections)
    }

    /// Lays these options over a pool's configuration.
    public func apply(to pool: inout HTTPPoolConfiguration) {
        pool.endpoint = address.endpoint(platform: pool.endpoint)
        pool.extraTrustPEM = trustPEM
        pool.requestTimeout = timeout
        pool.proxy = proxy
        pool.proxyCredentials = proxyCredentials
        pool.maximumConnections = maximumConnections
    }
}
