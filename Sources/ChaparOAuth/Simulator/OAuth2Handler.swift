internal import Foundation
internal import ChaparCore
internal import ChaparSimulator
internal import ChaparOAuth
internal import Synchronization

/// The answers of the token endpoint and of the API behind it.
///
/// ``OAuth2Simulator`` passes it all requests. It owns the tokens that it has issued: a refresh token works once where
/// the rules rotate it, and the API accepts only access tokens that it issued.
final class OAuth2Handler: SandboxHandler {
    struct State {
        var rules: OAuth2Simulator.Rules
        var counters = OAuth2Simulator.Counters()
        var access: Set<String> = []
        var refresh: Set<String> = []
        var issued = 0

        mutating func issue(at now: Date) -> OAuthCredential {
            issued += 1
            let (accessToken, refreshToken) = ("at-\(issued)-sandbox", "rt-\(issued)-sandbox")
            access.insert(accessToken)
            refresh.insert(refreshToken)
            return OAuthCredential(
                accessToken: Secret(accessToken),
                refreshToken: Secret(refreshToken),
                expiresIn: rules.lifetime,
                createdAt: now
            )
        }
    }

    private static let anywhere = HTTPEndpoint(host: "localhost")

    private let guarded: Mutex<State>

    init(_ rules: OAuth2Simulator.Rules) { guarded = Mutex(State(rules: rules)) }

    func withState<Value: Sendable>(_ body: (inout sending State) -> sending Value) -> Value { guarded.withLock(body) }

    func subject(of request: SandboxRequest) -> SandboxSubject { SandboxSubject(token: bearer(request)) }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        withState { $0.count(request) }
        return fault.plain(json: fault.reason.map { JSONValue.object(["error": .string($0)]).bytes } ?? [], now: now)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        withState { $0.count(request) }
        if request.path == OAuth2Simulator.tokenPath { return SandboxReply(answer: token(request, now)) }
        guard HTTPBaseURL(Self.anywhere, path: "/v1").covers(Self.anywhere, path: request.path) else {
            return SandboxReply(answer: Self.json(404, ["error": "not_found"]))
        }
        let isValid = withState { state in
            let isValid = !state.rules.refusesEverything && bearer(request).map(state.access.contains) ?? false
            if !isValid { state.counters.refused += 1 }
            return isValid
        }
        guard isValid else {
            let (status, error) = withState { $0.rules.refusal }
            var answer = Self.json(status, ["message": "Unauthenticated."])
            answer.headers.append(HTTPHeader("www-authenticate", "Bearer error=\"\(error)\""))
            return SandboxReply(answer: answer)
        }
        let echo: JSONValue = [
            "method": .string(request.method), "path": .string(request.path),
            "body": .string(String(decoding: request.body, as: UTF8.self)),
        ]
        let status = Int(request.header("x-status") ?? "") ?? 200
        if status == 204 { return SandboxReply(answer: SandboxAnswer(status: 204)) }
        return SandboxReply(answer: Self.json(status, echo))
    }

    private func token(_ request: SandboxRequest, _ now: Date) -> SandboxAnswer {
        guard request.method == "POST" else { return Self.json(405, ["error": "invalid_request"]) }
        guard request.header("authorization").map({ $0.hasPrefix("Basic ") }) ?? true else {
            return Self.error("invalid_request", "the token endpoint takes no bearer token")
        }
        return withState { state in
            guard let fields = Self.fields(request, state.rules.encoding) else {
                return Self.error("invalid_request", "the body is not of the form that the server takes")
            }
            guard Self.isClient(request, fields, state.rules) else {
                return Self.json(401, ["error": "invalid_client"])
            }
            guard fields["grant_type"] == "refresh_token" else { return Self.error("unsupported_grant_type", nil) }
            guard let refresh = fields["refresh_token"], !refresh.isEmpty,
                !state.rules.requiresAccessToken || fields["access_token"] != nil
            else { return Self.error("invalid_request", "a field is missing") }
            guard state.refresh.contains(refresh) else {
                return Self.error("invalid_grant", "the refresh token is unknown, spent or revoked")
            }
            let fresh = state.issue(at: now)
            state.access = [fresh.accessToken.reveal()]
            state.counters.refreshed += 1
            var answer: JSONObject = ["access_token": .string(fresh.accessToken.reveal()), "token_type": "Bearer"]
            if let lifetime = state.rules.lifetime { answer["expires_in"] = .integer(Int64(lifetime)) }
            if let new = fresh.refreshToken?.reveal() {
                if state.rules.rotates, state.rules.returnsRefreshToken {
                    state.refresh = [new]
                    answer["refresh_token"] = .string(new)
                } else {
                    state.refresh.remove(new)
                    if state.rules.returnsRefreshToken { answer["refresh_token"] = .string(refresh) }
                }
            }
            var told = Self.json(200, .object(answer))
            told.headers.append(HTTPHeader("date", SandboxHTTPDate.text(now)))
            return told
        }
    }

    private static func fields(_ request: SandboxRequest, _ encoding: OAuth2Settings.Encoding) -> [String: String]? {
        let type = request.header("content-type")?.lowercased() ?? ""
        switch encoding {
        case .json:
            guard type.hasPrefix("application/json"), let json = try? JSONValue(parsing: request.body),
                let object = json.objectValue
            else { return nil }
            var fields: [String: String] = [:]
            for (name, value) in object {
                guard let text = value.stringValue else { return nil }
                fields[name] = text
            }
            return fields
        case .form:
            guard type.hasPrefix("application/x-www-form-urlencoded") else { return nil }
            return FormFields.parse(String(decoding: request.body, as: UTF8.self))
        }
    }

    private static func isClient(
        _ request: SandboxRequest,
        _ fields: [String: String],
        _ rules: OAuth2Simulator.Rules
    ) -> Bool {
        switch rules.clientAuthentication {
        case .none: return fields["client_id"] == OAuth2Simulator.clientID
        case .post:
            return fields["client_id"] == OAuth2Simulator.clientID && fields["client_secret"] == rules.clientSecret
        case .basic:
            let pair = Data("\(OAuth2Simulator.clientID):\(rules.clientSecret)".utf8).base64EncodedString()
            return request.header("authorization") == "Basic \(pair)"
        }
    }

    private func bearer(_ request: SandboxRequest) -> String? {
        guard let field = request.header("authorization"), field.hasPrefix("Bearer ") else { return nil }
        return String(field.dropFirst(7))
    }

    private static func error(_ code: String, _ sentence: String?) -> SandboxAnswer {
        var object: JSONObject = ["error": .string(code)]
        if let sentence { object["error_description"] = .string(sentence) }
        return json(400, .object(object))
    }

    private static func json(_ status: Int, _ value: JSONValue) -> SandboxAnswer {
        SandboxAnswer(status: status, headers: [HTTPHeader("content-type", "application/json")], body: value.bytes)
    }
}

extension OAuth2Handler.State {
    fileprivate mutating func count(_ request: SandboxRequest) {
        if request.path == OAuth2Simulator.tokenPath {
            counters.tokenRequests += 1
        } else {
            counters.apiRequests += 1
            if request.header("authorization") != nil { counters.authorized += 1 }
        }
    }
}
