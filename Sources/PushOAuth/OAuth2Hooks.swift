internal import Foundation
public import PushCore

/// A request to a token endpoint: what IDMoya calls the endpoint object.
public struct OAuth2TokenRequest: Sendable {
    /// Where to.
    public var endpoint: HTTPEndpoint
    /// The path, with its query.
    public var path: String
    /// The method.
    public var method = "POST"
    /// Header fields, names in lower case.
    public var headers: [HTTPHeader] = []
    /// The body.
    public var body: [UInt8] = []

    /// Makes a request without fields and body.
    public init(endpoint: HTTPEndpoint, path: String) {
        self.endpoint = endpoint
        self.path = path
    }
}

/// What an app may change about the refresh of tokens, and what it is notified of: IDMoya's delegate.
///
/// Every member has a default, so that an empty conformance is a whole one. Notices arrive in order, after the state
/// they speak of is in force; they are not awaited, so a hook may send requests through the same strategy.
///
/// | the original's `idMoyaOAuth…` | here |
/// | --- | --- |
/// | `Hanlder_RefreshTokenEndpoint` | ``refreshRequest(for:settings:)`` |
/// | `Handler_AdaptURLRequest` | ``bases(for:)``: which requests carry the token; ``authorization(for:)``: in which fields |
/// | `Handler_DidSuccessfullyRefreshed` | ``didRefresh(_:)`` |
/// | `Handler_DidFailedToRefresh` | ``didFailToRefresh(_:answer:)`` |
/// | `Handler_ShouldLogoutCurrentUser` | ``shouldDropCredential(_:)`` |
/// | `Handler_StoredOAuthObject`, `_StoreNewOAuthObject`, `_RemoveCurrentOAuthObject` | ``CredentialStore`` |
public protocol OAuth2Hooks: Sendable {
    /// The request that refreshes `credential`; it may go to another endpoint than that of the settings, and never
    /// carries the token in a header field unless it is written into the request here.
    func refreshRequest(for credential: OAuthCredential, settings: OAuth2Settings) throws(OAuth2Error)
        -> OAuth2TokenRequest
    /// Where requests carry the token: under these addresses and nowhere else.
    ///
    /// Must give the same each time.
    func bases(for settings: OAuth2Settings) -> [HTTPBaseURL]
    /// The header fields of a request that carries the token.
    func authorization(for credential: OAuthCredential) -> [AuthCredential.Header]
    /// A new credential is stored and in force.
    func didRefresh(_ credential: OAuthCredential) async
    /// A refresh failed; the token endpoint's answer, when there was one.
    func didFailToRefresh(_ error: OAuth2Error, answer: HTTPAnswer?) async
    /// The credential was refused and is gone: its user is logged out.
    func shouldDropCredential(_ error: OAuth2Error) async
}

extension OAuth2Hooks {
    /// POST to the settings' endpoint with `grant_type`, `client_id`, `refresh_token` and, as set, the old access
    /// token.
    public func refreshRequest(
        for credential: OAuthCredential,
        settings: OAuth2Settings
    ) throws(OAuth2Error) -> OAuth2TokenRequest {
        guard let refreshToken = credential.refreshToken else {
            throw .reauthorizationRequired(error: nil, description: "there is no refresh token")
        }
        let (endpoint, path) = settings.tokenAddress
        var request = OAuth2TokenRequest(endpoint: endpoint, path: path)
        var fields = settings.extraParameters
        fields.append(("grant_type", "refresh_token"))
        fields.append(("refresh_token", refreshToken.reveal()))
        if settings.sendsAccessToken { fields.append(("access_token", credential.accessToken.reveal())) }
        let secret = settings.clientSecret?.reveal() ?? ""
        if settings.clientAuthentication == .basic {
            let pair = "\(FormEncoding.encode(settings.clientID)):\(FormEncoding.encode(secret))"
            request.headers.append(
                HTTPHeader("authorization", "Basic \(Data(pair.utf8).base64EncodedString())", .literal)
            )
        } else {
            fields.append(("client_id", settings.clientID))
            if settings.clientAuthentication == .post { fields.append(("client_secret", secret)) }
        }
        request.headers.append(HTTPHeader("accept", "application/json"))
        switch settings.encoding {
        case .json:
            var object = JSONObject()
            for (name, value) in fields { object[name] = .string(value) }
            request.headers.append(HTTPHeader("content-type", "application/json"))
            request.body = JSONValue.object(object).bytes
        case .form:
            request.headers.append(HTTPHeader("content-type", "application/x-www-form-urlencoded"))
            request.body = FormEncoding.body(fields)
        }
        return request
    }

    /// The base of the settings.
    public func bases(for settings: OAuth2Settings) -> [HTTPBaseURL] { [settings.base] }

    /// `Authorization: Bearer …`.
    public func authorization(for credential: OAuthCredential) -> [AuthCredential.Header] {
        [AuthCredential.Header("authorization", Secret("Bearer \(credential.accessToken.reveal())"))]
    }

    /// Nothing.
    public func didRefresh(_ credential: OAuthCredential) async {}
    /// Nothing.
    public func didFailToRefresh(_ error: OAuth2Error, answer: HTTPAnswer?) async {}
    /// Nothing.
    public func shouldDropCredential(_ error: OAuth2Error) async {}
}

/// Hooks that change nothing.
public struct DefaultOAuth2Hooks: OAuth2Hooks {
    /// Makes them.
    public init() {}
}

/// What a strategy reports to an observer, for logs and metrics.
@nonexhaustive
public enum OAuth2Event: Sendable, Hashable {
    /// A new token is in force.
    case refreshed(generation: UInt64, lifetime: Int?, waiters: Int, isEarly: Bool)
    /// A credential that another writer stored was loaded, without any request.
    case adopted(generation: UInt64)
    /// A refresh failed.
    case refreshFailed(OAuth2Error)
    /// The credential was refused and removed. What the original posts as `IDAM.NN.RefreshTokenFailed`.
    case credentialDropped
    /// The token endpoint's clock differs from ours by so many seconds.
    case clockSkew(seconds: Int)
    /// The credential is in force but could not be stored; it is tried again.
    case storeFailed
    /// A stored credential cannot be read.
    case storeUnreadable(OAuth2Error)
    /// A request was sent again with a token that had been replaced in the meantime.
    case retriedWithoutRefresh
}
