/// How an APNs simulator is set up.
///
/// The defaults suit tests: free ports, one key for everything, strict rules.
public struct APNsSimulatorConfiguration: Sendable {
    /// How many streams a connection may have open.
    public struct Streams: Sendable, Hashable {
        /// Before the first accepted push; APNs grants one.
        public var beforeFirstPush = 1
        /// After it.
        public var afterFirstPush = 1000
        /// Whether refusals other than 410 take the limit back to `beforeFirstPush` until the next accepted push.
        public var isStrictFlow = false

        /// Makes APNs' usual limits.
        public init() {}
    }

    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The ports; a listener without an entry gets a free one.
    public var ports: [APNsListener: Int] = [:]
    /// The keys that are registered from the start.
    ///
    /// ``APNsSimulator/key`` is the first of them.
    public var keys: [APNsSigningKey] = [APNsSigningKey()]
    /// What the rules ask.
    public var rules = APNsRuleOptions()
    /// The stream limits.
    public var streams = Streams()
    /// How many `BadDeviceToken` within a minute end a connection; nil for any number.
    public var badDeviceTokenLimit: Int? = 50
    /// How long a connection may be idle before `GOAWAY` says `IdleTimeout`; nil for ever.
    public var idleTimeout: Duration? = .seconds(600)
    /// How far apart pings must be; nil for any distance.
    public var minimumPingInterval: Duration? = .seconds(1)
    /// The server's clock, compared with the given time source: positive is ahead.
    public var clockOffset: Duration = .zero
    /// Whether ALPN is asked for.
    ///
    /// Without it the listeners use HTTP/2 with every client.
    public var usesALPN = true
    /// The kind of certificate that the listeners show.
    public var serverCertificate = SandboxCertificateAuthority.ServerCertificate.valid
    /// Whether clients are asked for a certificate.
    ///
    /// They need not have one.
    public var asksForClientCertificate = false
    /// The most pushes that the inbox keeps.
    public var inboxLimit = 100_000
    /// The seed of everything random; nil draws one, which ``APNsSimulator/seed`` shows.
    public var seed: UInt64?

    /// Makes the defaults.
    public init() {}

    /// For demonstrations: any device token is taken, magic tokens work, provider tokens may have any accepted form.
    public static var demonstration: APNsSimulatorConfiguration {
        var configuration = APNsSimulatorConfiguration()
        configuration.rules.acceptsAnyToken = true
        configuration.rules.honoursMagicTokens = true
        return configuration
    }
}
