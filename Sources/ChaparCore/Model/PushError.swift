/// The error of a call to a platform, other than a send, that gave no usable answer.
public struct PushError: Error, Sendable, CustomStringConvertible {
    /// The kind of error, which decides what the caller can do next.
    ///
    /// It is a struct, so that a new code breaks no plugin.
    public struct Code: Hashable, Sendable {
        /// The last word of a problem's `type` address.
        public let rawValue: String
        /// Makes a code.
        public init(rawValue: String) { self.rawValue = rawValue }
        /// Retry after ``PushError/retryAfter``, or after a backoff when it is nil.
        public static let unavailable = Code(rawValue: "backend-unavailable")
        /// Like ``unavailable``, but our quota is used up: slow the whole backend down.
        public static let rateLimited = Code(rawValue: "rate-limited")
        /// The platform refused our credentials: an operator must act, so do not retry.
        public static let credentialsRefused = Code(rawValue: "credentials-refused")
        /// The request is wrong and stays wrong.
        public static let invalidRequest = Code(rawValue: "invalid-request")
        /// The platform cannot do this.
        public static let unsupported = Code(rawValue: "unsupported")
        /// The platform's answer could not be parsed.
        public static let badAnswer = Code(rawValue: "bad-answer")
        /// The call was sent, at least in part, and no answer came.
        ///
        /// It is not retried automatically, since the work could then be done twice.
        public static let unknownOutcome = Code(rawValue: "unknown-outcome")
    }

    /// The kind of error, which decides what the caller can do next.
    public let code: Code
    /// A sentence for people.
    ///
    /// Never a token, key or payload.
    public let message: String
    /// The platform's reason code, when it gave one.
    public let reason: String?
    /// The pause that the platform asked for.
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
    /// Makes the error of a call that sends no message, from a refusal, for plugins that have one table for both.
    ///
    /// - Parameters:
    ///   - refusal: The refusal that a message would have got for the same answer.
    ///   - words: The message when the refusal has no detail.
    ///   - retryAfter: The pause that the platform asked for.
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
