internal import Foundation
package import ChaparCore
package import ChaparSimulator
internal import ChaparOAuth

extension OAuth2Simulator: SimulatedPlatform {
    /// The backend's name in the configuration that the sandbox writes.
    static let backendName = "partner"

    package var name: String { "oauth2" }

    package var listeners: [(name: String, url: String)] { [("oauth2 token", tokenURL)] }

    package var files: [SandboxFile] { [] }

    /// Returns the platform behind a relay that takes access tokens; the first one is revoked, so that the first
    /// message needs a refresh.
    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        guard let relayed else { return [] }
        let credential = issue()
        revokeAccessTokens()
        let auth: JSONObject = [
            "kind": "oauth2_refresh", "client_id": .string(Self.clientID), "token_url": .string(tokenURL),
            "access_token": .string(credential.accessToken.reveal()),
            "refresh_token": .string(credential.refreshToken?.reveal() ?? ""), "store": ["kind": "memory"],
        ]
        var section = relayed.relayedSection(caFile: folder.ca)
        section["auth"] = .object(auth)
        return [SandboxBackend(name: Self.backendName, keys: section.map { (key: $0.name, value: $0.value) })]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try OAuth2Control(simulator: self).route(request)
    }
}
