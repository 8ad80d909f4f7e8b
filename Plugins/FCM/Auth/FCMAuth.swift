public import ChaparCore
import Foundation
internal import Logging
import Synchronization

/// Google's access tokens, cached: from a service account, from a person's refresh token, or from the caller's own
/// code.
///
/// Tokens are replaced five minutes before their end, by one request in the background; a thousand refused messages
/// cause one refresh. While the current token is valid, a token endpoint that is down stops no message.
public final class FCMAuth: AuthStrategy {
    /// The source of tokens.
    @nonexhaustive
    public enum Source: Sendable {
        /// Signed assertions of a service account.
        case serviceAccount(GoogleServiceAccount)
        /// A person's refresh token.
        case authorizedUser(GoogleAuthorizedUser)
        /// The caller's own code: workload identity, a metadata server, another library.
        case provider(@Sendable () async throws -> AccessToken)
    }

    /// The scope that sending needs.
    public static let messagingScope = "https://www.googleapis.com/auth/firebase.messaging"
    /// A token with less left of its life is replaced in the background.
    private static let renewAhead = Duration.seconds(300)
    private static let leeway = Duration.seconds(10)
    private static let providerDeadline = Duration.seconds(30)

    private let addresses: [HTTPEndpoint]
    private let cache: AccessTokenCache
    private let exchange: GoogleTokenExchange?
    private let trouble: Trouble

    /// Makes a strategy; nothing is fetched before the first request.
    ///
    /// - Parameters:
    ///   - source: The source of tokens.
    ///   - addresses: The only addresses whose requests carry the token; nil means Google's own, for sending and for
    ///     tokens.
    ///   - common: Trust, proxy and deadline of the requests to the token endpoint.
    ///   - context: Transport, clock, log.
    /// - Throws: When the trust or the proxy cannot work.
    public init(
        _ source: Source,
        for addresses: [HTTPEndpoint]? = nil,
        common: CommonBackendOptions = CommonBackendOptions(),
        context: BackendContext
    ) throws(HTTPPoolError) {
        self.addresses = addresses ?? [FCMOptions.sendHost, FCMOptions.instanceIDHost]
        let trouble = Trouble()
        self.trouble = trouble
        let fetch: @Sendable () async throws(PushError) -> AccessToken
        switch source {
        case .serviceAccount(let account):
            let exchange = try GoogleTokenExchange(account.tokenURI, common: common, context: context)
            self.exchange = exchange
            fetch = { () async throws(PushError) in
                let assertion = try account.assertion(scope: Self.messagingScope, now: context.time.now)
                return try await exchange.token([
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", assertion),
                ])
            }
        case .authorizedUser(let user):
            let exchange = try GoogleTokenExchange(user.tokenURI, common: common, context: context)
            self.exchange = exchange
            fetch = { () async throws(PushError) in
                try await exchange.token([
                    ("grant_type", "refresh_token"), ("client_id", user.clientID),
                    ("client_secret", user.clientSecret.reveal()), ("refresh_token", user.refreshToken.reveal()),
                ])
            }
        case .provider(let provide):
            exchange = nil
            fetch = { () async throws(PushError) in
                do {
                    return try await Deadline.run(Self.providerDeadline, provide)
                } catch let error as PushError {
                    throw error
                } catch {
                    throw PushError(.unavailable, "the access token provider gave none")
                }
            }
        }
        let logger = context.logger
        cache = AccessTokenCache(
            leeway: Self.leeway,
            renewAhead: Self.renewAhead,
            repetition: context.time
        ) { () async throws(PushError) in
            do throws(PushError) {
                let token = try await fetch()
                trouble.last.withLock { $0 = nil }
                return token
            } catch {
                trouble.last.withLock { $0 = error }
                logger.debug("no access token", metadata: ["reason": "\(error.reason ?? error.code.rawValue)"])
                throw error
            }
        }
    }

    /// Returns the current token; throws for an address that it must not be sent to.
    public func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        guard addresses.contains(destination) else {
            throw PushError(.unsupported, "Google's access token is not for \(destination)")
        }
        let entry = try await cache.token()
        let value = Secret("Bearer " + entry.token.value.reveal())
        return AuthCredential(headers: [.init("authorization", value)], generation: entry.generation)
    }

    /// Replaces a refused token, once for all messages that were refused with it; after any other refusal a new token
    /// would not help.
    public func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        guard status == 401, reason != FCMErrorCode.thirdPartyAuth else {
            return .giveUp(FCMRejections.accountDetail(reason, status: status))
        }
        await cache.invalidate(generation: credential.generation)
        return .retry
    }

    /// Whether the call goes to an address that may get the token.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { addresses.contains(endpoint) }

    /// The error of the last attempt to get a token; nil when it succeeded.
    public var lastFailure: PushError? { trouble.last.withLock { $0 } }

    /// The time by which this machine's clock is ahead of Google's, by the last answer of the token endpoint.
    var clockOffset: Duration? { exchange?.clockOffset }

    /// Ends the strategy; waits for a refresh under way, at most until its deadline.
    public func shutdown(grace: Duration) async {
        await exchange?.shutdown(grace: grace)
        await cache.shutdown()
    }

    private final class Trouble: Sendable {
        let last = Mutex<PushError?>(nil)
    }
}
