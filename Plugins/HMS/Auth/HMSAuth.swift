import Foundation
public import ChaparCore

/// Authorizes requests to Huawei with one access token, which is made or fetched once and replaced when it is refused.
///
/// Two ways lead to a token: OAuth 2.0 client credentials, exchanged at Huawei's token endpoint, and a service account,
/// whose key signs it here. Source: Huawei, "OAuth 2.0-based Authentication" and "Service Account", read 2026-08.
public final class HMSAuth: AuthStrategy {
    /// The refusals after which a new token may help: token missing or foreign, token expired, JWT expired.
    private static let curable: Set<String> = ["80200001", "80200003", "80200005"]
    /// The time before its end at which a token is replaced; the present one stays in use meanwhile.
    private static let renewAhead = Duration.seconds(300)
    static let path = "/oauth2/v3/token"

    private let addresses: [HTTPEndpoint]
    private let cache: AccessTokenCache

    /// Makes a strategy for an app's id and secret; `pool` leads to Huawei's token endpoint.
    ///
    /// Requests to no other than `addresses` carry the token.
    public convenience init(
        clientID: String,
        secret: Secret,
        pool: any HTTPPool,
        for addresses: [HTTPEndpoint] = [HMSOptions.pushEndpoint]
    ) {
        self.init(clientID: clientID, secret: secret, pool: pool, for: addresses, time: SystemTime())
    }

    /// Does the same with a clock of its own.
    package convenience init(
        clientID: String,
        secret: Secret,
        pool: any HTTPPool,
        for addresses: [HTTPEndpoint] = [HMSOptions.pushEndpoint],
        time: any TimeSource
    ) {
        let endpoint = HMSTokenEndpoint(clientID: clientID, secret: secret, pool: pool, time: time)
        self.init(addresses, repetition: time) { () async throws(PushError) in try await endpoint.fetch() }
    }

    /// Makes a strategy for a service account, which needs no network; requests to no other than `addresses` carry the
    /// token.
    public convenience init(
        account: HMSServiceAccount,
        for addresses: [HTTPEndpoint] = [HMSOptions.pushEndpoint]
    ) {
        self.init(account: account, for: addresses, time: SystemTime())
    }

    /// Does the same with a clock of its own.
    package convenience init(
        account: HMSServiceAccount,
        for addresses: [HTTPEndpoint] = [HMSOptions.pushEndpoint],
        time: any TimeSource
    ) {
        self.init(addresses, repetition: nil) { () async throws(PushError) in try account.token(at: time.now) }
    }

    private init(
        _ addresses: [HTTPEndpoint],
        repetition: (any TimeSource)?,
        fetch: @escaping @Sendable () async throws(PushError) -> AccessToken
    ) {
        self.addresses = addresses
        cache = AccessTokenCache(renewAhead: Self.renewAhead, repetition: repetition, fetch: fetch)
    }

    /// Returns the present bearer; throws for an address that it must not be sent to.
    public func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        guard addresses.contains(destination) else {
            throw PushError(.unsupported, "Huawei's access token is not for \(destination)")
        }
        let entry = try await cache.token()
        return AuthCredential(
            headers: [.init("authorization", Secret("Bearer " + entry.token.value.reveal()))],
            generation: entry.generation
        )
    }

    /// Whether the call goes to an address that may get the token.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { addresses.contains(endpoint) }

    /// Waits for a refresh under way.
    public func shutdown() async { await cache.shutdown() }

    /// Replaces a token that is missing, foreign or expired, unless that was done already; other refusals are not
    /// retried.
    ///
    /// Unknown codes of the family 8020 are treated likewise.
    public func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        let isCurable = reason.map { Self.curable.contains($0) || $0.hasPrefix("8020") } ?? (status == 401)
        guard isCurable else {
            return .giveUp(HMSRejections.rule(for: reason ?? "")?.detail ?? "Huawei refused the request for good.")
        }
        await cache.invalidate(generation: credential.generation)
        return .retry
    }
}

/// Huawei's token endpoint for client credentials.
///
/// ``HMSAuth`` asks it when its cache has no token that is good for long enough. Every call is one request; it caches
/// nothing and repeats nothing.
struct HMSTokenEndpoint: Sendable {
    let clientID: String
    let secret: Secret
    let pool: any HTTPPool
    let time: any TimeSource

    private static let template = HTTPCallTemplate(
        method: "POST",
        headers: [
            HTTPHeader("content-type", "application/x-www-form-urlencoded"), HTTPHeader("accept", "application/json"),
        ]
    )

    func fetch() async throws(PushError) -> AccessToken {
        let form = FormEncoding.body([
            ("grant_type", "client_credentials"), ("client_id", clientID), ("client_secret", secret.reveal()),
        ])
        let answer: HTTPAnswer
        do throws(HTTPFailure) {
            answer = try await pool.send(HTTPCall(Self.template, path: HMSAuth.path, body: form))
        } catch {
            throw PushError(
                .unavailable,
                "Huawei's token endpoint: \(error.detail)",
                reason: error.cause.reason
            )
        }
        return try Self.read(answer, now: time.now)
    }

    /// Returns the token of an answer; throws the reason when there is none.
    ///
    /// The token may be written with `\/`, which JSON decoding resolves.
    static func read(_ answer: HTTPAnswer, now: Date) throws(PushError) -> AccessToken {
        let body = try? JSONValue(parsing: answer.body)
        switch answer.status {
        case 200:
            guard let token = body?["access_token"]?.stringValue, !token.isEmpty,
                token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
            else { throw PushError(.badAnswer, "Huawei's token endpoint answered 200 without a usable token") }
            let seconds =
                body?["expires_in"].flatMap { $0.integerValue ?? $0.stringValue.flatMap { Int64($0) } } ?? 3600
            return AccessToken(Secret(token), lifetime: .seconds(min(max(seconds, 1), 86_400)))
        case 503:
            throw PushError(
                .rateLimited,
                "Huawei's token endpoint limits the flow",
                reason: "oauth_503",
                retryAfter: answer.retryAfter(now: now)
            )
        case 500..., 429:
            throw PushError(
                .unavailable,
                "Huawei's token endpoint answered \(answer.status)",
                reason: "oauth_\(answer.status)",
                retryAfter: answer.retryAfter(now: now)
            )
        default:
            let code = body?["sub_error"].flatMap { $0.integerValue ?? $0.stringValue.flatMap { Int64($0) } }
            let meaning = code.flatMap { subErrors[$0] } ?? "check app_id, client_secret and token_url"
            throw PushError(
                .credentialsRefused,
                "Huawei's token endpoint refused the credentials (\(answer.status)): \(meaning)",
                reason: code.map { "oauth_\($0)" } ?? "oauth_\(answer.status)"
            )
        }
    }

    /// Source: Huawei, "OAuth 2.0-based Authentication", error codes, read 2026-08.
    private static let subErrors: [Int64: String] = [
        20001: "client_id is missing", 20002: "client_id is malformed: it has digits only, 1 to 64",
        20003: "there is no such client: check app_id", 12304: "the secret is wrong: check client_secret",
        20173: "the secret is wrong: check client_secret", 20171: "the secret is missing",
        20172: "the secret is malformed: check client_secret", 20182: "the grant type is wrong, a fault of Chapar",
    ]
}
