internal import Foundation
public import ChaparCore
public import ChaparSimulator

/// RuStore's push service on this machine: real TLS, HTTP/2 and HTTP/1.1, RuStore's rules, no account.
///
/// Two listeners: the direct and the universal API. A client needs `authority`'s certificate, the addresses of
/// ``url(_:)``, the project's id and its service token. Tests register tokens, send, and look at ``inbox`` and
/// ``counters``; `add` adds faults. In fault rules the reason of an answer is RuStore's status word, or one of
/// `INVALID_ARGUMENT:token`, `PROVIDER_ERROR:auth` and `PROVIDER_ERROR:other`; the body is made from it.
public final class RuStoreSimulator: Sendable {
    /// The host of its listeners.
    public let host: SandboxWebHost
    let service: RuStoreServiceState

    /// Makes a simulator that does not listen yet.
    ///
    /// Without an authority it makes one of its own.
    public init(
        _ configuration: RuStoreSimulatorConfiguration = RuStoreSimulatorConfiguration(),
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        var listeners = SandboxWebHost.Configuration()
        listeners.host = configuration.host
        listeners.maximumStreams = configuration.maximumStreams
        listeners.idleTimeout = configuration.idleTimeout
        listeners.serverCertificate = configuration.serverCertificate
        listeners.seed = configuration.seed
        host = SandboxWebHost(listeners, authority: try authority ?? SandboxCertificateAuthority(), time: time)
        service = RuStoreServiceState(configuration)
    }

    /// Starts a simulator, runs `body`, and shuts the simulator down, also after an error.
    public static func run<Value>(
        _ configuration: RuStoreSimulatorConfiguration = RuStoreSimulatorConfiguration(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (RuStoreSimulator) async throws -> Value
    ) async throws -> Value {
        try await RuStoreSimulator(configuration, time: time).whileRunning(body)
    }

    /// Starts the listeners.
    ///
    /// Throws when a port is taken.
    public func start() async throws {
        let sites: [(RuStoreListener, any SandboxHandler)] = [
            (.direct, RuStoreDirectHandler(service: service)), (.universal, RuStoreUniversalHandler(service: service)),
        ]
        try await host.start(
            sites.map { listener, handler in
                .init(name: listener.name, port: service.configuration.ports[listener] ?? 0, handler: handler)
            }
        )
    }

    /// Returns the base URL of a listener.
    public func url(_ listener: RuStoreListener) -> String { host.url(listener.name) }

    /// The project's id.
    public var projectID: String { service.configuration.projectID }
    /// The project's service token.
    public var serviceToken: String { service.configuration.serviceToken }

    /// The account of the project at the simulator's direct API, for `PushAccount.ruStore`.
    ///
    /// Throws while the simulator does not run.
    public var pushAccount: SimulatedAccount { get throws(InvalidAddress) { try account(.direct) } }
    /// The account of the project at the simulator's universal API, for `PushAccount.ruStore`.
    ///
    /// Throws while the simulator does not run.
    public var universalPushAccount: SimulatedAccount { get throws(InvalidAddress) { try account(.universal) } }

    private func account(_ listener: RuStoreListener) throws(InvalidAddress) -> SimulatedAccount {
        SimulatedAccount(
            "rustore",
            ["project_id": projectID, "service_token": serviceToken, "mode": listener.rawValue],
            common: try host.authority.connection(to: url(listener))
        )
    }

    // MARK: Tokens and answers

    /// Registers tokens as live ones.
    public func register(tokens: some Sequence<String>) {
        let tokens = Array(tokens)
        service.withState { state in
            for token in tokens { state.devices[token] = .alive }
        }
    }

    /// Sets the state of one token; nil makes it unknown.
    public func setDevice(_ device: RuStoreDevice?, token: String) { service.withState { $0.devices[token] = device } }

    /// The shapes of its answers.
    public var answers: RuStoreSimulatorConfiguration.Answers {
        get { service.withState { $0.answers } }
        set { service.withState { $0.answers = newValue } }
    }

    // MARK: Counters and inbox

    /// The counts of messages.
    public var counters: RuStoreCounters { service.withState { $0.counters } }

    /// The accepted messages that are still kept, oldest first.
    public var inbox: [RuStoreDelivery] { service.withState { $0.inbox } }

    /// Returns at most `limit` messages from number `first` on.
    public func inbox(from first: Int, limit: Int) -> [RuStoreDelivery] {
        service.withState { Array($0.page(from: first, limit: limit)) }
    }

    /// Clears the inbox, the counters and the faults.
    ///
    /// Tokens stay, and so do connections.
    public func reset() {
        service.withState { $0.reset() }
        host.reset()
    }
}

extension RuStoreSimulator: WebSimulator {}
extension RuStoreSimulator: CountingSimulator {}
