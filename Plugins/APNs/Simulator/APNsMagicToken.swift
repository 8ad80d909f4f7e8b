internal import Foundation
internal import ChaparSimulator

/// Device tokens that choose their own answer, for demonstrations without any set-up.
///
/// | prefix | answer |
/// | --- | --- |
/// | `bad0` | 400 `BadDeviceToken` |
/// | `0400` | 400 `DeviceTokenNotForTopic` |
/// | `0410` | 410 `Unregistered`, since now |
/// | `0429` | 429 `TooManyRequests` once for each token, then 200 |
/// | `0500` | 500 `InternalServerError`, always |
/// | `0503` | 503 `ServiceUnavailable` once for each token, then 200; with `Retry-After` when that is set |
/// | `5109` | 200, but slowly |
@nonexhaustive
public enum APNsMagicToken: String, Sendable, CaseIterable {
    /// 400 `BadDeviceToken`.
    case bad = "bad0"
    /// 400 `DeviceTokenNotForTopic`.
    case otherTopic = "0400"
    /// 410 `Unregistered`.
    case unregistered = "0410"
    /// 429 `TooManyRequests` once, then 200.
    case tooManyOnce = "0429"
    /// 500 `InternalServerError`.
    case serverError = "0500"
    /// 503 `ServiceUnavailable` once, then 200.
    case unavailableOnce = "0503"
    /// A slow 200.
    case slow = "5109"

    private static let byPrefix = Dictionary(uniqueKeysWithValues: allCases.map { ($0.rawValue, $0) })

    /// Finds the magic of a device token; nil for an ordinary one.
    public init?(_ token: String) {
        guard let magic = Self.byPrefix[String(token.prefix(4))] else { return nil }
        self = magic
    }
}

extension APNsState {
    /// Throws the refusal of a magic token, or returns the delay of its answer.
    mutating func answer(
        to magic: APNsMagicToken,
        token: String,
        now: Date,
        options: APNsRuleOptions
    ) throws(APNsRefusal) -> Duration {
        switch magic {
        case .bad: throw .badDeviceToken
        case .otherTopic: throw .deviceTokenNotForTopic
        case .unregistered: throw .unregistered(since: now)
        case .tooManyOnce:
            if magicSeen.insert(token) { throw .tooManyRequests }
        case .serverError: throw .internalServerError
        case .unavailableOnce:
            if magicSeen.insert(token) { throw .serviceUnavailable }
        case .slow: return options.magicDelay
        }
        return .zero
    }
}
