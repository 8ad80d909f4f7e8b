public import ChaparCore

/// The settings for refreshing access tokens and for their use.
///
/// The defaults are those of IDMoya's handler.
public struct OAuth2Settings: Sendable {
    /// The encoding of the token request's fields.
    @nonexhaustive
    public enum Encoding: String, Sendable, CaseIterable {
        /// As a JSON object.
        case json
        /// As a form, which RFC 6749 requires.
        case form
    }

    /// The method by which the client authenticates itself.
    @nonexhaustive
    public enum ClientAuthentication: String, Sendable, CaseIterable {
        /// By its id alone.
        case none
        /// By HTTP Basic.
        case basic
        /// By `client_secret` in the body.
        case post
    }

    /// The base address of the calls that carry the token.
    public var base: HTTPBaseURL
    /// The client's id.
    public var clientID: String
    /// The client's secret, unless it authenticates by its id alone.
    public var clientSecret: Secret?
    /// The method by which the client authenticates itself.
    public var clientAuthentication = ClientAuthentication.none
    /// The path of the token endpoint, under the base.
    public var tokenPath = "api/oauth2/token"
    /// The whole address of the token endpoint, when it is not under the base.
    public var tokenURL: HTTPBaseURL?
    /// The encoding of the fields.
    public var encoding = Encoding.json
    /// Whether the request includes the old access token, as the original sends it.
    public var sendsAccessToken = true
    /// Further fields of the request.
    public var extraParameters: [(name: String, value: String)] = []
    /// The remaining lifetime below which a token is refreshed before use; at most a tenth of its whole lifetime.
    public var earlyRefresh = Duration.seconds(60)
    /// The statuses that mean that the token is refused.
    public var refreshStatuses: Set<Int> = [401]
    /// Whether a 400 or 403 with `invalid_token` in `WWW-Authenticate` means so as well.
    public var honoursInvalidToken = true
    /// The most refreshes within ``refreshWindow``.
    public var maximumRefreshes = 5
    /// The span of ``maximumRefreshes``.
    public var refreshWindow = Duration.seconds(30)
    /// The longest time one refresh may take.
    public var refreshTimeout = Duration.seconds(20)
    /// The pauses after failed refreshes in a row; the last one repeats.
    public var cooldown: [Duration] = [1, 2, 4, 8, 16, 32, 60].map { .seconds($0) }
    /// Certificates to trust at the token endpoint beside the system's, PEM.
    public var trustPEM: String?
    /// The HTTP proxy to the token endpoint.
    public var proxy: HTTPEndpoint?
    /// The user and the password that the proxy asks for; nil for a proxy that asks for none.
    public var proxyCredentials: HTTPProxyCredentials?

    /// Makes the default settings of a client.
    public init(base: HTTPBaseURL, clientID: String) {
        self.base = base
        self.clientID = clientID
    }

    /// The whole address of the token endpoint: its origin and its path.
    var tokenAddress: (endpoint: HTTPEndpoint, path: String) {
        if let tokenURL { return (tokenURL.endpoint, tokenURL.path.isEmpty ? "/" : tokenURL.path) }
        return (base.endpoint, base.path(tokenPath))
    }
}
