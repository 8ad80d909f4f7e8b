/// Registration tokens that choose their own answer, for demonstrations without any set-up.
///
/// The answers are those of the direct API; the universal one calls the first three invalid.
///
/// | prefix | answer |
/// | --- | --- |
/// | `sim-dead-` | 404 `NOT_FOUND` |
/// | `sim-bad-` | 400 `INVALID_ARGUMENT` that names the token |
/// | `sim-unreg-` | 404 `UNREGISTERED` |
/// | `sim-429-` | 429 `TOO_MANY_REQUESTS` once for each token, then 200 |
/// | `sim-503-` | 503 once for each token, then 200 |
/// | `sim-universal-` | a token of the universal SDK: the direct API answers 200 and delivers nothing |
@nonexhaustive
public enum RuStoreMagicToken: String, Sendable, CaseIterable {
    /// 404 `NOT_FOUND`.
    case dead = "sim-dead-"
    /// 400 with Firebase's words.
    case malformed = "sim-bad-"
    /// 404 `UNREGISTERED`.
    case unregistered = "sim-unreg-"
    /// 429 once, then 200.
    case quotaOnce = "sim-429-"
    /// 503 once, then 200.
    case unavailableOnce = "sim-503-"
    /// 200 that delivers nothing.
    case universal = "sim-universal-"

    /// Finds the magic of a token; nil for an ordinary one.
    public init?(_ token: String) {
        guard token.hasPrefix("sim-"), let magic = Self.allCases.first(where: { token.hasPrefix($0.rawValue) }) else {
            return nil
        }
        self = magic
    }
}
