internal import Foundation
public import ChaparCore
public import ChaparSimulator
internal import Synchronization

/// OneSignal and IDPush on real TLS sockets: two hosts over one table of players, strict, with faults.
///
/// A device that is registered through IDPush gets messages that are sent through OneSignal, which is the purpose of
/// IDPush. It has users and players, messages with idempotency keys, tags and filters that are evaluated, and quotas.
public final class OneSignalSimulator: Sendable {
    /// The behaviour of the platforms.
    public struct Rules: Sendable {
        /// The app's id.
        public var appID = "8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77"
        /// The app's current API key; nil accepts none.
        public var apiKey: String? = "os_v2_app_sandbox"
        /// The app's legacy key, for `Basic`.
        public var legacyKey: String? = "sandbox-legacy-key"
        /// IDPush's id of the project that belongs to the app.
        public var projectID = "7Qm2xV9kLr"
        /// The most ids in one message.
        public var maximumIDs = 20_000
        /// Segments by name, each with the tags of its members; `All`, `Subscribed Users` and `Total Subscriptions`
        /// have all players.
        public var segments: [String: TagFilter] = [:]
        /// Whether the legacy player API is served.
        public var servesPlayers = true
        /// The delay until a write becomes visible.
        public var writeDelay = Duration.zero
        /// Whether the answer to a new user shows its subscriptions.
        public var returnsSubscriptions = true
        /// Whether OneSignal's rate limits are enforced: on creates, on views, and on writes of one user or player.
        public var enforcesBudgets = true
        /// The most creates and cancels a second.
        public var createsPerSecond = 150
        /// Whether IDPush answers 404 for an unknown player, rather than 200 with status 0.
        public var idPushAnswers404 = false
        /// The most tags of a user, by the app's plan; nil is no limit.
        public var maximumTags: Int?
        /// The check of access tokens by a relay in front of the API, which takes them in place of the key; nil is no
        /// relay.
        public var acceptsBearer: (@Sendable (String) -> Bool)?
        /// Whether every id counts as unsubscribed, as ids of another app would.
        public var isWrongApp = false

        /// Makes the defaults.
        public init() {}
    }

    /// The counts of requests and messages.
    public struct Counters: Sendable, Hashable {
        /// Requests to create a message, including refused ones.
        public var createRequests = 0
        /// Messages that were created.
        public var created = 0
        /// Requests with a known idempotency key, which sent nothing.
        public var replayed = 0
        /// Messages delivered, one for each player.
        public var delivered = 0
        /// Requests that read messages or users.
        public var views = 0
        /// Requests that wrote users, subscriptions or players.
        public var writes = 0
        /// Requests at IDPush.
        public var idPushRequests = 0
    }

    /// The listener of OneSignal's API, for fault rules; the token of a rule is a player id in the path, where there
    /// is one.
    public static let api: SandboxListener = "onesignal"
    /// The listener of IDPush, for fault rules.
    public static let idPush: SandboxListener = "idpush"

    /// The host of its listeners.
    public let host: SandboxWebHost
    private let guarded: Mutex<OneSignalState>
    private let ports: [SandboxListener: Int]

    /// Makes simulators that do not listen yet.
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

    /// Starts simulators, runs `body`, and shuts them down, also after an error.
    public static func run<Value>(
        _ rules: Rules = Rules(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (OneSignalSimulator) async throws -> Value
    ) async throws -> Value {
        try await OneSignalSimulator(rules, time: time).whileRunning(body)
    }

    /// Starts the listeners; throws when a port is taken.
    public func start() async throws {
        try await host.start([
            .init(name: Self.api, port: ports[Self.api] ?? 0, handler: OneSignalHandler(self)),
            .init(name: Self.idPush, port: ports[Self.idPush] ?? 0, handler: IDPushHandler(self)),
        ])
    }

    /// The address of OneSignal's API.
    public var apiURL: String { host.url(Self.api) }
    /// The base address of IDPush.
    public var idPushURL: String { "\(host.url(Self.idPush))/api/v1/" }
    /// The counts of requests and messages so far.
    public var counters: Counters { withState { $0.counters } }
    /// The behaviour of the platforms from now on.
    public var rules: Rules {
        get { withState { $0.rules } }
        set { withState { $0.rules = newValue } }
    }
    /// All players, in the order of their ids.
    public var players: [OneSignalPlayer] { withState { $0.players.values.sorted { $0.id < $1.id } } }
    /// All messages, oldest first.
    public var messages: [OneSignalMessage] { withState { state in state.order.compactMap { state.messages[$0] } } }

    /// Returns a player.
    public func player(_ id: String) -> OneSignalPlayer? { withState { $0.players[id] } }

    /// Returns the tags of a player.
    public func tags(of id: String) -> [String: String] {
        withState { state in state.players[id].map { state.tags(of: $0) } ?? [:] }
    }

    /// Returns the aliases of a player's user.
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

    /// Subscribes or unsubscribes a player, as its user does on the device.
    public func setSubscribed(_ isSubscribed: Bool, _ id: String) {
        withState { state in
            state.players[id]?.isEnabled = isSubscribed
            state.players[id]?.notificationTypes = isSubscribed ? 1 : -2
        }
    }

    /// Removes a player, as OneSignal does with those it has not seen for long.
    public func forget(_ id: String) { withState { _ = $0.removePlayer(id) } }

    func withState<Value: Sendable>(_ body: (inout sending OneSignalState) -> sending Value) -> Value {
        guarded.withLock(body)
    }
}

extension OneSignalSimulator: WebSimulator {}

extension OneSignalSimulator: RelayedPlatform {
    /// Takes the access tokens that `accepts` accepts in place of the API key, from now on.
    public func relay(_ accepts: @escaping @Sendable (String) -> Bool) { rules.acceptsBearer = accepts }

    /// Returns the keys of a section that sends to the API, but for its `auth`.
    public func relayedSection(caFile: String) -> JSONObject {
        [
            "kind": "onesignal", "app_id": .string(rules.appID), "base_url": .string(apiURL),
            "ca_file": .string(caFile), "register_devices": false, "allow_broadcast": true,
        ]
    }
}
