internal import Crypto
internal import Foundation
public import ChaparCore
public import ChaparSimulator

/// The push services of browsers on real sockets: Google's, Mozilla's, Apple's, Microsoft's, and one of the RFCs alone.
///
/// Each has a listener of its own, HTTP/2 and HTTP/1.1 over TLS with a certificate of `authority`, its own form of
/// answers, and the strictness of RFC 8030, 8188, 8291 and 8292. Messages are decrypted as a browser does it; what
/// cannot be is refused. In the answer of a fault rule `reason` is the service's own word: Mozilla's `errno`, Apple's
/// `reason`, Microsoft's `X-WNS-STATUS`, a text of Google's.
public final class WebPushSimulator: Sendable {
    /// The configuration of the listeners.
    public struct Configuration: Sendable {
        /// The address to listen on.
        public var host = "127.0.0.1"
        /// The ports by service; 0 or none for a free one.
        public var ports: [WebPushService: Int] = [:]
        /// The protocols that ALPN may negotiate.
        public var protocols = ["h2", "http/1.1"]
        /// Whether every id counts as a subscription; otherwise only those that were made are known.
        ///
        /// Magic ids are honoured in both cases.
        public var takesAny = false
        /// The offset of the server's clock from the time source; positive is ahead.
        public var clockOffset = Duration.zero

        /// Makes the defaults.
        public init() {}

        /// The configuration for demonstrations: accepts any id.
        public static var demonstration: Configuration {
            var configuration = Configuration()
            configuration.takesAny = true
            return configuration
        }
    }

    /// The host of its listeners.
    public let host: SandboxWebHost
    private let configuration: Configuration
    private let state: WebPushState
    private let key = P256.Signing.PrivateKey()

    /// Makes a simulator that does not listen yet.
    public init(
        _ configuration: Configuration = Configuration(),
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        let web = SandboxWebHost.Configuration(
            host: configuration.host,
            clockOffset: configuration.clockOffset,
            protocols: configuration.protocols
        )
        host = SandboxWebHost(web, authority: try authority ?? SandboxCertificateAuthority(now: time.now), time: time)
        state = WebPushState(takesAny: configuration.takesAny)
        self.configuration = configuration
    }

    /// Starts a simulator, runs `body`, and shuts the simulator down, also after an error.
    public static func run<Value>(
        _ configuration: Configuration = Configuration(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (WebPushSimulator) async throws -> Value
    ) async throws -> Value {
        try await WebPushSimulator(configuration, time: time).whileRunning(body)
    }

    /// Starts every listener.
    ///
    /// Throws when a port is taken; then nothing listens.
    public func start() async throws {
        let host = host
        try await host.start(
            WebPushService.allCases.map { service in
                .init(
                    name: service.listener,
                    port: configuration.ports[service] ?? 0,
                    handler: WebPushHandler(service, state) { [weak host] in host?.url(service.listener) ?? "" }
                )
            }
        )
    }

    // MARK: Addresses and accounts

    /// Returns the origin of a service.
    public func url(_ service: WebPushService) -> String { host.url(service.listener) }

    /// The VAPID private key that the sandbox's configuration has, PEM.
    public var vapidKeyPEM: String { key.pemRepresentation }

    /// The public half of that key, as pages pass it in `applicationServerKey`.
    public var applicationServerKey: String { Base64URL.encode(key.publicKey.x963Representation) }

    /// The hosts of its services with their ports.
    var hosts: [String] { WebPushService.allCases.map { String(url($0).dropFirst("https://".count)) } }

    /// The account of a sender whose messages go to these services, for `PushAccount.webPush`.
    ///
    /// Throws while the simulator does not run.
    public var pushAccount: SimulatedAccount {
        get throws(InvalidAddress) {
            SimulatedAccount(
                "webpush",
                [
                    "vapid_key": vapidKeyPEM, "subject": "mailto:ops@example.com",
                    "allow_hosts": hosts.joined(separator: " "),
                ],
                common: try host.authority.connection(to: url(.plain))
            )
        }
    }

    // MARK: Its state

    /// Makes a subscription, or finds it again, and returns its JSON as a browser gives it.
    ///
    /// - Parameters:
    ///   - id: 1 to 200 of `A–Z a–z 0–9 _ -`; the keys follow from it.
    ///   - service: The push service.
    ///   - applicationServerKey: The public VAPID key that it is bound to, in base64url; nil takes any.
    /// - Returns: The JSON of the subscription.
    public func subscription(
        _ id: String,
        at service: WebPushService = .plain,
        applicationServerKey: String? = nil
    ) -> String {
        let device = state.withValues { values -> WebPushDevice in
            let place = WebPushPlace(service: service, id: id)
            var device = values.devices[place] ?? WebPushDevice(id)
            device.isGone = false
            device.applicationServerKey = applicationServerKey.flatMap { Base64URL.decode($0) }
            values.devices[place] = device
            return device
        }
        return device.subscription(endpoint: url(service) + service.prefix + id)
    }

    /// Returns the plaintext of a body that was made for a subscription, as its browser reads it; nil for any other.
    public func decrypt(_ body: [UInt8], for id: String) -> String? {
        WebPushDevice(id).decrypt(body).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Ends a subscription: its service answers 410 from now on.
    public func end(_ id: String, at service: WebPushService = .plain) {
        state.withValues { $0.devices[WebPushPlace(service: service, id: id)]?.isGone = true }
    }

    /// Returns accepted messages, oldest first.
    public func inbox(from number: Int = 0, limit: Int = .max) -> [WebPushDelivery] {
        state.withValues { values in Array(values.inbox.lazy.filter { $0.number >= number }.prefix(limit)) }
    }

    /// The counts of messages.
    public var counters: WebPushCounters { state.withValues { $0.counters } }
    /// The counts of connections and requests.
    public var connections: SandboxWebCounters { host.counters }

    /// Clears the inbox, the counters and the faults; subscriptions stay.
    public func reset() {
        host.reset()
        state.withValues { values in
            values.inbox = []
            values.counters = WebPushCounters()
            values.warned = []
        }
    }

    /// Ends open connections.
    public func end(_ end: SandboxConnectionEnd, listener: SandboxListener? = nil) {
        host.perform([.end(end)], listener: listener, connection: nil)
    }
}

extension WebPushSimulator: WebSimulator {}
extension WebPushSimulator: CountingSimulator {}
