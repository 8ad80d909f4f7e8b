public import ChaparSimulator

/// The configuration of an HMS simulator.
///
/// The defaults suit tests: free ports, one app with a project and a service account, strict rules.
public struct HMSSimulatorConfiguration: Sendable {
    /// An app with its project, as in AppGallery Connect.
    public struct App: Sendable, Hashable {
        /// The app's id, which is the id of its OAuth client for v1 and v2 as well.
        public var appID: String
        /// The client id by which v3 takes messages back; nil when it is the app's id.
        public var clientID: String?
        /// The project's id.
        public var projectID: String
        /// The client secret.
        public var clientSecret: String

        /// Makes an app; the secret has characters that must be percent-encoded in a form.
        public init(
            appID: String = "100200300",
            projectID: String = "388421841221000001",
            clientSecret: String = "a+b/c&d=e%f==",
            clientID: String? = nil
        ) {
            self.clientID = clientID
            self.appID = appID
            self.projectID = projectID
            self.clientSecret = clientSecret
        }
    }

    /// The signing settings of the callback, as set beside its address.
    public struct Callback: Sendable, Hashable {
        /// The user name.
        public var user = "chapar"
        /// The secret; with ``isBase64`` the base64 form of the key.
        public var secret = "c2FuZGJveC1jYWxsYmFjay1zZWNyZXQ="
        /// Whether the secret is decoded to get the key.
        public var isBase64 = true

        /// Makes the defaults.
        public init() {}
    }

    /// The form in which a partial success lists the refused tokens.
    @nonexhaustive
    public enum PartialForm: String, Sendable, CaseIterable {
        /// A list without reasons, as v1 and v2 have it.
        case list
        /// An object by reason, as v3 has it.
        case reasons
    }

    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The port of the push endpoint; 0 for a free one.
    public var pushPort = 0
    /// The port of the token endpoint; 0 for a free one.
    public var tokenPort = 0
    /// The apps; ``HMSSimulator/app`` is the first of them.
    public var apps = [App()]
    /// The service account of the first app's project.
    public var serviceAccount = HMSSandboxServiceAccount()
    /// The signing settings of receipts.
    public var callback = Callback()
    /// Whether any device token that is not magic is accepted.
    public var acceptsAnyToken = false
    /// Whether ``HMSMagicToken`` is honoured.
    public var honoursMagicTokens = false
    /// Whether the app may send urgent messages; otherwise they get the code 80300011.
    public var hasUrgentRight = true
    /// The HTTP status of refused credentials.
    public var refusedCredentialStatus = 401
    /// The HTTP status of other refusals that carry a code.
    public var refusalStatus = 400
    /// The form in which a partial success lists the refused tokens.
    public var partialForm = PartialForm.list
    /// The lifetime of access tokens.
    public var tokenLifetime: Duration = .seconds(3600)
    /// The most access tokens that an app may fetch in 5 minutes; nil for no limit.
    public var tokenFetchLimit: Int?
    /// The most devices a second that an app may reach before it gets 503; nil for no limit.
    public var devicesPerSecond: Int?
    /// The value of `Retry-After` in that 503; nil for none.
    public var flowRetryAfter: Int?
    /// The delay of the answer for a slow magic token.
    public var magicDelay: Duration = .seconds(5)
    /// The longest time that a connection may be idle before it is closed; nil for no limit.
    public var idleTimeout: Duration? = .seconds(600)
    /// The offset of the server's clock from the time source; positive is ahead.
    public var clockOffset: Duration = .zero
    /// The kind of certificate that the listeners show.
    public var serverCertificate = SandboxCertificateAuthority.ServerCertificate.valid
    /// The most messages that the inbox keeps.
    public var inboxLimit = 100_000
    /// The seed of all randomness; nil draws one.
    public var seed: UInt64?

    /// Makes the defaults.
    public init() {}

    /// The configuration for demonstrations: accepts any device token and magic tokens.
    public static var demonstration: HMSSimulatorConfiguration {
        var configuration = HMSSimulatorConfiguration()
        configuration.acceptsAnyToken = true
        configuration.honoursMagicTokens = true
        configuration.magicDelay = .seconds(1)
        return configuration
    }
}

/// A device in the simulator.
public struct HMSDevice: Sendable, Hashable {
    /// The state of its token: whether messages to it are accepted.
    @nonexhaustive
    public enum State: Sendable, Hashable {
        /// Messages are accepted.
        case alive
        /// Messages are refused; the reason, such as `tokenFormatError` or `noRight`, is in v3 answers only.
        case refused(reason: String)
    }

    /// The app it belongs to; nil for the simulator's first.
    public var appID: String?
    /// The state of its token.
    public var state: State
    /// Whether it runs Apple's system, and so cannot join topics.
    public var isApple: Bool
    /// Whether it runs HarmonyOS 5 or later: only v3 reaches it, and v3 reaches no other.
    public var isHarmony: Bool

    /// Makes a device.
    public init(appID: String? = nil, state: State = .alive, isApple: Bool = false, isHarmony: Bool = false) {
        self.isHarmony = isHarmony
        self.appID = appID
        self.state = state
        self.isApple = isApple
    }
}

/// Device tokens that choose their own answer, for demonstrations without any set-up.
///
/// | prefix | answer |
/// | --- | --- |
/// | `sim-dead-` | the token is not good |
/// | `sim-v3-` | the device has moved to HarmonyOS 5: v1 and v2 refuse it |
/// | `sim-503once-` | 503 once for each token, then success |
/// | `sim-expired-once-` | 80200003 once for each token, then success |
/// | `sim-slow5-` | success, but slowly |
/// | `sim-r6-` | success, and a receipt with the status 6; any number |
@nonexhaustive
public enum HMSMagicToken: Sendable, Hashable {
    /// The token is invalid.
    case dead
    /// The device cannot be reached by v1 and v2.
    case moved
    /// 503 once.
    case flowOnce
    /// 80200003 once.
    case expiredOnce
    /// A slow success.
    case slow
    /// A receipt with this status.
    case receipt(Int)

    /// The prefixes.
    public static let prefixes = ["sim-dead-", "sim-v3-", "sim-503once-", "sim-expired-once-", "sim-slow5-", "sim-r6-"]

    /// Finds the magic of a device token; nil for an ordinary one.
    public init?(_ token: String) {
        guard token.hasPrefix("sim-") else { return nil }
        if token.hasPrefix("sim-dead-") {
            self = .dead
        } else if token.hasPrefix("sim-v3-") {
            self = .moved
        } else if token.hasPrefix("sim-503once-") {
            self = .flowOnce
        } else if token.hasPrefix("sim-expired-once-") {
            self = .expiredOnce
        } else if token.hasPrefix("sim-slow5-") {
            self = .slow
        } else if token.hasPrefix("sim-r"), let status = Int(token.dropFirst(5).prefix { $0 != "-" }) {
            self = .receipt(status)
        } else {
            return nil
        }
    }
}
