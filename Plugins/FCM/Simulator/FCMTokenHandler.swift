internal import CryptoExtras
internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// The token endpoint of the FCM simulator: `POST /token`, for signed assertions and refresh tokens.
///
/// Source: RFC 7523, and Google, "Using OAuth 2.0 for server to server applications", read 2026-08.
struct FCMTokenHandler: SandboxHandler {
    /// A refusal in the form of RFC 6749 (section 5.2).
    private struct Refusal: Error {
        var status = 400
        let error: String
        let description: String

        static func grant(_ description: String) -> Refusal {
            Refusal(error: "invalid_grant", description: description)
        }
    }

    private static let scopes: Set<String> = [
        "https://www.googleapis.com/auth/firebase.messaging", "https://www.googleapis.com/auth/cloud-platform",
    ]

    /// The audience that Google's own libraries write for every `token_uri` of a key file.
    private static let googleAudience = "https://oauth2.googleapis.com/token"

    let service: FCMServiceState

    func subject(of request: SandboxRequest) -> SandboxSubject { SandboxSubject() }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        service.withState { state in
            do throws(Refusal) {
                let project = try check(request, at: now, state)
                state.counters.tokensIssued += 1
                var body: JSONObject = [
                    "access_token": .string(state.issueToken(projectID: project, now: now)), "token_type": "Bearer",
                ]
                if !state.omitsLifetime { body["expires_in"] = .integer(Int64(state.tokenLifetime)) }
                return SandboxReply(answer: Self.json(200, .object(body), now))
            } catch {
                state.counters.tokensRefused[error.error, default: 0] += 1
                let body: JSONValue = [
                    "error": .string(error.error), "error_description": .string(error.description),
                ]
                return SandboxReply(answer: Self.json(error.status, body, now))
            }
        }
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        guard fault.status >= 300 else { return fault.plain(now: now) }
        service.withState { $0.counters.tokensRefused[fault.reason ?? "http_\(fault.status)", default: 0] += 1 }
        let body = fault.reason.map { JSONValue.object(["error": .string($0)]).bytes } ?? []
        return fault.plain(json: body, now: now)
    }

    /// Returns the project for which the request may act.
    private func check(_ request: SandboxRequest, at now: Date, _ state: FCMState) throws(Refusal) -> String {
        guard request.path == "/token" else {
            throw Refusal(status: 404, error: "not_found", description: "Requested entity was not found.")
        }
        guard request.method == "POST",
            request.header("content-type")?.lowercased().hasPrefix("application/x-www-form-urlencoded") == true
        else { throw Refusal(error: "invalid_request", description: "Send a form by POST.") }
        let form = Self.form(request.body)
        switch form["grant_type"] {
        case "urn:ietf:params:oauth:grant-type:jwt-bearer"?:
            return try check(assertion: form["assertion"] ?? "", at: now, state)
        case "refresh_token"?:
            guard let project = state.refreshTokens[form["refresh_token"] ?? ""] else {
                throw .grant("Token has been expired or revoked.")
            }
            guard form["client_id"] != nil, form["client_secret"] != nil else {
                throw Refusal(status: 401, error: "invalid_client", description: "The OAuth client was not found.")
            }
            return project
        case nil: throw Refusal(error: "invalid_request", description: "Missing parameter: grant_type")
        default: throw Refusal(error: "unsupported_grant_type", description: "Invalid grant_type")
        }
    }

    private func check(assertion: String, at now: Date, _ state: FCMState) throws(Refusal) -> String {
        let parts = assertion.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.decode(parts[0]).flatMap({ try? JSONValue(parsing: $0) }),
            let claims = Self.decode(parts[1]).flatMap({ try? JSONValue(parsing: $0) }),
            let signature = Self.decode(parts[2])
        else { throw .grant("Invalid JWT: it must have three parts.") }
        guard header["alg"] == "RS256" else { throw .grant("Invalid JWT: alg must be RS256.") }
        guard let keyID = header["kid"]?.stringValue, let account = state.accounts[keyID],
            claims["iss"]?.stringValue == account.email, !state.disabledAccounts.contains(account.email)
        else { throw .grant("Invalid grant: account not found") }
        let content = Data((parts[0] + "." + parts[1]).utf8)
        let isSigned = account.publicKey.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: Data(signature)),
            for: content,
            padding: .insecurePKCS1v1_5
        )
        guard isSigned else { throw .grant("Invalid JWT Signature.") }
        guard let audience = claims["aud"]?.stringValue, [service.tokenURI, Self.googleAudience].contains(audience)
        else {
            throw .grant("Invalid JWT: failed audience check.")
        }
        guard let issued = claims["iat"]?.integerValue, let expires = claims["exp"]?.integerValue else {
            throw .grant("Invalid JWT: iat and exp are required.")
        }
        let seconds = Int64(clamping: now.timeIntervalSince1970)
        guard issued.subtracting(clamping: seconds) <= 60, expires > seconds, expires > issued,
            expires.subtracting(clamping: issued) <= 3600
        else {
            throw .grant("Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.")
        }
        let asked = (claims["scope"]?.stringValue ?? "").split(separator: " ").map(String.init)
        guard asked.contains(where: Self.scopes.contains) else {
            throw Refusal(error: "invalid_scope", description: "Invalid OAuth scope or ID token audience provided.")
        }
        return account.projectID
    }

    private static func json(_ status: Int, _ body: JSONValue, _ now: Date) -> SandboxAnswer {
        SandboxAnswer(
            status: status,
            headers: [
                HTTPHeader("content-type", "application/json; charset=utf-8"),
                HTTPHeader("date", SandboxHTTPDate.text(now)),
            ],
            body: body.bytes
        )
    }

    private static func form(_ body: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        for pair in String(decoding: body, as: UTF8.self).split(separator: "&") {
            let sides = pair.split(separator: "=", maxSplits: 1).map {
                $0.replacingOccurrences(of: "+", with: " ").removingPercentEncoding ?? String($0)
            }
            if let name = sides.first { fields[name] = sides.count == 2 ? sides[1] : "" }
        }
        return fields
    }

    private static func decode(_ text: Substring) -> [UInt8]? {
        var base64 = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while base64.utf8.count % 4 != 0 { base64 += "=" }
        return Data(base64Encoded: base64).map(Array.init)
    }
}
