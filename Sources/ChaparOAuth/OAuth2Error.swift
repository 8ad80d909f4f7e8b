import ChaparCore

/// The reason why a request got no access token, or why its token did not help.
@nonexhaustive
public enum OAuth2Error: Error, Sendable, Hashable {
    /// There is no initial credential: an operator must put one into the store.
    case missingCredential
    /// The server refused the refresh token, with this error code and sentence: the user must log in again.
    case reauthorizationRequired(error: String?, description: String?)
    /// The token endpoint could not be used for now; the credential is kept.
    case refreshFailed(cause: String, retryAfter: Duration?)
    /// The token was refreshed too often in a short time: something keeps replacing it, or refuses everything.
    case excessiveRefresh(retryAfter: Duration)
    /// The request was refused again with a new token, with this status.
    case rejectedAfterRefresh(status: Int)
    /// The token endpoint does not take requests of this kind; the credential is kept, an operator must act.
    case misconfigured(status: Int, error: String?)
    /// The answer lacks the key, or has it of another type; an empty key stands for the answer as a whole.
    case malformedResponse(key: String)
    /// The server issued something other than a bearer token.
    case unsupportedTokenType
    /// The store of credentials failed.
    case storeFailed(String)
    /// The stored credential is encrypted with a key that is not available: an operator must provide the key, or log in
    /// again.
    case credentialSealed(String)
    /// The caller was cancelled.
    case cancelled

    /// A stable word for programs.
    public var code: String {
        switch self {
        case .missingCredential: "missing_credential"
        case .reauthorizationRequired: "reauthorization_required"
        case .refreshFailed: "refresh_failed"
        case .excessiveRefresh: "excessive_refresh"
        case .rejectedAfterRefresh: "rejected_after_refresh"
        case .misconfigured: "misconfigured"
        case .malformedResponse: "malformed_response"
        case .unsupportedTokenType: "unsupported_token_type"
        case .storeFailed: "store_failed"
        case .credentialSealed: "credential_sealed"
        case .cancelled: "cancelled"
        }
    }

    /// Whether the same request may work later without any action.
    public var isRetryable: Bool {
        switch self {
        case .refreshFailed, .excessiveRefresh, .malformedResponse, .storeFailed, .cancelled: true
        case .missingCredential, .reauthorizationRequired, .rejectedAfterRefresh, .misconfigured, .unsupportedTokenType,
            .credentialSealed:
            false
        }
    }
}

extension OAuth2Error: CustomStringConvertible {
    /// A sentence for people: never a token.
    public var description: String {
        switch self {
        case .missingCredential:
            "there is no OAuth credential, or the configured one is used up: log in again and configure or store the new one"
        case .reauthorizationRequired(let error, let description):
            "the token endpoint refused the refresh token (\(error ?? "401")\(description.map { ": \($0)" } ?? "")): "
                + "log in again and store the new credential"
        case .refreshFailed(let cause, _): "the access token could not be refreshed: \(cause)"
        case .excessiveRefresh:
            "the access token was refreshed too often: the platform refuses new tokens, or others replace them"
        case .rejectedAfterRefresh(let status): "the platform answered \(status) also to a new access token"
        case .misconfigured(let status, let error):
            "the token endpoint answered \(status)\(error.map { " (\($0))" } ?? ""): check its address, client_id and client_auth"
        case .malformedResponse(let key):
            key.isEmpty
                ? "the token endpoint's answer is no JSON object"
                : "the credential's \(key) is missing or of a wrong type"
        case .unsupportedTokenType: "the token endpoint handed out something else than a bearer token"
        case .credentialSealed(let reason): reason
        case .storeFailed(let reason): "the store of credentials failed: \(reason)"
        case .cancelled: "the caller was cancelled"
        }
    }

    /// Returns the error with the time that is left of the pause, where it names one.
    func waiting(_ left: Duration) -> OAuth2Error {
        switch self {
        case .refreshFailed(let cause, _): .refreshFailed(cause: cause, retryAfter: left)
        case .excessiveRefresh: .excessiveRefresh(retryAfter: left)
        default: self
        }
    }

    /// The error in the form that a strategy throws.
    var pushError: PushError {
        switch self {
        case .refreshFailed(_, let after): PushError(.unavailable, description, reason: code, retryAfter: after)
        case .excessiveRefresh(let after): PushError(.unavailable, description, reason: code, retryAfter: after)
        case .malformedResponse, .storeFailed, .cancelled: PushError(.unavailable, description, reason: code)
        case .missingCredential, .reauthorizationRequired, .rejectedAfterRefresh, .misconfigured, .unsupportedTokenType,
            .credentialSealed:
            PushError(.credentialsRefused, description, reason: code)
        }
    }
}
