/// A listener of the FCM simulator.
@nonexhaustive
public enum FCMListener: String, Sendable, Hashable, CaseIterable {
    /// Google's `fcm.googleapis.com`: sends.
    case send
    /// Google's `oauth2.googleapis.com`: access tokens.
    case oauth
    /// Google's `iid.googleapis.com`: token look-up, topics, import of APNs tokens.
    case instanceID = "instance_id"

    /// Its name in fault rules.
    public var name: SandboxListener { SandboxListener(rawValue: rawValue) }
}

/// How an FCM simulator is set up.
///
/// The defaults suit tests: free ports, one project with one service account, strict rules, no quotas.
public struct FCMSimulatorConfiguration: Sendable {
    /// How many messages are taken in a minute; nil is no limit.
    public struct Quotas: Sendable, Hashable {
        /// In the whole project.
        public var project: Int?
        /// To one device.
        public var device: Int?
        /// To topics and conditions.
        public var topics: Int?
        /// Seconds that `Retry-After` asks for; nil leaves it out.
        public var retryAfter: Int?

        /// Makes quotas without a limit.
        public init() {}
    }

    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The ports; a listener without an entry gets a free one.
    public var ports: [FCMListener: Int] = [:]
    /// The project's id.
    public var projectID = "chapar-sandbox"
    /// The project's number, which the send path takes as well.
    public var projectNumber = "314159265358"
    /// Projects that exist but that the service account may not use.
    public var foreignProjects: Set<String> = ["somebody-elses-project"]
    /// Whether any token that is not known otherwise counts as a live one.
    public var acceptsAnyToken = false
    /// Whether tokens such as `sim-unregistered-1` say themselves what comes back.
    public var honoursMagicTokens = true
    /// How long access tokens live, in seconds.
    public var tokenLifetime = 3599
    /// Quotas.
    public var quotas = Quotas()
    /// How slow `sim-slow5-…` is.
    public var magicDelay = Duration.seconds(5)
    /// How many streams an HTTP/2 connection may have open.
    public var maximumStreams = 100
    /// How long a connection may be idle before it is ended; nil for ever.
    public var idleTimeout: Duration? = .seconds(240)
    /// The server's clock, compared with the given time source: positive is ahead.
    public var clockOffset: Duration = .zero
    /// The kind of certificate that the listeners show.
    public var serverCertificate = SandboxCertificateAuthority.ServerCertificate.valid
    /// The most messages that the inbox keeps.
    public var inboxLimit = 100_000
    /// The seed of everything random; nil draws one, which ``FCMSimulator/seed`` shows.
    public var seed: UInt64?

    /// Makes the defaults.
    public init() {}

    /// For demonstrations: any token is taken.
    public static var demonstration: FCMSimulatorConfiguration {
        var configuration = FCMSimulatorConfiguration()
        configuration.acceptsAnyToken = true
        return configuration
    }
}
