internal import Foundation
public import ChaparCore
public import ChaparSimulator
internal import Synchronization

/// Huawei Push Kit on real sockets: token endpoint, sends, topics, delivery receipts.
///
/// It is strict where Huawei's reference is, accepts only access tokens that it issued, and follows fault rules. Its
/// two listeners, ``push`` and ``token``, speak HTTP/1.1 and HTTP/2 over TLS with a certificate of `authority`.
///
/// In the answer of a fault rule `reason` is Huawei's code (`80100016`), or one of the words `partial_plain`,
/// `partial_reasons`, `partial_broken`, `partial_counts`, `partial_stranger`, which refuse the first token in an odd
/// way, and `code_number`.
public final class HMSSimulator: Sendable {
    /// The listener that takes messages.
    public static let push = SandboxListener(rawValue: "push")
    /// The listener that issues access tokens.
    public static let token = SandboxListener(rawValue: "token")

    /// The host of its listeners.
    public let host: SandboxWebHost
    private let service: HMSServiceState
    private let sender: HMSReceiptSender
    private let time: any TimeSource
    /// The task of the loop that sends receipts, awaited at the end.
    private let sending = Mutex<Task<Void, Never>?>(nil)

    /// Makes a simulator that does not listen yet.
    public init(
        _ configuration: HMSSimulatorConfiguration = HMSSimulatorConfiguration(),
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        let web = SandboxWebHost.Configuration(
            host: configuration.host,
            idleTimeout: configuration.idleTimeout,
            clockOffset: configuration.clockOffset,
            serverCertificate: configuration.serverCertificate,
            seed: configuration.seed
        )
        host = SandboxWebHost(web, authority: try authority ?? SandboxCertificateAuthority(now: time.now), time: time)
        service = HMSServiceState(configuration, seed: host.seed)
        sender = HMSReceiptSender(service, time: time)
        self.time = time
    }

    /// Starts a simulator, runs `body`, and shuts the simulator down, also after an error.
    public static func run<Value>(
        _ configuration: HMSSimulatorConfiguration = HMSSimulatorConfiguration(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (HMSSimulator) async throws -> Value
    ) async throws -> Value {
        try await HMSSimulator(configuration, time: time).whileRunning(body)
    }

    /// Starts both listeners.
    ///
    /// Throws when a port is taken; then nothing listens.
    public func start() async throws {
        try await host.start([
            .init(name: Self.push, port: service.configuration.pushPort, handler: HMSPushHandler(service: service)),
            .init(name: Self.token, port: service.configuration.tokenPort, handler: HMSTokenHandler(service: service)),
        ])
        service.onReceipts { [weak sender] in sender?.wake() }
        // Unstructured, since it outlives this call; `shutdown` awaits it.
        let task = Task { [sender] in await sender.run() }
        sending.withLock { $0 = task }
    }

    /// Stops everything.
    ///
    /// A second call does nothing.
    public func shutdown() async {
        await host.shutdown()
        sender.stop()
        let task = sending.withLock { task in
            defer { task = nil }
            return task
        }
        task?.cancel()
        await task?.value
    }

    // MARK: Addresses and accounts

    /// The first app.
    public var app: HMSSimulatorConfiguration.App { service.settings.apps.first ?? .init() }
    /// Returns the base URL of a listener.
    public func url(_ listener: SandboxListener) -> String { host.url(listener) }
    /// The account of the first app at the simulator, for `PushAccount.hms`.
    ///
    /// Throws while the simulator does not run.
    public var pushAccount: SimulatedAccount {
        get throws(InvalidAddress) {
            SimulatedAccount(
                "hms",
                ["app_id": app.appID, "client_secret": app.clientSecret, "token_url": url(Self.token)],
                common: try host.authority.connection(to: url(Self.push))
            )
        }
    }
    /// The key file of the service account of the first app's project.
    public var serviceAccountFile: String { service.settings.serviceAccount.keyFile(projectID: app.projectID) }
    /// The signing settings of receipts.
    public var callback: HMSSimulatorConfiguration.Callback { service.settings.callback }

    /// The settings in force; apps, rights and limits may change while it runs, addresses may not.
    public var settings: HMSSimulatorConfiguration {
        get { service.settings }
        set { service.settings = newValue }
    }

    /// The target and the form of receipts.
    public var receipts: HMSReceiptPlan {
        get { service.receipts }
        set { service.receipts = newValue }
    }

    // MARK: Its state

    /// Sets the data of tokens; nil makes them unknown.
    public func setDevice(_ device: HMSDevice?, tokens: [String]) {
        service.withState { state in
            for token in tokens { state.devices[token] = device }
        }
    }

    /// Makes every access token that was issued invalid.
    public func revokeTokens() {
        service.withState { state in
            for token in state.grants.keys { state.grants[token]?.isRevoked = true }
        }
    }

    /// Makes every access token that was issued expire.
    public func expireTokens() {
        let now = host.now
        service.withState { state in
            for token in state.grants.keys { state.grants[token]?.endsAt = now }
        }
    }

    /// Returns the tokens in a topic.
    public func subscribers(of topic: String) -> Set<String> { service.withState { $0.topics[topic] ?? [] } }

    /// Returns accepted messages, oldest first.
    public func inbox(from number: Int = 0, limit: Int = .max) -> [HMSDelivery] {
        service.withState { state in Array(state.inbox.lazy.filter { $0.number >= number }.prefix(limit)) }
    }

    /// The counts of messages, tokens and receipts.
    public var counters: HMSCounters { service.withState { $0.counters } }
    /// The counts of connections and requests.
    public var connections: SandboxWebCounters { host.counters }

    /// Clears the inbox, the counters and the faults; devices, topics and access tokens stay.
    public func reset() {
        host.reset()
        service.withState { $0.reset() }
    }

    // MARK: Faults

    /// Ends open connections.
    public func end(_ end: SandboxConnectionEnd, listener: SandboxListener? = nil) {
        host.perform([.end(end)], listener: listener, connection: nil)
    }
}

extension HMSSimulator: WebSimulator {}
extension HMSSimulator: CountingSimulator {}
