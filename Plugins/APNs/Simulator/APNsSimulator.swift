public import Foundation
public import ChaparCore
public import ChaparSimulator

/// Apple Push Notification service on this machine: real TLS, real HTTP/2, Apple's rules, no account.
///
/// Four listeners: device sends and broadcasts for development and production, and channel management for each. A
/// client needs ``authority``'s certificate, the address of ``url(_:)`` and ``key``. Tests register devices, send, and
/// look at ``inbox`` and ``counters``; `add` adds faults.
///
/// All of it runs on one event loop. The properties can be read from any thread at any time.
public final class APNsSimulator: Sendable {
    /// The authority that clients must trust.
    public var authority: SandboxCertificateAuthority { sockets.authority }
    /// The first of the configured keys, for the client that is tested.
    public let key: APNsSigningKey
    /// The seed of all randomness in this run: the same seed and the same requests give the same answers.
    public var seed: UInt64 { service.seed }

    let service: APNsServiceState
    private let sockets: SandboxListeners

    /// Makes a simulator that does not listen yet.
    ///
    /// Without an authority it makes one of its own.
    public init(
        _ configuration: APNsSimulatorConfiguration = APNsSimulatorConfiguration(),
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        guard let key = configuration.keys.first else { throw SandboxError(description: "configure at least one key") }
        self.key = key
        sockets = SandboxListeners(host: configuration.host, authority: try authority ?? SandboxCertificateAuthority())
        service = APNsServiceState(configuration: configuration, time: time)
    }

    /// Starts a simulator, runs `body`, and shuts the simulator down, also after an error.
    public static func run<Value>(
        _ configuration: APNsSimulatorConfiguration = APNsSimulatorConfiguration(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (APNsSimulator) async throws -> Value
    ) async throws -> Value {
        try await APNsSimulator(configuration, time: time).whileRunning(body)
    }

    /// Starts the listeners.
    ///
    /// Throws when a port is taken.
    public func start() async throws {
        let configuration = service.configuration
        let tls = try sockets.tls(
            configuration.serverCertificate,
            protocols: configuration.usesALPN ? ["h2"] : [],
            asksForClientCertificate: configuration.asksForClientCertificate
        )
        let options = SandboxHTTP2Options(
            requiresALPN: configuration.usesALPN,
            idleLimit: configuration.idleTimeout
        )
        let views = Dictionary(
            uniqueKeysWithValues: APNsListener.allCases.map { ($0.name, APNsService(listener: $0, service: service)) }
        )
        let ports = APNsListener.allCases.map {
            SandboxListeners.Socket(name: $0.name, port: configuration.ports[$0] ?? 0)
        }
        try await sockets.start(ports) { socket, host, loop in
            guard let view = views[socket.name] else { throw SandboxError(description: "APNs has no such listener") }
            return try await SandboxHTTP2Server.start(
                on: loop,
                host: host,
                port: socket.port,
                tls: tls,
                options: options,
                service: view
            )
        }
    }

    /// Closes all connections and listeners.
    ///
    /// A second call does nothing.
    public func shutdown() async { await sockets.shutdown() }

    /// Returns the port of a listener; 0 while the simulator does not run.
    public func port(_ listener: APNsListener) -> Int { sockets.port(listener.name) }

    /// Returns the base URL of a listener.
    public func url(_ listener: APNsListener) -> String { sockets.url(listener.name) }

    /// The account of `Sandbox.topic` at the simulator, in production, for `PushAccount.apns`.
    ///
    /// Throws while the simulator does not run.
    public var pushAccount: SimulatedAccount {
        get throws(InvalidAddress) {
            SimulatedAccount(
                "apns",
                ["key": key.pem, "key_id": key.keyID, "team_id": key.teamID, "topic": Self.topic],
                common: try authority.connection(to: url(.production))
            )
        }
    }

    // MARK: Keys and devices

    /// Makes keys valid, or changes their data.
    public func register(_ keys: APNsKeyRegistration...) {
        service.withState { state in
            for key in keys { state.register(key) }
        }
    }

    /// Makes a key unknown.
    public func revokeKey(id: String) { service.withState { $0.revoke(keyID: id) } }

    /// Makes device tokens known.
    public func register(
        tokens: some Sequence<String>,
        topic: String? = nil,
        environment: APNsEnvironment = .production
    ) {
        let devices = tokens.map { ($0.lowercased(), APNsDevice(topic: topic)) }
        service.withState { state in
            for (token, device) in devices { state.devices[environment, default: [:]][token] = device }
        }
    }

    /// Sets the data of one device token; nil makes it unknown.
    public func setDevice(_ device: APNsDevice?, token: String, environment: APNsEnvironment = .production) {
        let token = token.lowercased()
        service.withState { $0.devices[environment, default: [:]][token] = device }
    }

    /// Unregisters a token, as when the app is removed: from now on it answers 410 `Unregistered` with this time.
    public func unregister(token: String, at time: Date? = nil, environment: APNsEnvironment = .production) {
        changeDevice(token, environment) { $0.state = .unregistered(since: time ?? self.service.now) }
    }

    /// Expires a token: from now on it answers 410 `ExpiredToken` with this time.
    public func expire(token: String, at time: Date? = nil, environment: APNsEnvironment = .production) {
        changeDevice(token, environment) { $0.state = .expired(since: time ?? self.service.now) }
    }

    /// Takes a device off the network, or brings it back and shows the pushes stored for it.
    public func setOnline(_ isOnline: Bool, token: String, environment: APNsEnvironment = .production) {
        changeDevice(token, environment) { $0.isOnline = isOnline }
        let token = token.lowercased()
        if isOnline { service.withState { $0.inbox.deliverStored(to: token) } }
    }

    /// The offset of the server's clock from the time source; positive is ahead.
    public var clockOffset: Duration {
        get { service.clockOffset }
        set { service.clockOffset = newValue }
    }

    // MARK: Counters and inbox

    /// The counts of events so far.
    public var counters: APNsCounters { service.withState { $0.counters } }

    /// The accepted pushes that are still kept, oldest first.
    public var inbox: [APNsDelivery] { service.withState { $0.inbox.deliveries } }

    /// Returns at most `limit` pushes from number `first` on.
    public func inbox(from first: Int, limit: Int) -> [APNsDelivery] {
        service.withState { Array($0.inbox.page(from: first, limit: limit)) }
    }

    /// Clears the inbox, the counters and the faults.
    ///
    /// Keys, devices and channels stay, and so do connections.
    public func reset() { service.withState { $0.reset() } }

    // MARK: Faults

    /// Adds fault rules after the existing ones.
    public func add(_ rules: FaultRule...) { add(rules) }

    /// Adds fault rules after the existing ones.
    public func add(_ rules: [FaultRule]) {
        let now = service.now
        service.withState { state in
            for rule in rules { state.faults.add(rule, at: now) }
        }
    }

    /// Removes the fault rules with this name, all of them when nil, and returns how many there were.
    @discardableResult
    public func removeRules(named name: String? = nil) -> Int {
        service.withState { $0.faults.remove(named: name) }
    }

    /// The fault rules, with the number of times each has applied.
    public var rules: [(rule: FaultRule, fired: Int)] { service.withState { $0.faults.rules } }

    /// Sends `GOAWAY` on open connections: all, those of one listener, or one.
    public func goAway(_ frame: SandboxGoAway, listener: APNsListener? = nil, connection: Int? = nil) {
        perform([.goAway(frame)], listener: listener?.name, connection: connection)
    }

    /// Changes the stream limit of open connections, also to 0.
    public func setMaximumStreams(_ count: Int, listener: APNsListener? = nil, connection: Int? = nil) {
        perform([.settings([.maximumStreams(count)])], listener: listener?.name, connection: connection)
    }

    /// Ends open connections.
    public func end(_ end: SandboxConnectionEnd, listener: APNsListener? = nil, connection: Int? = nil) {
        perform([.end(end)], listener: listener?.name, connection: connection)
    }

    /// Makes open connections read bytes and send none.
    public func becomeBlackHole(listener: APNsListener? = nil, connection: Int? = nil) {
        perform([.blackHole], listener: listener?.name, connection: connection)
    }

    package func perform(_ steps: [SandboxStep], listener: SandboxListener?, connection: Int?) {
        sockets.perform(steps, listener: listener, connection: connection)
    }

    private func changeDevice(_ token: String, _ environment: APNsEnvironment, _ change: (inout APNsDevice) -> Void) {
        let token = token.lowercased()
        service.withState { state in
            var device = state.devices[environment]?[token] ?? APNsDevice()
            change(&device)
            state.devices[environment, default: [:]][token] = device
        }
    }
}

extension APNsSimulator: SimulatorHost {}
extension APNsSimulator: CountingSimulator {}
