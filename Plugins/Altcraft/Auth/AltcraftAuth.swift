internal import Foundation
public import ChaparCore
internal import Synchronization

/// Provides the credential of each identity: one role token for all, or a JWT for each, since a JWT names one profile.
///
/// A role token goes before JWTs when both are there. The JWT of each identity is cached until shortly before its end,
/// with one fetch of an identity at a time; a source with a cache of its own is asked each time.
public final class AltcraftAuth: Sendable {
    /// The most identities whose JWTs are kept.
    static let maximumIdentities = 10_000

    private let rToken: Secret?
    private let source: (any AltcraftTokenSource)?
    private let checksSubject: Bool
    private let time: any TimeSource
    private let caches = Mutex(Caches())

    private struct Caches {
        var byIdentity: [AltcraftIdentity: (cache: AccessTokenCache, number: UInt64)] = [:]
        var count: UInt64 = 0
    }

    /// Makes a strategy.
    ///
    /// - Parameters:
    ///   - rToken: The role token; blank counts as none.
    ///   - source: The source of JWTs.
    ///   - checksSubject: Whether a JWT whose `sub` names another user than the one it was asked for is refused (542).
    ///     Altcraft knows no such rule: the claim `matching` alone names the profile.
    public convenience init(
        rToken: Secret? = nil,
        source: (any AltcraftTokenSource)? = nil,
        checksSubject: Bool = false
    ) {
        self.init(rToken: rToken, source: source, checksSubject: checksSubject, time: SystemTime())
    }

    /// Does the same with a clock of its own.
    package init(
        rToken: Secret? = nil,
        source: (any AltcraftTokenSource)? = nil,
        checksSubject: Bool = false,
        time: any TimeSource
    ) {
        self.rToken = rToken.flatMap { $0.isBlank ? nil : $0 }
        self.source = source
        self.checksSubject = checksSubject
        self.time = time
    }

    /// Whether all identities have one credential, so that a refusal concerns the account and not one user.
    public var isShared: Bool { rToken != nil }

    /// Returns the credential of an identity, and fetches it first when there is none.
    ///
    /// - Throws: `PushError.Code.unavailable` with the reason 540 (there is no JWT), 541 or 542 (it cannot be used), or
    ///   543 (neither kind of credential is set up).
    public func session(for identity: AltcraftIdentity) async throws(PushError) -> AltcraftSession {
        if let rToken {
            return AltcraftSession(
                authorization: Secret("Bearer rtoken@" + rToken.reveal()),
                matchingMode: "push_sub",
                tag: AltcraftMatching.hash(rToken.reveal()),
                generation: 0
            )
        }
        guard let source else { throw PushError(.unavailable, "there is neither an rToken nor a JWT", reason: "543") }
        guard source.cacheSpan > .zero else {
            let (jwt, matching) = try await fetch(identity, source)
            return Self.session(jwt, matching, 0)
        }
        let entry = try await cache(of: identity, source).token()
        do throws(AltcraftFault) {
            return Self.session(entry.token.value, try AltcraftMatching(jwt: entry.token.value), entry.generation)
        } catch {
            throw PushError(.unavailable, error.message, reason: "\(error.code)")
        }
    }

    /// Returns whether there is another credential after Altcraft refused one.
    ///
    /// There is none with a role token, and none when the source gives the same JWT again.
    func hasReplacement(of credential: AuthCredential, for identity: AltcraftIdentity) async -> Bool {
        guard !isShared, source != nil else { return false }
        let cache = caches.withLock { $0.byIdentity[identity]?.cache }
        await cache?.invalidate(generation: credential.generation)
        // Without a new JWT the refusal is final.
        guard let fresh = try? await session(for: identity) else { return false }
        return fresh.credential.headers != credential.headers
    }

    /// Returns the strategy of one identity, for any backend that uses HTTP; only requests to `address` carry the
    /// credential.
    public func strategy(for identity: AltcraftIdentity, at address: HTTPEndpoint) -> AltcraftIdentityAuth {
        AltcraftIdentityAuth(auth: self, identity: identity, address: address)
    }

    /// Forgets the JWTs of a device, or of all.
    func forget(device: String?) {
        caches.withLock { caches in
            if let device {
                caches.byIdentity = caches.byIdentity.filter { $0.key.device != device }
            } else {
                caches.byIdentity = [:]
            }
        }
    }

    /// Ends the strategy.
    func shutdown(grace: Duration) async { await source?.shutdown(grace: grace) }

    private static func session(_ jwt: Secret, _ matching: AltcraftMatching, _ generation: UInt64) -> AltcraftSession {
        AltcraftSession(
            authorization: Secret("Bearer " + jwt.reveal()),
            matchingMode: matching.mode,
            tag: matching.tag,
            generation: generation
        )
    }

    private func cache(of identity: AltcraftIdentity, _ source: any AltcraftTokenSource) -> AccessTokenCache {
        caches.withLock { caches in
            caches.count += 1
            if let known = caches.byIdentity[identity]?.cache {
                caches.byIdentity[identity]?.number = caches.count
                return known
            }
            if caches.byIdentity.count >= Self.maximumIdentities {
                // Half of them are removed at once, so that the oldest need not be looked for often.
                let middle = caches.byIdentity.values.map(\.number).sorted()[Self.maximumIdentities / 2]
                caches.byIdentity = caches.byIdentity.filter { $0.value.number > middle }
            }
            let cache = AccessTokenCache { [weak self, time] () async throws(PushError) in
                guard let self else { throw PushError(.unavailable, "the backend has ended", reason: "540") }
                let (jwt, matching) = try await fetch(identity, source)
                let left = matching.expiry.map { Duration.seconds(clamping: max(0, $0.timeIntervalSince(time.now))) }
                return AccessToken(jwt, lifetime: min(left ?? source.cacheSpan, source.cacheSpan))
            }
            caches.byIdentity[identity] = (cache, caches.count)
            return cache
        }
    }

    private func fetch(
        _ identity: AltcraftIdentity,
        _ source: any AltcraftTokenSource
    ) async throws(PushError) -> (Secret, AltcraftMatching) {
        guard let jwt = try await source.jwt(for: identity), !jwt.isBlank else {
            throw PushError(.unavailable, "there is no JWT for this user", reason: "540")
        }
        let trimmed = Secret(jwt.reveal().trimmingCharacters(in: .whitespacesAndNewlines))
        do throws(AltcraftFault) {
            let matching = try AltcraftMatching(jwt: trimmed)
            if checksSubject, let user = identity.user, let subject = matching.subject, subject != user {
                throw AltcraftFault(542, "the JWT is another user's: its sub is not the user it was asked for")
            }
            return (trimmed, matching)
        } catch {
            throw PushError(.unavailable, error.message, reason: "\(error.code)")
        }
    }
}

/// The credential of one identity for any HTTP backend; Altcraft's own backend also uses its matching mode.
public struct AltcraftIdentityAuth: AuthStrategy {
    let auth: AltcraftAuth
    let identity: AltcraftIdentity
    let address: HTTPEndpoint

    /// Whether the call goes to the address that may get the credential.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { endpoint == address }

    /// Returns the header field; throws for any other address.
    public func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        guard destination == address else {
            throw PushError(.unsupported, "Altcraft's credential is not for \(destination)")
        }
        return try await session().credential
    }

    /// Returns the credential with the matching mode that a request to Altcraft needs.
    public func session() async throws(PushError) -> AltcraftSession { try await auth.session(for: identity) }

    /// Decides about a refused credential: a JWT is fetched again, once; a role token has no replacement.
    public func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        guard status == 401 else { return .giveUp("Altcraft refused the credential (HTTP \(status)).") }
        guard await auth.hasReplacement(of: credential, for: identity) else {
            return .giveUp(auth.isShared ? "Check rtoken." : "Check who signs the JWT, and its key at the resource.")
        }
        return .retry
    }
}
