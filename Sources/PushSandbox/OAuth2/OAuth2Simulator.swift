public import Foundation
public import PushCore
public import PushOAuth

/// A server whose API wants bearer tokens, with the token endpoint that refreshes them (RFC 6749 section 6): strict, on
/// a real TLS socket, with faults.
///
/// Everything under `/v1/` is the API: it echoes the request for a valid token, and answers 401 to others.
/// Revoke tokens, rotate refresh tokens, refuse clients, and count what the server saw.
public final class OAuth2Simulator: Sendable {
    /// How the server behaves.
    public struct Rules: Sendable {
        /// How long an access token lives, in seconds; nil leaves `expires_in` out.
        public var lifetime: Int? = 3600
        /// Whether each refresh gives a new refresh token and spends the old one.
        public var rotates = true
        /// Whether the answer has a refresh token; without one the old stays good.
        public var returnsRefreshToken = true
        /// How token requests are written.
        public var encoding = OAuth2Settings.Encoding.json
        /// How clients prove who they are.
        public var clientAuthentication = OAuth2Settings.ClientAuthentication.none
        /// The secret of every client.
        public var clientSecret = "sandbox-secret"
        /// Whether the old access token must come along.
        public var requiresAccessToken = true
        /// Whether the API refuses every token.
        public var refusesEverything = false
        /// How the API refuses a token: the status, and the error in `WWW-Authenticate` (RFC 6750 section 3.1).
        public var refusal: (status: Int, error: String) = (401, "invalid_token")

        /// Makes the defaults: those of IDMoya's server.
        public init() {}
    }

    /// What the server has seen.
    public struct Counters: Sendable, Hashable {
        /// Requests at the token endpoint.
        public var tokenRequests = 0
        /// Refreshes that gave a new token.
        public var refreshed = 0
        /// Requests at the API.
        public var apiRequests = 0
        /// API requests that were refused with 401.
        public var refused = 0
        /// API requests that carried an `Authorization` field.
        public var authorized = 0
    }

    /// The one client the server knows.
    public static let clientID = "gateway"
    /// The path of the token endpoint.
    public static let tokenPath = "/v1/api/oauth2/token"
    /// The name of the listener, for fault rules.
    public static let listener: SandboxListener = "oauth2"

    let host: SandboxWebHost
    /// The platform behind a relay that takes this server's tokens; nil when there is none.
    let relayed: OneSignalSimulator?
    private let handler: OAuth2Handler
    private let port: Int

    /// Makes a server that listens nowhere yet.
    ///
    /// - Parameters:
    ///   - rules: How it behaves.
    ///   - port: Its port; 0 for a free one.
    ///   - relayed: A platform that takes this server's tokens in the place of its own key from now on.
    ///   - authority: Who signs its certificate; nil makes one.
    ///   - time: The clock.
    /// - Throws: When no certificate can be made.
    public init(
        _ rules: Rules = Rules(),
        port: Int = 0,
        relayed: OneSignalSimulator? = nil,
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        host = SandboxWebHost(.init(), authority: try authority ?? SandboxCertificateAuthority(), time: time)
        handler = OAuth2Handler(rules)
        self.port = port
        self.relayed = relayed
        relayed?.rules.acceptsBearer = { [handler] token in
            handler.withState { state in
                let isValid = !state.rules.refusesEverything && state.access.contains(token)
                state.counters.apiRequests += 1
                state.counters.authorized += 1
                state.counters.refused += isValid ? 0 : 1
                return isValid
            }
        }
    }

    /// Starts a server, runs `body`, and shuts the server down whatever happens.
    public static func run<Value>(
        _ rules: Rules = Rules(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (OAuth2Simulator) async throws -> Value
    ) async throws -> Value {
        try await OAuth2Simulator(rules, time: time).whileRunning(body)
    }

    /// Listens; throws when the port is taken.
    public func start() async throws {
        try await host.start([.init(name: Self.listener, port: port, handler: handler)])
    }

    /// Stops; doing it twice is no mistake.
    public func shutdown() async { await host.shutdown() }

    /// The address of the token endpoint.
    public var tokenURL: String { host.url(Self.listener) + Self.tokenPath }
    /// The API's address, to which ``tokenPath`` belongs as well.
    public var baseURL: String { "\(host.url(Self.listener))/v1/" }
    /// The certificate to trust, PEM.
    public var certificatePEM: String { host.authority.certificatePEM }
    /// What the server has seen.
    public var counters: Counters { handler.withState { $0.counters } }
    /// How the server behaves from now on.
    public var rules: Rules {
        get { handler.withState { $0.rules } }
        set { handler.withState { $0.rules = newValue } }
    }

    /// Hands out a credential, as a log-in does.
    public func issue(at now: Date = Date()) -> OAuthCredential { handler.withState { $0.issue(at: now) } }

    /// Makes every access token of now worthless.
    public func revokeAccessTokens() { handler.withState { $0.access.removeAll() } }

    /// Makes every refresh token of now worthless.
    public func revokeRefreshTokens() { handler.withState { $0.refresh.removeAll() } }

    /// Adds fault rules behind those that are there.
    ///
    /// A rule's token is the bearer token.
    public func add(_ rules: [FaultRule]) { host.add(rules) }

    /// Removes all fault rules.
    public func removeFaults() { _ = host.removeRules(named: nil) }
}
