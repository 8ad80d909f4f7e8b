public import ChaparSimulator

/// A listener of the RuStore simulator.
@nonexhaustive
public enum RuStoreListener: String, Sendable, Hashable, CaseIterable {
    /// RuStore's `vkpns.rustore.ru`: the direct API.
    case direct
    /// RuStore's `vkpns-universal.rustore.ru`: the universal API.
    case universal

    /// Its name in fault rules.
    public var name: SandboxListener { SandboxListener(rawValue: rawValue) }
}

/// The configuration of a RuStore simulator.
///
/// The defaults suit tests: free ports, one project, strict rules.
public struct RuStoreSimulatorConfiguration: Sendable {
    /// The shapes of answers, of which RuStore's pages do not say all.
    public struct Answers: Sendable, Hashable {
        /// The place of an error's members in the direct API.
        @nonexhaustive
        public enum ErrorShape: String, Sendable, Hashable, CaseIterable {
            /// `{"code":404,"message":"…","status":"NOT_FOUND"}`.
            case top
            /// The same within `error`, as Google's.
            case nested
        }

        /// The body of a success.
        @nonexhaustive
        public enum Success: String, Sendable, Hashable, CaseIterable {
            /// `{}` in the direct API, `{"Status":"OK"}` in the universal one, as its examples have it.
            case documented
            /// `{"status":"OK"}`.
            case lowercase
            /// No body.
            case empty
        }

        /// The place of an error's members.
        public var errorShape = ErrorShape.top
        /// The body of a success.
        public var success = Success.documented
        /// The `code` of a provider's error in the universal API: 400 or 3.
        public var providerCode = 400

        /// Makes the documented shapes.
        public init() {}
    }

    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The ports; a listener without an entry gets a free one.
    public var ports: [RuStoreListener: Int] = [:]
    /// The project's id.
    public var projectID = "chapar-sandbox"
    /// The project's service token.
    public var serviceToken = "sandbox-service-token-of-rustore"
    /// Whether any unknown token counts as a live one.
    public var acceptsAnyToken = false
    /// Whether tokens such as `sim-dead-1` choose their own answer.
    public var honoursMagicTokens = true
    /// The shapes of answers.
    public var answers = Answers()
    /// The most open streams of an HTTP/2 connection.
    public var maximumStreams = 100
    /// The longest time that a connection may be idle before it is ended; nil for no limit.
    public var idleTimeout: Duration? = .seconds(240)
    /// The kind of certificate that the listeners show.
    public var serverCertificate = SandboxCertificateAuthority.ServerCertificate.valid
    /// The most messages that the inbox keeps.
    public var inboxLimit = 100_000
    /// The seed of all randomness; nil draws one, which the simulator's `seed` shows.
    public var seed: UInt64?

    /// Makes the defaults.
    public init() {}

    /// The configuration for demonstrations: accepts any token.
    public static var demonstration: RuStoreSimulatorConfiguration {
        var configuration = RuStoreSimulatorConfiguration()
        configuration.acceptsAnyToken = true
        return configuration
    }
}
