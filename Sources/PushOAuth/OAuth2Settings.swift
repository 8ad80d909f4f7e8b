public import PushCore

/// How access tokens are refreshed and where they are used.
///
/// The defaults are those of IDMoya's handler.
public struct OAuth2Settings: Sendable {
    /// How the token request's fields are written.
    @nonexhaustive
    public enum Encoding: String, Sendable, CaseIterable {
        /// As a JSON object.
        case json
        /// As a form, which RFC 6749 asks for.
        case form
    }

    /// How the client proves who it is.
    @nonexhaustive
    public enum ClientAuthentication: String, Sendable, CaseIterable {
        /// By its id alone.
        case none
        /// By HTTP Basic.
        case basic
        /// By `client_secret` in the body.
        case post
    }

    /// The address that calls must lie under to carry the token.
    public var base: HTTPBaseURL
    /// The client's id.
    public var clientID: String
    /// The client's secret, unless it proves itself by its id alone.
    public var clientSecret: Secret?
    /// How the client proves who it is.
    public var clientAuthentication = ClientAuthentication.none
    /// Where tokens are refreshed, under the base.
    public var tokenPath = "api/oauth2/token"
    /// Where tokens are refreshed, when that is not under the base; the whole address.
    public var tokenURL: HTTPBaseURL?
    /// How the fields are written.
    public var encoding = Encoding.json
    /// Whether the old access token goes along, as the original sends it.
    public var sendsAccessToken = true
    /// Further fields of the request.
    public var extraParameters: [(name: String, value: String)] = []
    /// A token with less than this left is refreshed before it is used; at most a tenth of its life.
    public var earlyRefresh = Duration.seconds(60)
    /// The statuses that mean "this token is refused".
    public var refreshStatuses: Set<Int> = [401]
    /// Whether a 400 or 403 that says `invalid_token` in `WWW-Authenticate` means it too.
    public var honoursInvalidToken = true
    /// The most refreshes within ``refreshWindow``.
    public var maximumRefreshes = 5
    /// See ``maximumRefreshes``.
    public var refreshWindow = Duration.seconds(30)
    /// How long one refresh may take.
    public var refreshTimeout = Duration.seconds(20)
    /// How long to leave the token endpoint alone after each failure in a row; the last goes on.
    public var cooldown: [Duration] = [1, 2, 4, 8, 16, 32, 60].map { .seconds($0) }
    /// Certificates to trust at the token endpoint beside the system's, PEM.
    public var trustPEM: String?
    /// An HTTP proxy on the way to the token endpoint.
    public var proxy: HTTPEndpoint?

    /// Makes the defaults for a client.
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
