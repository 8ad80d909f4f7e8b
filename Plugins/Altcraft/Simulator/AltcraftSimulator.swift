internal import Foundation
public import ChaparCore
public import ChaparSimulator
internal import Synchronization

/// Altcraft on real TLS sockets: the mobile endpoints over profiles in databases, and the start of a campaign.
///
/// Profiles are found by a JWT's matching claim or by a push token. Fields, functional fields and categories are
/// checked, with the platform's own error texts. A log-in suspends the other profiles' subscriptions.
public final class AltcraftSimulator: Sendable {
    /// The behaviour of the platform.
    public struct Rules: Sendable {
        /// Role tokens, each with its database.
        public var roles: [String: Int64] = ["sandbox-role": 10]
        /// The databases.
        public var databases: Set<Int64> = [10, 11, 12]
        /// The public keys, PEM, that JWTs may be signed with; when empty, no signature is checked.
        public var publicKeysPEM: [String] = []
        /// The databases' own profile fields; `email`, `phones` and fields with a leading underscore always exist.
        public var profileFields: Set<String> = [
            "bonus", "plan", "city", "address", "interests", "crm_id", "user_id",
        ]
        /// The resource's own subscription fields; those with a leading underscore always exist.
        public var subscriptionFields: Set<String> = ["plan", "vip", "level"]
        /// The resource's categories.
        public var categories: Set<String> = ["sport", "news"]
        /// The pixels that take events of an app's own.
        public var pixels: Set<String> = ["sandbox-pixel"]
        /// The status of an answer to a request with `sync=false`.
        public var acknowledgement = 202
        /// The delay until such a request takes effect.
        public var processingDelay = Duration.zero
        /// The API token for campaign starts.
        public var apiToken = "sandbox-api-token"
        /// The campaigns that exist.
        public var triggers: Set<Int64> = [13]
        /// The database of the campaigns: their profiles are found in it, and imported into it.
        public var campaignDatabase: Int64 = 12

        /// Makes the defaults.
        public init() {}
    }

    /// The counts of requests and refusals.
    public struct Counters: Sendable, Hashable {
        /// All requests, including refused ones and those that a fault answered.
        public var requests = 0
        /// Requests that the rules refused.
        public var refused = 0
    }

    /// The listener, for fault rules; the token of a rule is the `subscription_id` in the query.
    public static let pixel: SandboxListener = "altcraft"

    /// The host of its listeners.
    public let host: SandboxWebHost
    /// The private key that the sandbox's configuration signs with.
    let signingKey: SandboxSigningKey
    private let guarded: Mutex<AltcraftState>
    private let ports: [SandboxListener: Int]

    /// Makes a simulator that does not listen yet.
    public init(
        _ rules: Rules = Rules(),
        ports: [SandboxListener: Int] = [:],
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        host = SandboxWebHost(.init(), authority: try authority ?? SandboxCertificateAuthority(), time: time)
        guarded = Mutex(AltcraftState(rules))
        signingKey = SandboxSigningKey()
        self.ports = ports
    }

    /// Starts a simulator, runs `body`, and shuts it down, also after an error.
    public static func run<Value>(
        _ rules: Rules = Rules(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (AltcraftSimulator) async throws -> Value
    ) async throws -> Value {
        try await AltcraftSimulator(rules, time: time).whileRunning(body)
    }

    /// Starts the listeners; throws when a port is taken.
    public func start() async throws {
        try await host.start([.init(name: Self.pixel, port: ports[Self.pixel] ?? 0, handler: AltcraftHandler(self))])
    }

    /// The address of the mobile endpoints and of the user API.
    public var url: String { host.url(Self.pixel) }
    /// The private key, PEM, that signs the JWTs of a `Sandbox`.
    public var signingKeyPEM: String { signingKey.privatePEM }
    /// The counts of requests and refusals so far.
    public var counters: Counters { withState { $0.counters } }
    /// The behaviour of the platform from now on.
    public var rules: Rules {
        get { withState { $0.rules } }
        set { withState { $0.rules = newValue } }
    }
    /// All profiles, in the order of their creation.
    public var profiles: [AltcraftProfile] {
        let now = host.now
        return withState { state in
            state.advance(at: now)
            return state.profiles
        }
    }
    /// The deliveries and openings that were reported.
    public var events: [AltcraftEventRecord] { withState { $0.events } }
    /// The events of an app's own that were reported.
    public var mobileEvents: [AltcraftMobileEventRecord] { withState { $0.mobileEvents } }
    /// The campaigns that were started.
    public var launches: [AltcraftLaunch] {
        let now = host.now
        return withState { state in
            state.advance(at: now)
            return state.launches
        }
    }
    /// The number of requests with each `Request-ID`.
    public var requestIDs: [String: Int] { withState { $0.requestIDs } }

    /// Returns a profile by its database and key, such as `email ada@example.com`.
    public func profile(_ key: String, in database: Int64) -> AltcraftProfile? {
        profiles.first { $0.databaseID == database && $0.key == key }
    }

    func withState<Value: Sendable>(_ body: (inout sending AltcraftState) -> sending Value) -> Value {
        guarded.withLock(body)
    }
}

extension AltcraftSimulator: WebSimulator {}
