// The page on IDMoya's OAuth handler, sample by sample. The original hangs an adapter and a retrier into Alamofire's session;
// here an `AuthStrategy` is hung over any pool of connections.
import Foundation
import PushCore
import PushHTTP
import PushSandbox

enum OAuth2Seed {
    static func run(_ client: PushClient, _ sandbox: Sandbox) async throws {
        // IDMoya.OAuthObject(accessToken:refreshToken:expiresIn:createdAt:)
        let oauthObject = sandbox.oauth2.issue()

        // IDMoya.OAuthHandler(clientID: "clientID", baseURLString: "baseURLString", oauthObject: oauthObject). The credential
        // is in a store, which the original's three storage members of the delegate are.
        guard let base = HTTPBaseURL(url: sandbox.oauth2.url) else { return }
        var settings = OAuth2Settings(base: base, clientID: "gateway")
        settings.trustPEM = sandbox.authority.certificatePEM  // The simulator's certificate.
        let oauthHandler = try OAuth2RefreshToken(
            settings,
            store: MemoryCredentialStore(oauthObject),
            http: client.http
        )
        print("oauth2: the handler holds", await oauthHandler.credential?.description ?? "nothing yet")
        await oauthHandler.shutdown()
    }
}
