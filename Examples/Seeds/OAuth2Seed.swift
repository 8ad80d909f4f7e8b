// The page on IDMoya's OAuth handler, sample by sample. The original hangs an adapter and a retrier into Alamofire's session;
// here a strategy is hung over any pool of connections.
import Foundation
import ChaparCore
import ChaparOAuth
import ChaparHTTP
import ChaparSandbox

enum OAuth2Seed {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        let oauthObject = sandbox.oauth2.issue()  // What a log-in gave.

        // let oauthHandler = IDMoya.OAuthHandler(clientID: "cliendID", baseURLString: "baseURLString", oauthObject: oauthObject)
        // The credential is in a store, which takes the place of the delegate's three storage members, and the delegate is given
        // to the handler instead of a static property: a program may have several handlers.
        guard let base = HTTPBaseURL(url: sandbox.oauth2.baseURL) else { return }
        var settings = OAuth2Settings(base: base, clientID: OAuth2Simulator.clientID)
        settings.trustPEM = sandbox.authority.certificatePEM  // The simulator's certificate.
        let oauthHandler = try OAuth2RefreshToken(
            settings,
            store: MemoryCredentialStore(oauthObject),
            hooks: AppDelegate(),
            http: client.http
        )

        // let sessionManager = SessionManager(); sessionManager.adapter = oauthHandler; sessionManager.retrier = oauthHandler
        // One object does both, over connections that are HTTP/2 here.
        var configuration = HTTPPoolConfiguration(endpoint: base.endpoint, version: .http2)
        configuration.extraTrustPEM = sandbox.authority.certificatePEM
        let sessionManager = AuthorizedPool(
            try client.http.pool(configuration),
            endpoint: base.endpoint,
            strategy: oauthHandler
        )

        // MySingleton.OAuthSessionManager?.request(...).validate(statusCode: Array(200...400) + Array(402..<600))
        // There is nothing to validate: every status but 401 is the caller's by itself.
        let request = HTTPCall(HTTPCallTemplate(method: "POST"), path: "/v1/push", body: Array("hello".utf8))
        print("oauth2:", try await sessionManager.send(request).status)
        sandbox.oauth2.revokeAccessTokens()
        print("oauth2: with a new token:", try await sessionManager.send(request).status)

        // The page says to keep the session, or requests that wait are lost; here its end is a call that waits for them.
        await sessionManager.shutdown(grace: .seconds(1))
        await oauthHandler.shutdown()
    }
}

/// `extension AppDelegate: IDMoyaOAuthHandlerDelegate {}`: here too no member is mandatory; these are the two that say what happened.
private struct AppDelegate: OAuth2Hooks {
    // idMoyaOAuthHandler_DidSuccessfullyRefreshed(_:withNewOAuthObject:)
    func didRefresh(_ credential: OAuthCredential) async { print("oauth2: refreshed:", credential) }

    // idMoyaOAuthHandler_DidFailedToRefresh(_:response:)
    func didFailToRefresh(_ error: OAuth2Error, answer: HTTPAnswer?) async { print("oauth2: not refreshed:", error) }

    // idMoyaOAuthHanlder_RefreshTokenEndpoint(_:), with the original's default: POST to api/oauth2/token under the base, JSON,
    // access_token, refresh_token, client_id and grant_type. Overridden it may ask at another address, in another form.
    // func refreshRequest(for credential: OAuthCredential, settings: OAuth2Settings) throws(OAuth2Error) -> OAuth2TokenRequest

    // idMoyaOAuthHandler_AdaptURLRequest(_:urlRequest:) in two parts: which requests carry the token, and in which fields.
    // func bases(for settings: OAuth2Settings) -> [HTTPBaseURL]
    // func authorization(for credential: OAuthCredential) -> [AuthCredential.Header]
}
