internal import Crypto
package import Foundation
package import PushCore
internal import Synchronization

/// The code in the dashboard's link, and the token that a page gets for it.
///
/// `serve` makes the code for its operator at the start; it works once and for ten minutes. The token opens what a key
/// with the scope `read` does, for half a day at most and not after a restart. Both count only while the first key
/// does. Of either only a hash is kept.
package final class DashboardAccess: Sendable {
    /// How long a code works.
    package static let codeLifetime: TimeInterval = 600
    /// How long a token works.
    static let tokenLifetime: TimeInterval = 12 * 3600

    private struct Entry {
        let hash: [UInt8]
        let end: Date

        init(_ secret: String, until end: Date) {
            hash = Array(SHA256.hash(data: Array(secret.utf8)))
            self.end = end
        }

        /// Whether it is this secret, and in time.
        func matches(_ presented: some StringProtocol, at now: Date) -> Bool {
            Keyring.isEqual(SHA256.hash(data: Array(presented.utf8)), hash) && now < end
        }
    }

    private struct State {
        var code: Entry?
        var token: Entry?
    }

    private let state = Mutex(State())

    /// Makes a code, in the place of the last one; the time is steady.
    package func makeCode(at now: Date) -> Secret {
        let code = Self.random("chc_")
        state.withLock { $0.code = Entry(code, until: now.addingTimeInterval(Self.codeLifetime)) }
        return Secret(code)
    }

    /// Gives a token for the code, once; nil for any other text.
    func exchange(_ presented: String, at now: Date) -> Secret? {
        state.withLock { state in
            guard let code = state.code, code.matches(presented, at: now) else { return nil }
            let token = Self.random("cht_")
            state.code = nil
            state.token = Entry(token, until: now.addingTimeInterval(Self.tokenLifetime))
            return Secret(token)
        }
    }

    /// Ends the code and the token.
    func end() { state.withLock { $0 = State() } }

    /// Whether a text is the token.
    func opens(_ presented: Substring, at now: Date) -> Bool {
        state.withLock { $0.token?.matches(presented, at: now) ?? false }
    }

    /// 256 random bits after a mark.
    private static func random(_ mark: String) -> String {
        var random = SystemRandomNumberGenerator()
        return mark + Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }
}
