public import ChaparSimulator

/// The configuration of an APNs simulator.
///
/// The defaults suit tests: free ports, one key for everything, strict rules.
public struct APNsSimulatorConfiguration: Sendable {
    /// The most open streams of a connection.
    public struct Streams: Sendable, Hashable {
        /// The limit before the first accepted push; APNs grants one.
        public var beforeFirstPush = 1
        /// The limit after it.
        public var afterFirstPush = 1000
        /// Whether refusals with 4xx other than 410 lower the limit to `beforeFirstPush` until the next accepted push.
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
    /// The options of the rules.
    public var rules = APNsRuleOptions()
    /// The stream limits.
    public var streams = Streams()
    /// The number of `BadDeviceToken` refusals within a minute that ends a connection; nil for no limit.
    public var badDeviceTokenLimit: Int? = 50
    /// The longest time that a connection may be idle before `GOAWAY` says `IdleTimeout`; nil for no limit.
    public var idleTimeout: Duration? = .seconds(600)
    /// The shortest time between two pings; nil for no limit.
    public var minimumPingInterval: Duration? = .seconds(1)
    /// The offset of the server's clock from the time source; positive is ahead.
    public var clockOffset: Duration = .zero
    /// Whether ALPN is required.
    ///
    /// Without it the listeners use HTTP/2 with every client.
    public var usesALPN = true
    /// The kind of certificate that the listeners show.
    public var serverCertificate = SandboxCertificateAuthority.ServerCertificate.valid
    /// Whether clients are asked for a certificate.
    ///
    /// They may go without one.
    public var asksForClientCertificate = false
    /// The most pushes that the inbox keeps.
    public var inboxLimit = 100_000
    /// The seed of all randomness; nil draws one, which ``APNsSimulator/seed`` shows.
    public var seed: UInt64?

    /// Makes the defaults.
    public init() {}

    /// The configuration for demonstrations: accepts any device token and honours magic tokens.
    public static var demonstration: APNsSimulatorConfiguration {
        var configuration = APNsSimulatorConfiguration()
        configuration.rules.acceptsAnyToken = true
        configuration.rules.honoursMagicTokens = true
        return configuration
    }
}
