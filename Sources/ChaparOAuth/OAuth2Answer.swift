internal import Foundation
import ChaparCore

/// The meaning of a token endpoint's answer, by RFC 6749 section 5 and the additional answers of real servers.
enum OAuth2Answer {
    /// A new credential.
    case credential(OAuthCredential)
    /// The refresh token is refused: the credential is removed.
    case refused(OAuth2Error)
    /// An operator must act; the credential stays.
    case misconfigured(OAuth2Error)
    /// A later attempt may succeed.
    case transient(OAuth2Error)

    private static let operatorErrors: Set<String> = [
        "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_request",
    ]

    init(_ answer: HTTPAnswer, askedAt: Date, now: Date, replacing previous: OAuthCredential) {
        let json = try? JSONValue(parsing: answer.body)
        switch answer.status {
        case 200..<300:
            do throws(OAuth2Error) {
                let new = try OAuthCredential(json: json ?? .null, createdAt: askedAt, replacing: previous)
                self = .credential(new)
            } catch {
                self = error == .unsupportedTokenType ? .misconfigured(error) : .transient(error)
            }
        case 408, 425, 429, 500...:
            let after = answer.retryAfter(now: now)
            self = .transient(.refreshFailed(cause: "the token endpoint answered \(answer.status)", retryAfter: after))
        default:
            let error = json?["error"]?.stringValue.map { String($0.prefix(64)) }
            let sentence = json?["error_description"]?.stringValue.map { String($0.prefix(200)) }
            if error == "invalid_grant" || answer.status == 401 && error == nil {
                self = .refused(.reauthorizationRequired(error: error, description: sentence))
            } else if let error, Self.operatorErrors.contains(error) {
                self = .misconfigured(.misconfigured(status: answer.status, error: error))
            } else {
                self = .misconfigured(.misconfigured(status: answer.status, error: nil))
            }
        }
    }
}
