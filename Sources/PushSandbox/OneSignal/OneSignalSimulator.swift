internal import Foundation
public import PushCore
internal import Synchronization

/// OneSignal and IDPush on real TLS sockets: two hosts over one table of players, strict, with faults.
///
/// A device that is registered through IDPush gets messages that are sent through OneSignal: the trick that IDPush is
/// for. Users and players, messages with idempotency keys, tags and filters that are evaluated, quotas.
public final class OneSignalSimulator: Sendable {
    /// How the platforms behave.
    public struct Rules: Sendable {
        /// The app's id.
        public var appID = "8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77"
        /// The app's API key of today; nil takes none.
        public var apiKey: String? = "os_v2_app_sandbox"
        /// The app's legacy key, for `Basic`.
        public var legacyKey: String? = "sandbox-legacy-key"
        /// IDPush's id of the project that stands for the app.
        public var projectID = "7Qm2xV9kLr"
        /// The most ids in one message.
        public var maximumIDs = 20_000
        /// Segments by name, each with the tags its members have; `All` and `Subscribed Users` are everybody.
        public var segments: [String: TagFilter] = [:]
        /// Whether the legacy player API is served.
        public var servesPlayers = true
        /// How long a write takes to show.
        public var writeDelay = Duration.zero
        /// Whether the answer to a new user shows its subscriptions.
        public var returnsSubscriptions = true
        /// Whether the quotas of section 17 hold.
        public var enforcesBudgets = true
        /// Creates and cancels a second.
        public var createsPerSecond = 150
        /// Whether IDPush answers 404 for a player it does not know, and not 200 with status 0.
        public var idPushAnswers404 = false
        /// The most tags of a user, by the app's plan; nil is no limit.
        public var maximumTags: Int?
        /// Which access tokens a relay in front of the API takes in the key's place; nil is no relay.
        public var acceptsBearer: (@Sendable (String) -> Bool)?
        /// Whether every id counts as unsubscribed, as those of another app would.
        public var isWrongApp = false

        /// Makes the defaults.
        public init() {}
    }

    /// What the platforms have seen.
    public struct Counters: Sendable, Hashable {
        /// Requests that would make a message, refused ones included.
        public var createRequests = 0
        /// Messages that were made.
        public var created = 0
        /// Requests that were known by their key, and sent nothing.
        public var replayed = 0
        /// Messages times players.
        public var delivered = 0
        /// Requests that looked at messages or users.
        public var views = 0
        /// Requests that wrote users, subscriptions or players.
        public var writes = 0
        /// Requests at IDPush.
        public var idPushRequests = 0
    }

    /// The listener of OneSignal's API, for fault rules.
    public static let api: SandboxListener = "onesignal"
    /// The listener of IDPush, for fault rules.
    public static let idPush: SandboxListener = "idpush"

    let host: SandboxWebHost
    private let guarded: Mutex<OneSignalState>
    private let ports: [SandboxListener: Int]

    /// Makes simulators that listen nowhere yet.
    public init(
        _ rules: Rules = Rules(),
        ports: [SandboxListener: Int] = [:],
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        host = SandboxWebHost(.init(), authority: try authority ?? SandboxCertificateAuthority(), time: time)
        guarded = Mutex(OneSignalState(rules))
        self.ports = ports
    }

    /// Starts simulators, runs `body`, and shuts them down whatever happens.
    public static func run<Value>(
        _ rules: Rules = Rules(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (OneSignalSimulator) async throws -> Value
    ) async throws -> Value {
        try await OneSignalSimulator(rules, time: time).whileRunning(body)
    }

    /// Listens; throws when a port is taken.
    public func start() async throws {
        try await host.start([
            .init(name: Self.api, port: ports[Self.api] ?? 0, handler: OneSignalHandler(self)),
            .init(name: Self.idPush, port: ports[Self.idPush] ?? 0, handler: IDPushHandler(self)),
        ])
    }

    /// Stops; doing it twice is no mistake.
    public func shutdown() async { await host.shutdown() }

    /// The address of OneSignal's API.
    public var apiURL: String { host.url(Self.api) }
    /// The base address of IDPush.
    public var idPushURL: String { "\(host.url(Self.idPush))/api/v1/" }
    /// The certificate to trust, PEM.
    public var certificatePEM: String { host.authority.certificatePEM }
    /// What the platforms have seen.
    public var counters: Counters { withState { $0.counters } }
    /// How the platforms behave from now on.
    public var rules: Rules {
        get { withState { $0.rules } }
        set { withState { $0.rules = newValue } }
    }
    /// All players, in the order of their ids.
    public var players: [OneSignalPlayer] { withState { $0.players.values.sorted { $0.id < $1.id } } }
    /// All messages, oldest first.
    public var messages: [OneSignalMessage] { withState { state in state.order.compactMap { state.messages[$0] } } }

    /// A player.
    public func player(_ id: String) -> OneSignalPlayer? { withState { $0.players[id] } }

    /// The tags of a player.
    public func tags(of id: String) -> [String: String] {
        withState { state in state.players[id].map { state.tags(of: $0) } ?? [:] }
    }

    /// The aliases of a player's user.
    public func aliases(of id: String) -> [String: String] {
        withState { state in state.players[id].flatMap { state.users[$0.user]?.aliases } ?? [:] }
    }

    /// Adds subscribed players with made-up tokens, and returns their ids.
    public func addPlayers(_ count: Int, type: String = "iOSPush", tags: [String: String] = [:]) -> [String] {
        withState { state in
            (0..<count).map { _ in
                let id = state.addPlayer(type, OneSignalState.newID(), user: nil)
                if let user = state.players[id]?.user { state.users[user]?.tags = tags }
                return id
            }
        }
    }

    /// Changes a player, as its user does on the device.
    public func setSubscribed(_ isSubscribed: Bool, _ id: String) {
        withState { state in
            state.players[id]?.isEnabled = isSubscribed
            state.players[id]?.notificationTypes = isSubscribed ? 1 : -2
        }
    }

    /// Forgets a player, as OneSignal does with those it has not seen for long.
    public func forget(_ id: String) { withState { _ = $0.removePlayer(id) } }

    /// Adds fault rules behind those that are there.
    ///
    /// The token of a rule is a player id in the path, where there is one.
    public func add(_ rules: [FaultRule]) { host.add(rules) }

    /// Removes all fault rules.
    public func removeFaults() { _ = host.removeRules(named: nil) }

    func withState<Value: Sendable>(_ body: (inout sending OneSignalState) -> sending Value) -> Value {
        guarded.withLock(body)
    }
}
