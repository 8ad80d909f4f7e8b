internal import ChaparCore
internal import ChaparSimulator

/// The control API of the simulator of the token server, for tests in other languages and for people with curl.
///
/// | call | does |
/// | --- | --- |
/// | `GET /` | says where it listens |
/// | `GET /counters` | what happened |
/// | `POST /revoke` | `{"refresh_tokens": true}`: revokes every access token, and refresh tokens when asked |
/// | and | those of ``HostControl`` |
struct OAuth2Control: SimulatorControl {
    let simulator: OAuth2Simulator

    var common: HostControl {
        let words = FaultVocabulary(listeners: [OAuth2Simulator.listener], foldsTokens: false)
        return HostControl(host: simulator.host, words: words)
    }

    func answer(_ request: ControlRequest) throws(ControlError) -> JSONValue? {
        switch (request.method, request.path) {
        case ("GET", "/"): return ["token": .string(simulator.tokenURL), "api": .string(simulator.baseURL)]
        case ("GET", "/counters"):
            let seen = simulator.counters
            var object = simulator.host.counters.json
            let numbers: [(String, Int)] = [
                ("token_requests", seen.tokenRequests), ("refreshed", seen.refreshed),
                ("api_requests", seen.apiRequests), ("refused", seen.refused), ("authorized", seen.authorized),
            ]
            object.add(counts: numbers)
            return .object(object)
        case ("POST", "/revoke"):
            var fields = try ControlFields(try request.json(), in: "revoke")
            let isAll = try fields.bool("refresh_tokens") ?? false
            try fields.finish()
            simulator.revokeAccessTokens()
            if isAll { simulator.revokeRefreshTokens() }
            return [:]
        default: return nil
        }
    }
}
