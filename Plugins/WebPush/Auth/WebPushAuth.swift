internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The VAPID tokens of a backend: one for each origin and key, used for half of its life.
///
/// Bounded by ``capacity``: a token that was dropped for another is signed anew when its origin is used again.
final class WebPushAuth: Sendable {
    /// The most tokens that are kept.
    static let capacity = 1_024

    /// The age, in seconds, up to which a refused token stays in use.
    ///
    /// Without it, refusals of single subscriptions would have a new token signed for each message.
    static let shortestLife: TimeInterval = 10

    private struct Place: Hashable {
        let origin: HTTPEndpoint
        let key: Int
    }

    private struct Token {
        let value: String
        let madeAt: Date
    }

    private let keys: [WebPushKey]
    private let publicKeys: [String]
    private let subject: String
    private let lifetime: Duration
    private let tokens = Mutex<[Place: Token]>([:])

    init(keys: [WebPushKey], subject: String, lifetime: Duration) {
        self.keys = keys
        publicKeys = keys.map(\.publicKey)
        self.subject = subject
        self.lifetime = lifetime
    }

    /// The number of keys.
    var count: Int { keys.count }

    /// Returns the value of `authorization` for a request to an origin under a key.
    ///
    /// - Parameters:
    ///   - origin: Scheme, host and port of the endpoint.
    ///   - key: The index of the key.
    ///   - refusedSince: A token made before this time was refused, so it is signed anew; nil where none was.
    ///   - now: The time.
    /// - Returns: The scheme, the token and the public key.
    /// - Throws: A failure of the credential when the token cannot be signed.
    func authorization(
        for origin: HTTPEndpoint,
        key: Int,
        refusedSince: Date? = nil,
        now: Date
    ) throws(HTTPFailure) -> String {
        let place = Place(origin: origin, key: key)
        let token = try tokens.withLock { tokens throws(HTTPFailure) in
            if let known = tokens[place] {
                let age = now.timeIntervalSince(known.madeAt)
                let isRefused = refusedSince.map { known.madeAt <= $0 } ?? false
                let longest = isRefused ? Self.shortestLife : lifetime.inSeconds / 2
                if age >= 0, age < longest { return known.value }
            }
            let made = try sign(origin, keys[key], now)
            if tokens.count >= Self.capacity, tokens[place] == nil { tokens.remove(at: tokens.startIndex) }
            tokens[place] = Token(value: made, madeAt: now)
            return made
        }
        return "vapid t=\(token),k=\(publicKeys[key])"
    }

    private func sign(_ origin: HTTPEndpoint, _ key: WebPushKey, _ now: Date) throws(HTTPFailure) -> String {
        var claims = JSONWriter(capacity: 160)
        claims.beginObject()
        claims.field("aud", "\(origin)")
        claims.field(
            "exp",
            Int64(clamping: now.timeIntervalSince1970).adding(clamping: Int64(clamping: lifetime.inSeconds))
        )
        claims.field("sub", subject)
        claims.endObject()
        do {
            let header = Array(#"{"typ":"JWT","alg":"ES256"}"#.utf8)
            return try JSONWebToken.compact(header: header, claims: claims.bytes) { try key.signature(of: $0) }
        } catch {
            throw HTTPFailure(.notProcessed, .credentials, "the VAPID token cannot be signed")
        }
    }
}
