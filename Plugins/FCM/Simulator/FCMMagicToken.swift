/// Registration tokens that choose their own answer, for demonstrations without any set-up.
///
/// | prefix | answer |
/// | --- | --- |
/// | `sim-unregistered` | 404 `UNREGISTERED` |
/// | `sim-mismatch` | 403 `SENDER_ID_MISMATCH` |
/// | `sim-badtoken` | 400 `INVALID_ARGUMENT` that names the token |
/// | `sim-quota1` | 429 `QUOTA_EXCEEDED` of the device once for each token, then 200 |
/// | `sim-503` | 503 `UNAVAILABLE` once for each token, then 200 |
/// | `sim-apnsauth` | 401 `THIRD_PARTY_AUTH_ERROR` |
/// | `sim-slow5` | 200, but slowly |
@nonexhaustive
public enum FCMMagicToken: String, Sendable, CaseIterable {
    /// 404 `UNREGISTERED`.
    case unregistered = "sim-unregistered"
    /// 403 `SENDER_ID_MISMATCH`.
    case mismatch = "sim-mismatch"
    /// 400 `INVALID_ARGUMENT` that names the token.
    case malformed = "sim-badtoken"
    /// 429 once, then 200.
    case quotaOnce = "sim-quota1"
    /// 503 once, then 200.
    case unavailableOnce = "sim-503"
    /// 401 `THIRD_PARTY_AUTH_ERROR`.
    case brokenAppleKey = "sim-apnsauth"
    /// A slow 200.
    case slow = "sim-slow5"

    /// Finds the magic of a token; nil for an ordinary one.
    public init?(_ token: String) {
        guard token.hasPrefix("sim-"), let magic = Self.allCases.first(where: { token.hasPrefix($0.rawValue) }) else {
            return nil
        }
        self = magic
    }
}
