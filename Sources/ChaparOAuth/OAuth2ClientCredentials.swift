internal import Foundation
public import ChaparCore

/// Bearer tokens from a token endpoint, for an id and a secret (RFC 6749 section 4.4), for any backend that uses HTTP.
///
/// The token is fetched when it is first needed, kept for its life, and replaced once when the platform refuses it with
/// 401. The endpoint's `Retry-After` reaches the outcome of a message. Give the strategy to an
/// ``ChaparCore/AuthorizedTransport``, which adds the token to requests.
///
/// Shut the pools of the platform down first and the strategy last, with ``shutdown(grace:)``: it ends a fetch that is
/// under way. A backend's diagnosis asks with ``diagnose()``, which does not use the token that is kept.
public final class OAuth2ClientCredentials: AuthStrategy {
    /// The lifetime that is assumed of a token without `expires_in`.
    private static let assumedLifetime = 300
    /// The errors of RFC 6749 section 5.2: other words of an answer are not shown.
    private static let knownErrors: Set<String> = [
        "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
        "invalid_scope",
    ]

    private let client: Client
    private let tokens: ClosureAuthStrategy

    /// Makes a strategy; nothing is sent before its first use.
    ///
    /// - Parameters:
    ///   - tokenURL: The whole address of the token endpoint.
    ///   - id: The client's id.
    ///   - secret: The client's secret.
    ///   - scope: The scope to request; nil for none.
    ///   - authentication: The method by which the client authenticates itself.
    ///   - parameters: Further fields of the form, such as `audience` or `resource`.
    ///   - covers: Whether requests to an address carry the token. Where the address comes from a recipient, the rule
    ///     must name the scheme, the host and the port: see ``ChaparCore/HTTPEndpoint/isBelow(_:)``.
    ///   - common: The certificates, the proxy and the timeout of the token endpoint; `base_url` is not used.
    ///   - http: The transport of token requests, on a pool of their own that adds no credential.
    ///   - time: The clock of the wait before a failed request is repeated; a plugin gives its context's.
    /// - Throws: When the certificates or the proxy are invalid.
    public convenience init(
        tokenURL: HTTPBaseURL,
        id: String,
        secret: Secret,
        scope: String? = nil,
        authentication: OAuth2Settings.ClientAuthentication = .post,
        parameters: [(name: String, value: String)] = [],
        covers: @escaping @Sendable (HTTPEndpoint) -> Bool,
        common: CommonBackendOptions = CommonBackendOptions(),
        http: any HTTPTransport,
        time: any TimeSource = SystemTime()
    ) throws(HTTPPoolError) {
        try self.init(
            tokenURL: tokenURL,
            id: id,
            secret: secret,
            scope: scope,
            authentication: authentication,
            parameters: parameters,
            covers: covers,
            common: common,
            http: http,
            time: time,
            now: { .now }
        )
    }

    /// Does the same with `now` as the clock of lifetimes.
    package init(
        tokenURL: HTTPBaseURL,
        id: String,
        secret: Secret,
        scope: String? = nil,
        authentication: OAuth2Settings.ClientAuthentication = .post,
        parameters: [(name: String, value: String)] = [],
        covers: @escaping @Sendable (HTTPEndpoint) -> Bool,
        common: CommonBackendOptions = CommonBackendOptions(),
        http: any HTTPTransport,
        time: any TimeSource,
        now: @escaping @Sendable () -> ContinuousClock.Instant
    ) throws(HTTPPoolError) {
        var configuration = HTTPPoolConfiguration(endpoint: tokenURL.endpoint, version: .http1)
        common.apply(to: &configuration)
        configuration.endpoint = tokenURL.endpoint
        configuration.maximumConnections = 1
        configuration.maximumAnswerBytes = 1 << 16
        var fields = parameters
        fields.append(("grant_type", "client_credentials"))
        if let scope { fields.append(("scope", scope)) }
        var headers = [
            HTTPHeader("content-type", "application/x-www-form-urlencoded"), HTTPHeader("accept", "application/json"),
        ]
        switch authentication {
        case .none: fields.append(("client_id", id))
        case .post: fields += [("client_id", id), ("client_secret", secret.reveal())]
        case .basic:
            let pair = "\(FormEncoding.encode(id)):\(FormEncoding.encode(secret.reveal()))"
            headers.append(HTTPHeader("authorization", "Basic \(Data(pair.utf8).base64EncodedString())", .literal))
        }
        let client = Client(
            endpoint: tokenURL.endpoint,
            call: HTTPCall(
                HTTPCallTemplate(method: "POST", headers: headers),
                path: tokenURL.path.isEmpty ? "/" : tokenURL.path,
                body: FormEncoding.body(fields)
            ),
            pool: try http.pool(configuration),
            time: time
        )
        self.client = client
        // The pool keeps the deadline; this one is for a pool that does not.
        let deadline = common.timeout + .seconds(5)
        tokens = ClosureAuthStrategy(where: covers, deadline: deadline, repetition: time, now: now) {
            try await client.token()
        }
    }

    /// Returns the token as `authorization: Bearer …`; throws `unsupported` for an address outside the rule.
    public func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        try await tokens.credential(for: destination)
    }

    /// Discards a token that was refused with 401; another token would not help against other refusals.
    public func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        await tokens.refused(credential, status: status, reason: reason)
    }

    /// Whether the call goes to an address of the rule.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { tokens.covers(endpoint, path: path) }

    /// Asks the token endpoint for a token, without using or replacing the one that is kept.
    ///
    /// - Returns: The finding `credentials`, with the fix where the endpoint refuses or does not answer.
    public func diagnose() async -> Diagnosis {
        do throws(PushError) {
            _ = try await client.token()
            return Diagnosis("credentials", .ok, "\(client.endpoint) gives an access token.")
        } catch {
            let isRefusal = error.code == .credentialsRefused
            return Diagnosis(
                "credentials",
                .failure,
                error.message,
                fix: isRefusal
                    ? "Check the client's id, its secret and the scope."
                    : "Check the way to \(client.endpoint): name resolution, the firewall and the proxy."
            )
        }
    }

    /// Ends the strategy: a fetch under way has `grace` to end.
    public func shutdown(grace: Duration) async {
        await client.pool.shutdown(grace: grace)
        await tokens.shutdown()
    }

    /// Ends the strategy: a fetch under way has a second to end.
    public func shutdown() async { await shutdown(grace: .seconds(1)) }

    /// The token endpoint.
    private struct Client: Sendable {
        let endpoint: HTTPEndpoint
        let call: HTTPCall
        let pool: any HTTPPool
        let time: any TimeSource

        func token() async throws(PushError) -> AccessToken {
            let askedAt = time.now
            let answer: HTTPAnswer
            do throws(HTTPFailure) {
                answer = try await pool.send(call)
            } catch {
                throw PushError(.unavailable, "the token endpoint: \(error.detail)", reason: error.cause.reason)
            }
            guard (200..<300).contains(answer.status) else { throw refusal(answer) }
            let credential: OAuthCredential
            do throws(OAuth2Error) {
                credential = try OAuthCredential(
                    json: (try? JSONValue(parsing: answer.body)) ?? .null,
                    createdAt: askedAt
                )
            } catch {
                let code: PushError.Code = error == .unsupportedTokenType ? .credentialsRefused : .badAnswer
                throw PushError(code, "the token endpoint's answer cannot be used: \(error)", reason: error.code)
            }
            let seconds = min(max(credential.expiresIn ?? OAuth2ClientCredentials.assumedLifetime, 1), 86_400)
            return AccessToken(credential.accessToken, lifetime: .seconds(seconds))
        }

        private func refusal(_ answer: HTTPAnswer) -> PushError {
            let words = "the token endpoint \(endpoint) answered \(answer.status)"
            let pause = answer.retryAfter(now: time.now)
            switch answer.status {
            case 429: return PushError(.rateLimited, words, reason: "http_429", retryAfter: pause)
            case 408, 425, 500...:
                return PushError(.unavailable, words, reason: "http_\(answer.status)", retryAfter: pause)
            default:
                let named = (try? JSONValue(parsing: answer.body))?["error"]?.stringValue
                let known = named.flatMap { OAuth2ClientCredentials.knownErrors.contains($0) ? $0 : nil }
                return PushError(
                    .credentialsRefused,
                    "\(words)\(known.map { " (\($0))" } ?? ""): check the client's id, its secret and the scope",
                    reason: known ?? "http_\(answer.status)"
                )
            }
        }
    }
}
