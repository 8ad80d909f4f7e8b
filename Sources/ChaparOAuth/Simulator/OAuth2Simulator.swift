public import Foundation
public import ChaparCore
public import ChaparSimulator
public import ChaparOAuth

/// A server whose API requires bearer tokens, with the token endpoint that refreshes them (RFC 6749 section 6): strict,
/// on a real TLS socket, with faults.
///
/// Everything under `/v1/` is the API: it echoes a request with a valid token, and answers others with 401. Tests
/// revoke tokens, rotate refresh tokens, refuse clients, and read the counts.
public final class OAuth2Simulator: Sendable {
    /// The behaviour of the server.
    public struct Rules: Sendable {
        /// The lifetime of an access token, in seconds; nil leaves `expires_in` out.
        public var lifetime: Int? = 3600
        /// Whether each refresh gives a new refresh token and invalidates the old one.
        public var rotates = true
        /// Whether the answer has a refresh token; without one the old stays valid.
        public var returnsRefreshToken = true
        /// The encoding of token requests.
        public var encoding = OAuth2Settings.Encoding.json
        /// The authentication of clients.
        public var clientAuthentication = OAuth2Settings.ClientAuthentication.none
        /// The secret of every client.
        public var clientSecret = "sandbox-secret"
        /// Whether a token request must carry the old access token.
        public var requiresAccessToken = true
        /// Whether the API refuses every token.
        public var refusesEverything = false
        /// The refusal of a token by the API: the status, and the error in `WWW-Authenticate` (RFC 6750 section 3.1).
        public var refusal: (status: Int, error: String) = (401, "invalid_token")

        /// Makes the defaults: those of IDMoya's server.
        public init() {}
    }

    /// The counts of the server's requests.
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

    /// The id of the server's only client.
    public static let clientID = "gateway"
    /// The path of the token endpoint.
    public static let tokenPath = "/v1/api/oauth2/token"
    /// The name of the listener, for fault rules; the token of a rule is the bearer token.
    public static let listener: SandboxListener = "oauth2"

    /// The host of its listeners.
    public let host: SandboxWebHost
    /// The platform behind a relay that takes this server's tokens; nil when there is none.
    let relayed: (any RelayedPlatform)?
    private let handler: OAuth2Handler
    private let port: Int

    /// Makes a server that does not listen yet.
    ///
    /// - Parameters:
    ///   - rules: Its behaviour.
    ///   - port: Its port; 0 for a free one.
    ///   - relayed: A platform that takes this server's tokens in the place of its own key from now on.
    ///   - authority: The authority that signs its certificate; nil makes one.
    ///   - time: The clock.
    /// - Throws: When no certificate can be made.
    public init(
        _ rules: Rules = Rules(),
        port: Int = 0,
        relayed: (any RelayedPlatform)? = nil,
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        host = SandboxWebHost(.init(), authority: try authority ?? SandboxCertificateAuthority(), time: time)
        handler = OAuth2Handler(rules)
        self.port = port
        self.relayed = relayed
        relayed?.relay { [handler] token in
            handler.withState { state in
                let isValid = !state.rules.refusesEverything && state.access.contains(token)
                state.counters.apiRequests += 1
                state.counters.authorized += 1
                state.counters.refused += isValid ? 0 : 1
                return isValid
            }
        }
    }

    /// Starts a server, runs `body`, and shuts the server down, also after an error.
    public static func run<Value>(
        _ rules: Rules = Rules(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (OAuth2Simulator) async throws -> Value
    ) async throws -> Value {
        try await OAuth2Simulator(rules, time: time).whileRunning(body)
    }

    /// Starts the listener; throws when the port is taken.
    public func start() async throws {
        try await host.start([.init(name: Self.listener, port: port, handler: handler)])
    }

    /// The address of the token endpoint.
    public var tokenURL: String { host.url(Self.listener) + Self.tokenPath }
    /// The API's address, to which ``tokenPath`` belongs as well.
    public var baseURL: String { "\(host.url(Self.listener))/v1/" }
    /// The counts of requests so far.
    public var counters: Counters { handler.withState { $0.counters } }
    /// The behaviour of the server from now on.
    public var rules: Rules {
        get { handler.withState { $0.rules } }
        set { handler.withState { $0.rules = newValue } }
    }

    /// Issues a credential, as a log-in does.
    public func issue(at now: Date = Date()) -> OAuthCredential { handler.withState { $0.issue(at: now) } }

    /// Makes every access token issued so far invalid.
    public func revokeAccessTokens() { handler.withState { $0.access.removeAll() } }

    /// Makes every refresh token issued so far invalid.
    public func revokeRefreshTokens() { handler.withState { $0.refresh.removeAll() } }
}

extension OAuth2Simulator: WebSimulator {}
