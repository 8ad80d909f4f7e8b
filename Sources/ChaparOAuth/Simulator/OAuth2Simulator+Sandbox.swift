internal import Foundation
internal import ChaparCore
internal import ChaparOAuth

extension OAuth2Simulator: SimulatedPlatform {
    /// The backend's name in the configuration that the sandbox writes.
    static let backendName = "partner"

    var name: String { "oauth2" }

    var listeners: [(name: String, url: String)] { [("oauth2 token", tokenURL)] }

    var files: [SandboxFile] { [] }

    /// Returns OneSignal behind a relay that takes access tokens; the first one is revoked, so that the first message
    /// needs a refresh.
    func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        guard let relayed else { return [] }
        let credential = issue()
        revokeAccessTokens()
        let auth: JSONObject = [
            "kind": "oauth2_refresh", "client_id": .string(Self.clientID), "token_url": .string(tokenURL),
            "access_token": .string(credential.accessToken.reveal()),
            "refresh_token": .string(credential.refreshToken?.reveal() ?? ""), "store": ["kind": "memory"],
        ]
        return [
            SandboxBackend(
                name: Self.backendName,
                keys: [
                    ("kind", "onesignal"), ("app_id", .string(relayed.rules.appID)),
                    ("base_url", .string(relayed.apiURL)), ("ca_file", .string(folder.ca)), ("register_devices", false),
                    ("allow_broadcast", true), ("auth", .object(auth)),
                ]
            )
        ]
    }

    /// | call | does |
    /// | --- | --- |
    /// | `GET /` | says where it listens |
    /// | `GET /counters` | what happened |
    /// | `POST /revoke` | `{"refresh_tokens": true}`: revokes every access token, and refresh tokens when asked |
    ///
    /// and those of ``HostControl``.
    func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        let words = FaultVocabulary(listeners: [Self.listener], foldsTokens: false)
        let common = HostControl(host: host, words: words)
        if let answer = try common.route(request) { return answer }
        switch (request.method, request.path) {
        case ("GET", "/"): return ["token": .string(tokenURL), "api": .string(baseURL)]
        case ("GET", "/counters"):
            let seen = counters
            var object = host.counters.json
            let numbers: [(String, Int)] = [
                ("token_requests", seen.tokenRequests), ("refreshed", seen.refreshed),
                ("api_requests", seen.apiRequests), ("refused", seen.refused), ("authorized", seen.authorized),
            ]
            for (name, value) in numbers { object[name] = .integer(Int64(value)) }
            return .object(object)
        case ("POST", "/revoke"):
            var fields = try ControlFields(try request.json(), in: "revoke")
            let isAll = try fields.bool("refresh_tokens") ?? false
            try fields.finish()
            revokeAccessTokens()
            if isAll { revokeRefreshTokens() }
            return [:]
        default: throw ControlError("no such call: \(request.method) \(request.path)", status: 404)
        }
    }
}
