/// A call to a platform, other than a send, gave no usable answer.
public struct PushError: Error, Sendable, CustomStringConvertible {
    /// What the caller can do next.
    ///
    /// A struct, so that a new code breaks no plugin.
    public struct Code: Hashable, Sendable {
        /// The word that ends problem `type` addresses.
        public let rawValue: String
        /// Makes a code.
        public init(rawValue: String) { self.rawValue = rawValue }
        /// Retry after ``PushError/retryAfter``, or after a backoff when it is nil.
        public static let unavailable = Code(rawValue: "backend-unavailable")
        /// As ``unavailable``, but the quota is ours: slow the whole backend.
        public static let rateLimited = Code(rawValue: "rate-limited")
        /// The platform refused our credentials: an operator must act, so do not retry.
        public static let credentialsRefused = Code(rawValue: "credentials-refused")
        /// The request is wrong and stays wrong.
        public static let invalidRequest = Code(rawValue: "invalid-request")
        /// The platform cannot do this.
        public static let unsupported = Code(rawValue: "unsupported")
        /// The platform's answer could not be parsed.
        public static let badAnswer = Code(rawValue: "bad-answer")
        /// Sent, at least in part, and no answer came; a repeat could do it twice, so it is not repeated by itself.
        public static let unknownOutcome = Code(rawValue: "unknown-outcome")
    }

    /// What the caller can do next.
    public let code: Code
    /// A sentence for people.
    ///
    /// Never a token, key or payload.
    public let message: String
    /// The platform's reason code, when it gave one.
    public let reason: String?
    /// How long the platform asked to wait.
    public let retryAfter: Duration?

    /// Makes an error.
    public init(_ code: Code, _ message: String, reason: String? = nil, retryAfter: Duration? = nil) {
        self.code = code
        self.message = message
        self.reason = reason
        self.retryAfter = retryAfter
    }

    /// The code and the sentence, for logs.
    public var description: String { "\(code.rawValue): \(message)" }
}

extension PushError {
    /// The error of a call that is no send, where a platform's refusals of both are read from one table.
    ///
    /// - Parameters:
    ///   - refusal: What a send would have come to.
    ///   - words: What is said when the refusal says nothing itself.
    ///   - retryAfter: How long the platform asked to wait.
    public init(_ refusal: Refusal, words: String, retryAfter: Duration? = nil) {
        let code: Code =
            switch refusal.advice {
            case .slowBackend: .rateLimited
            case .retry, .slowRecipient: .unavailable
            case .parkBackend: .credentialsRefused
            case .never: .invalidRequest
            }
        self.init(code, refusal.detail ?? words, reason: refusal.reason, retryAfter: retryAfter)
    }
}
