internal import Crypto
package import Foundation
internal import ChaparDelivery
package import ChaparCore
internal import Synchronization

/// The code in the dashboard's link, and the token that a page gets in exchange.
///
/// `serve` makes the code for its operator at the start; it is valid once and for a minute. The token has the rights
/// of a key with the scope `read`, for half a day at most and not after a restart. Both are valid only while the first
/// key is. Only their hashes are kept.
package final class DashboardAccess: Sendable {
    /// The lifetime of a code, in seconds.
    package static let codeLifetime: TimeInterval = 60
    /// The lifetime of a token, in seconds.
    static let tokenLifetime: TimeInterval = 12 * 3600

    private struct Entry {
        let hash: [UInt8]
        let end: Date

        init(_ secret: String, until end: Date) {
            hash = Array(SHA256.hash(data: Array(secret.utf8)))
            self.end = end
        }

        /// Whether a text is this secret, and not expired.
        func matches(_ presented: some StringProtocol, at now: Date) -> Bool {
            Keyring.isEqual(SHA256.hash(data: Array(presented.utf8)), hash) && now < end
        }
    }

    private struct State {
        var code: Entry?
        var token: Entry?
    }

    private let state = Mutex(State())

    /// Makes a code, which replaces the last one; the time is steady.
    package func makeCode(at now: Date) -> Secret {
        let code = Self.random("chc_")
        state.withLock { $0.code = Entry(code, until: now.addingTimeInterval(Self.codeLifetime)) }
        return Secret(code)
    }

    /// Returns a token for the code, once; nil for any other text.
    func exchange(_ presented: String, at now: Date) -> Secret? {
        state.withLock { state in
            guard let code = state.code, code.matches(presented, at: now) else { return nil }
            let token = Self.random("cht_")
            state.code = nil
            state.token = Entry(token, until: now.addingTimeInterval(Self.tokenLifetime))
            return Secret(token)
        }
    }

    /// Invalidates the code and the token.
    func end() { state.withLock { $0 = State() } }

    /// Whether a text is the valid token.
    func opens(_ presented: Substring, at now: Date) -> Bool {
        state.withLock { $0.token?.matches(presented, at: now) ?? false }
    }

    /// Returns 256 random bits after a prefix.
    private static func random(_ prefix: String) -> String {
        var random = SystemRandomNumberGenerator()
        return prefix + Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }
}
