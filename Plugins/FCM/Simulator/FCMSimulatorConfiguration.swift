public import ChaparSimulator

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

/// The configuration of an FCM simulator.
///
/// The defaults suit tests: free ports, one project with one service account, strict rules, no quotas.
public struct FCMSimulatorConfiguration: Sendable {
    /// The most messages accepted within a minute; nil is no limit.
    public struct Quotas: Sendable, Hashable {
        /// The quota of the whole project.
        public var project: Int?
        /// The quota of each device.
        public var device: Int?
        /// The quota of topics and conditions.
        public var topics: Int?
        /// The `Retry-After` of a refusal, in seconds; nil leaves it out.
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
    /// Projects that exist but are closed to the service account.
    public var foreignProjects: Set<String> = ["somebody-elses-project"]
    /// Whether any unknown token counts as a live one.
    public var acceptsAnyToken = false
    /// Whether tokens such as `sim-unregistered-1` choose their own answer.
    public var honoursMagicTokens = true
    /// The lifetime of access tokens, in seconds.
    public var tokenLifetime = 3599
    /// The quotas.
    public var quotas = Quotas()
    /// The delay of the answer to `sim-slow5-…`.
    public var magicDelay = Duration.seconds(5)
    /// The most open streams of an HTTP/2 connection.
    public var maximumStreams = 100
    /// The longest time that a connection may be idle before it is ended; nil for no limit.
    public var idleTimeout: Duration? = .seconds(240)
    /// The offset of the server's clock from the time source; positive is ahead.
    public var clockOffset: Duration = .zero
    /// The kind of certificate that the listeners show.
    public var serverCertificate = SandboxCertificateAuthority.ServerCertificate.valid
    /// The most messages that the inbox keeps.
    public var inboxLimit = 100_000
    /// The seed of all randomness; nil draws one, which the simulator's `seed` shows.
    public var seed: UInt64?

    /// Makes the defaults.
    public init() {}

    /// The configuration for demonstrations: accepts any token.
    public static var demonstration: FCMSimulatorConfiguration {
        var configuration = FCMSimulatorConfiguration()
        configuration.acceptsAnyToken = true
        return configuration
    }
}
