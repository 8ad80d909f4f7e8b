extension HTTPFailure {
    /// Returns the outcome of a message whose call got no answer; all plugins use this rule.
    ///
    /// The outcome is unknown when the platform can have acted on the call. Otherwise it is a temporary refusal. It is
    /// a lasting refusal if the cause stays until an operator acts: a TLS alert about a certificate, a credential that
    /// cannot be made, a call that HTTP forbids. While the service that issues the credential gives none, the whole
    /// backend pauses.
    ///
    /// - Parameters:
    ///   - isRepeatHarmful: Whether a second copy does harm.
    ///   - remark: A sentence to add to an unknown outcome.
    /// - Returns: The outcome of every message of the call.
    public func outcome(isRepeatHarmful: Bool = false, remark: String? = nil) -> DeliveryOutcome {
        guard stage == .notProcessed else {
            let words = remark.map { "\(detail); \($0)" } ?? detail
            return .unknown(
                UnknownOutcome(reason: cause.reason, detail: words, isRepeatHarmful: isRepeatHarmful)
            )
        }
        let (kind, advice): (Refusal.Kind, Refusal.Advice) =
            switch cause {
            // An alert about a certificate stays until an operator acts; a handshake that broke off does not.
            case .tls where isAboutCertificate: (.account, .parkBackend)
            case .protocolNotNegotiated, .credentials: (.account, .parkBackend)
            case .invalidCall, .forbiddenAddress: (.message, .never)
            // Every message meets the same until the service that issues the credential answers again.
            case .credentialsUnavailable: (.platform, .slowBackend(after: retryAfter))
            case .tls, .connect, .proxy, .refusedStream, .goAway, .reset, .connectionLost, .deadline, .queueFull,
                .cancelled, .badAnswer:
                (.platform, .retry(after: nil))
            }
        return .refused(Refusal(kind, reason: cause.reason, detail: detail, advice: advice))
    }

    /// The error of a call that is no send and has no answer: temporary, unless its cause stays.
    public var pushError: PushError {
        let code: PushError.Code =
            switch cause {
            case .credentials: .credentialsRefused
            case .invalidCall: .invalidRequest
            default: .unavailable
            }
        return PushError(code, detail, reason: cause.reason, retryAfter: retryAfter)
    }

    /// Whether a handshake failed for a certificate.
    public var isAboutCertificate: Bool {
        cause == .tls && detail.lowercased().contains("certificate")
    }
}
