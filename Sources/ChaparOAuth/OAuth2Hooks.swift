internal import Foundation
public import ChaparCore

/// A request to a token endpoint, called the endpoint object in IDMoya.
public struct OAuth2TokenRequest: Sendable {
    /// The endpoint.
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

/// Customizations of the token refresh by an app, and notices to it: IDMoya's delegate.
///
/// Every member has a default, so that an empty conformance is complete. Notices arrive in order, after the change that
/// they report. They are not awaited, so a hook may send requests through the same strategy.
///
/// | the original's `idMoyaOAuth…` | here |
/// | --- | --- |
/// | `Hanlder_RefreshTokenEndpoint` | ``refreshRequest(for:settings:)`` |
/// | `Handler_AdaptURLRequest` | ``bases(for:)``: which requests carry it; ``authorization(for:)``: the fields |
/// | `Handler_DidSuccessfullyRefreshed` | ``didRefresh(_:)`` |
/// | `Handler_DidFailedToRefresh` | ``didFailToRefresh(_:answer:)`` |
/// | `Handler_ShouldLogoutCurrentUser` | ``shouldDropCredential(_:)`` |
/// | `Handler_StoredOAuthObject`, `_StoreNewOAuthObject`, `_RemoveCurrentOAuthObject` | ``CredentialStore`` |
public protocol OAuth2Hooks: Sendable {
    /// Returns the request that refreshes `credential`; it may go to another endpoint than that of the settings.
    ///
    /// It carries the token in a header field only if this function writes one.
    func refreshRequest(for credential: OAuthCredential, settings: OAuth2Settings) throws(OAuth2Error)
        -> OAuth2TokenRequest
    /// Returns the addresses under which requests carry the token; no other requests carry it.
    ///
    /// It must return the same each time.
    func bases(for settings: OAuth2Settings) -> [HTTPBaseURL]
    /// Returns the header fields of a request that carry the token.
    func authorization(for credential: OAuthCredential) -> [AuthCredential.Header]
    /// Called when a new credential is stored and in force.
    func didRefresh(_ credential: OAuthCredential) async
    /// Called when a refresh failed, with the token endpoint's answer if there was one.
    func didFailToRefresh(_ error: OAuth2Error, answer: HTTPAnswer?) async
    /// Called when the credential was refused and removed: its user is logged out.
    func shouldDropCredential(_ error: OAuth2Error) async
}

extension OAuth2Hooks {
    /// Returns a POST to the settings' endpoint with `grant_type`, `client_id`, `refresh_token` and, if so set, the old
    /// access token.
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

    /// Returns the base of the settings.
    public func bases(for settings: OAuth2Settings) -> [HTTPBaseURL] { [settings.base] }

    /// Returns `Authorization: Bearer …`.
    public func authorization(for credential: OAuthCredential) -> [AuthCredential.Header] {
        [AuthCredential.Header("authorization", Secret("Bearer \(credential.accessToken.reveal())"))]
    }

    /// Does nothing.
    public func didRefresh(_ credential: OAuthCredential) async {}
    /// Does nothing.
    public func didFailToRefresh(_ error: OAuth2Error, answer: HTTPAnswer?) async {}
    /// Does nothing.
    public func shouldDropCredential(_ error: OAuth2Error) async {}
}

/// Hooks that change nothing.
public struct DefaultOAuth2Hooks: OAuth2Hooks {
    /// Makes the hooks.
    public init() {}
}

/// An event that a strategy reports to an observer, for logs and metrics.
@nonexhaustive
public enum OAuth2Event: Sendable, Hashable {
    /// A new token is in force.
    case refreshed(generation: UInt64, lifetime: Int?, waiters: Int, isEarly: Bool)
    /// A credential that another writer stored was loaded, without a request.
    case adopted(generation: UInt64)
    /// A refresh failed.
    case refreshFailed(OAuth2Error)
    /// The credential was refused and removed.
    ///
    /// The original posts this as `IDAM.NN.RefreshTokenFailed`.
    case credentialDropped
    /// The token endpoint's clock differs from the local one by this many seconds.
    case clockSkew(seconds: Int)
    /// The credential is in force but could not be stored; the write is retried.
    case storeFailed
    /// A stored credential cannot be read.
    case storeUnreadable(OAuth2Error)
    /// A request was sent again with a token that had been replaced in the meantime.
    case retriedWithoutRefresh
}
