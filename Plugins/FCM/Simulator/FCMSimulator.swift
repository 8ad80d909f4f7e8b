internal import Foundation
public import ChaparCore
public import ChaparSimulator

/// Firebase Cloud Messaging on this machine: real TLS, HTTP/2 and HTTP/1.1, Google's rules, no account.
///
/// Three listeners: sends, access tokens, Instance ID. A client needs `authority`'s certificate, the addresses of
/// ``url(_:)`` and the service-account file of ``credentialsFile``, which names the token endpoint. Tests register
/// tokens, send, and look at ``inbox`` and ``counters``; `add` adds faults. In fault rules the reason of an answer is
/// Google's error code (`UNREGISTERED`, `QUOTA_EXCEEDED:device`, `ACCESS_TOKEN_EXPIRED`, …) or status; the body is made
/// from it.
///
/// All of it runs on one event loop. The properties can be read from any thread at any time.
public final class FCMSimulator: Sendable {
    /// The service account of the client that is tested.
    public let account: FCMServiceAccountKey
    /// The host of its listeners.
    public let host: SandboxWebHost
    let service: FCMServiceState

    /// Makes a simulator that does not listen yet.
    ///
    /// Without an authority it makes one of its own.
    public init(
        _ configuration: FCMSimulatorConfiguration = FCMSimulatorConfiguration(),
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        account = try FCMServiceAccountKey(projectID: configuration.projectID)
        var listeners = SandboxWebHost.Configuration()
        listeners.host = configuration.host
        listeners.maximumStreams = configuration.maximumStreams
        listeners.idleTimeout = configuration.idleTimeout
        listeners.clockOffset = configuration.clockOffset
        listeners.serverCertificate = configuration.serverCertificate
        listeners.seed = configuration.seed
        host = SandboxWebHost(listeners, authority: try authority ?? SandboxCertificateAuthority(), time: time)
        service = FCMServiceState(configuration, seed: host.seed, account: account)
    }

    /// Starts a simulator, runs `body`, and shuts the simulator down, also after an error.
    public static func run<Value>(
        _ configuration: FCMSimulatorConfiguration = FCMSimulatorConfiguration(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (FCMSimulator) async throws -> Value
    ) async throws -> Value {
        try await FCMSimulator(configuration, time: time).whileRunning(body)
    }

    /// Starts the listeners.
    ///
    /// Throws when a port is taken.
    public func start() async throws {
        let sites: [(FCMListener, any SandboxHandler)] = [
            (.oauth, FCMTokenHandler(service: service)), (.send, FCMSendHandler(service: service)),
            (.instanceID, FCMInstanceIDHandler(service: service)),
        ]
        try await host.start(
            sites.map { listener, handler in
                .init(name: listener.name, port: service.configuration.ports[listener] ?? 0, handler: handler)
            }
        )
        service.tokenURI = tokenURI
    }

    /// Returns the port of a listener; 0 while the simulator does not run.
    public func port(_ listener: FCMListener) -> Int { host.port(listener.name) }

    /// Returns the base URL of a listener.
    public func url(_ listener: FCMListener) -> String { host.url(listener.name) }

    /// The account of the project at the simulator, for `PushAccount.fcm`.
    ///
    /// Throws while the simulator does not run.
    public var pushAccount: SimulatedAccount {
        get throws(InvalidAddress) {
            SimulatedAccount(
                "fcm",
                ["service_account": credentialsFile],
                common: try host.authority.connection(to: url(.send))
            )
        }
    }

    /// The address of the token endpoint.
    public var tokenURI: String { url(.oauth) + "/token" }

    /// The service-account key file of the project, in Firebase's form, with this simulator's token endpoint.
    public var credentialsFile: String { account.json(tokenURI: tokenURI) }

    // MARK: Accounts, tokens and quotas

    /// Registers tokens as live ones.
    public func register(tokens: some Sequence<String>, platform: String = "ANDROID") {
        let tokens = Array(tokens)
        service.withState { state in
            for token in tokens { state.devices[token] = FCMDevice(platform: platform) }
        }
    }

    /// Sets the data of one token; nil makes it unknown.
    public func setDevice(_ device: FCMDevice?, token: String) { service.withState { $0.devices[token] = device } }

    /// Returns the tokens in a topic.
    public func members(of topic: String) -> Set<String> {
        service.withState { Set($0.topics[topic, default: [:]].keys) }
    }

    /// Registers another account.
    public func register(_ account: FCMServiceAccountKey) { service.withState { $0.accounts[account.keyID] = account } }

    /// Registers a refresh token of a person.
    public func register(refreshToken: String) {
        let project = service.configuration.projectID
        service.withState { $0.refreshTokens[refreshToken] = project }
    }

    /// Disables or enables the service account: access tokens that were issued stay valid.
    public func setAccountDisabled(_ isDisabled: Bool) {
        let email = account.email
        service.withState { state in
            if isDisabled { state.disabledAccounts.insert(email) } else { state.disabledAccounts.remove(email) }
        }
    }

    /// Issues an access token of the project without the exchange, for clients that only send.
    public func issueAccessToken() -> String {
        let (project, now) = (account.projectID, host.now)
        return service.withState { $0.issueToken(projectID: project, now: now) }
    }

    /// Revokes every access token that was issued.
    public func revokeAccessTokens() {
        service.withState { state in
            for token in state.accessTokens.keys { state.accessTokens[token]?.isRevoked = true }
        }
    }

    /// Sets the lifetime of new access tokens, in seconds; nil leaves `expires_in` out and gives them an hour.
    public func setTokenLifetime(_ seconds: Int?) {
        service.withState { state in
            state.tokenLifetime = seconds ?? 3600
            state.omitsLifetime = seconds == nil
        }
    }

    /// Changes the quotas.
    public func setQuotas(_ quotas: FCMSimulatorConfiguration.Quotas) {
        service.withState { $0.quotas.limits = quotas }
    }

    /// Makes the Instance ID service answer with this error for a token (or APNs token), the next `times` times.
    public func setItemError(_ word: String, token: String, times: Int = 1) {
        service.withState { $0.itemErrors[token] = (word, times) }
    }

    /// Makes the next answer about topics lack the last `count` results.
    public func dropResults(_ count: Int) { service.withState { $0.missingResults = count } }

    // MARK: Counters and inbox

    /// The counts of messages and tokens.
    public var counters: FCMCounters { service.withState { $0.counters } }

    /// The counts of connections and requests.
    public var traffic: SandboxWebCounters { host.counters }

    /// The accepted messages that are still kept, oldest first.
    public var inbox: [FCMDelivery] { service.withState { $0.inbox.deliveries } }

    /// Returns at most `limit` messages from number `first` on.
    public func inbox(from first: Int, limit: Int) -> [FCMDelivery] {
        service.withState { Array($0.inbox.page(from: first, limit: limit)) }
    }

    /// Clears the inbox, the counters and the faults.
    ///
    /// Accounts, tokens and topics stay, and so do connections.
    public func reset() {
        service.withState { $0.reset() }
        host.reset()
    }

    // MARK: Faults

    /// Sends `GOAWAY` on open connections: all, or those of one listener.
    public func goAway(_ frame: SandboxGoAway, listener: FCMListener? = nil) {
        host.perform([.goAway(frame)], listener: listener?.name, connection: nil)
    }

    /// Changes the stream limit of open connections, also to 0.
    public func setMaximumStreams(_ count: Int, listener: FCMListener? = nil) {
        host.perform([.settings([.maximumStreams(count)])], listener: listener?.name, connection: nil)
    }

    /// Ends open connections.
    public func end(_ end: SandboxConnectionEnd, listener: FCMListener? = nil) {
        host.perform([.end(end)], listener: listener?.name, connection: nil)
    }
}

extension FCMSimulator: WebSimulator {}
extension FCMSimulator: CountingSimulator {}
