internal import Foundation
public import PushCore
internal import Synchronization

/// Altcraft on real TLS sockets: the mobile endpoints over profiles in databases, and the start of a campaign.
///
/// Profiles are found by a JWT's matching claim or by a push token; fields, functional fields and categories are
/// checked with the platform's own words; a log-in puts the other profiles' subscriptions to sleep.
public final class AltcraftSimulator: Sendable {
    /// How the platform behaves.
    public struct Rules: Sendable {
        /// Role tokens, each with its database.
        public var roles: [String: Int64] = ["sandbox-role": 10]
        /// The databases.
        public var databases: Set<Int64> = [10, 11, 12]
        /// The public keys that JWTs may be signed with, PEM; empty checks no signature.
        public var publicKeysPEM: [String] = []
        /// The databases' own profile fields; those with an underscore, `email` and `phones` exist always.
        public var profileFields: Set<String> = [
            "bonus", "plan", "city", "address", "interests", "crm_id", "user_id",
        ]
        /// The resource's own subscription fields; those with an underscore exist always.
        public var subscriptionFields: Set<String> = ["plan", "vip", "level"]
        /// The resource's categories.
        public var categories: Set<String> = ["sport", "news"]
        /// The status of an answer to a request with `sync=false`.
        public var acknowledgement = 202
        /// How long such a request takes to have its effect.
        public var processingDelay = Duration.zero
        /// The API token that campaigns are started with.
        public var apiToken = "sandbox-api-token"
        /// The campaigns that exist.
        public var triggers: Set<Int64> = [13]
        /// The database that the campaigns belong to: where their profiles are found, and imported into.
        public var campaignDatabase: Int64 = 12

        /// Makes the defaults.
        public init() {}
    }

    /// What the platform has seen.
    public struct Counters: Sendable, Hashable {
        /// Requests, refused and faulty ones included.
        public var requests = 0
        /// Requests that the rules refused.
        public var refused = 0
    }

    /// The listener, for fault rules; the token of a rule is the `subscription_id` in the query.
    public static let pixel: SandboxListener = "altcraft"

    let host: SandboxWebHost
    /// The private key that the sandbox's configuration signs with.
    let signingKey: SandboxSigningKey
    private let guarded: Mutex<AltcraftState>
    private let ports: [SandboxListener: Int]

    /// Makes a simulator that listens nowhere yet.
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

    /// Starts a simulator, runs `body`, and shuts it down whatever happens.
    public static func run<Value>(
        _ rules: Rules = Rules(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (AltcraftSimulator) async throws -> Value
    ) async throws -> Value {
        try await AltcraftSimulator(rules, time: time).whileRunning(body)
    }

    /// Listens; throws when a port is taken.
    public func start() async throws {
        try await host.start([.init(name: Self.pixel, port: ports[Self.pixel] ?? 0, handler: AltcraftHandler(self))])
    }

    /// Stops; doing it twice is no mistake.
    public func shutdown() async { await host.shutdown() }

    /// The address of the mobile endpoints and of the user API.
    public var url: String { host.url(Self.pixel) }
    /// The private key that a ``Sandbox`` takes JWTs of, PEM.
    public var signingKeyPEM: String { signingKey.privatePEM }
    /// The certificate to trust, PEM.
    public var certificatePEM: String { host.authority.certificatePEM }
    /// What the platform has seen.
    public var counters: Counters { withState { $0.counters } }
    /// How the platform behaves from now on.
    public var rules: Rules {
        get { withState { $0.rules } }
        set { withState { $0.rules = newValue } }
    }
    /// All profiles, in the order they were made.
    public var profiles: [AltcraftProfile] {
        let now = host.state.now
        return withState { state in
            state.advance(at: now)
            return state.profiles
        }
    }
    /// The deliveries and openings that were told.
    public var events: [AltcraftEventRecord] { withState { $0.events } }
    /// The campaigns that were started.
    public var launches: [AltcraftLaunch] {
        let now = host.state.now
        return withState { state in
            state.advance(at: now)
            return state.launches
        }
    }
    /// How often each `Request-ID` came.
    public var requestIDs: [String: Int] { withState { $0.requestIDs } }

    /// A profile by its database and key, such as `email ada@example.com`.
    public func profile(_ key: String, in database: Int64) -> AltcraftProfile? {
        profiles.first { $0.databaseID == database && $0.key == key }
    }

    /// Adds fault rules behind those that are there.
    public func add(_ rules: [FaultRule]) { host.add(rules) }

    /// Removes all fault rules.
    public func removeFaults() { _ = host.removeRules(named: nil) }

    func withState<Value: Sendable>(_ body: (inout sending AltcraftState) -> sending Value) -> Value {
        guarded.withLock(body)
    }
}
