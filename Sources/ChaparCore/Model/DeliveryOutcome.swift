public import Foundation

/// The outcome of one attempt for one recipient.
///
/// A batch never succeeds or fails as a whole.
public enum DeliveryOutcome: Sendable, Hashable {
    /// The platform took the message. It does not say that a device showed it.
    case accepted(Acceptance)
    /// The platform, or the plugin on its behalf, refused; ``Refusal/advice`` says whether trying again makes sense.
    case refused(Refusal)
    /// Sent, at least in part, and no usable answer came: it may have been delivered.
    case unknown(UnknownOutcome)
}

/// A message that the platform took.
public struct Acceptance: Sendable, Hashable {
    /// The platform's id of the message: `apns-id`, an FCM message name.
    ///
    /// Nil when the platform gave no id; an empty id counts as none.
    public var platformID: String? {
        didSet { if platformID == "" { platformID = nil } }
    }
    /// A second id of the message.
    ///
    /// Some platforms give one, such as `apns-unique-id` of Apple's development host; with others ``MessageRevoker``
    /// takes the message back by it.
    public var trackingID: String?
    /// Whether the answer stands for an audience whose size the platform did not tell (topic, broadcast).
    public var isForAudience: Bool
    /// Whether the platform's real verdict comes later, as a receipt.
    public var isVerdictPending: Bool
    /// Whether nothing was sent because the notification is a dry run.
    public var isDryRun: Bool
    /// The HTTP status, when there was one; without it the attempt shows null.
    public var status: Int?

    /// Makes an acceptance.
    public init(
        platformID: String? = nil,
        trackingID: String? = nil,
        isForAudience: Bool = false,
        isVerdictPending: Bool = false,
        isDryRun: Bool = false,
        status: Int? = nil
    ) {
        self.platformID = platformID == "" ? nil : platformID
        self.trackingID = trackingID
        self.isForAudience = isForAudience
        self.isVerdictPending = isVerdictPending
        self.isDryRun = isDryRun
        self.status = status
    }
}

/// A refusal by the platform, or by the plugin on its behalf: whose fault it is, the reason, and what to do next.
public struct Refusal: Sendable, Hashable {
    /// The cause of a refusal.
    ///
    /// It decides who must act: the device's owner, the caller, the operator, or no one.
    @nonexhaustive
    public enum Kind: String, Sendable, CaseIterable {
        /// The device token: it is dead, malformed or of another app, or the device receives too many messages.
        case token
        /// The message: too large, a bad header, a wrong combination. The caller must change it.
        case message
        /// The account: credentials, topic, quota of the project. An operator must act.
        case account
        /// The platform or the connection to it: overload, outage or a connection failure.
        ///
        /// Only waiting helps.
        case platform
    }

    /// The next action that a refusal allows.
    @nonexhaustive
    public enum Advice: Sendable, Hashable {
        /// Do not retry: the platform will never take this message for this recipient.
        case never
        /// Retry this delivery only.
        ///
        /// The duration is the shortest pause that the platform asked for; nil when it asked for none.
        case retry(after: Duration?)
        /// Try again later, and send nothing else to this recipient until then.
        case slowRecipient(after: Duration?)
        /// Try again later, and send nothing through this backend until then.
        ///
        /// The duration is the pause that the platform asked for. With nil, single messages test the platform, at
        /// intervals from a second to a minute. If the platform named no pause, a plugin must give nil and not a value
        /// of its own, since one unlucky message would then stop all others.
        case slowBackend(after: Duration?)
        /// An operator must correct the backend.
        ///
        /// It is parked: the message waits, and single messages test the backend, at intervals from a second to 15
        /// minutes.
        case parkBackend
    }

    /// A device token that the platform declared dead.
    public struct Invalidation: Sendable, Hashable {
        /// The time from which the token is dead: the time that the platform gave, or the start of the request when it
        /// gave none.
        ///
        /// A registration of the token after this time stays valid.
        public var asOf: Date
        /// Whether this refusal alone is enough to call the token dead.
        ///
        /// With true the token is dead at every backend of its service, and no other backend is tried. It is false for
        /// reasons that a wrong configuration could cause as well (APNs `BadDeviceToken`, text that never was a token):
        /// then the other backends of the service are tried, and the token is dead only if all of them refuse it.
        /// Either way, tokens refused in large numbers are quarantined until an operator decides: the guard counts
        /// certain refusals under `certain_share`, others under the lower `share`.
        public var isCertain: Bool

        /// Makes an invalidation.
        public init(asOf: Date, isCertain: Bool) {
            self.asOf = asOf
            self.isCertain = isCertain
        }
    }

    /// A limit on the retries after a refusal, where it is lower than the usual one.
    public struct RetryLimit: Sendable, Hashable {
        /// The most attempts of the delivery, including earlier ones and those at other backends.
        public var attempts: Int
        /// The longest time since the delivery's first attempt.
        public var span: Duration

        /// Makes a limit.
        public init(attempts: Int, span: Duration) {
            self.attempts = attempts
            self.span = span
        }
    }

    /// Whose fault it is.
    public var kind: Kind
    /// The platform's reason code (`Unregistered`), or Chapar's when the platform gave none (`connect_failed`).
    ///
    /// It has a bounded number of values, so it can be a metric's label; it never holds a token.
    public var reason: String
    /// A sentence for people with the likely fix.
    ///
    /// Never a token, key or payload.
    public var detail: String?
    /// The HTTP status, when there was one.
    public var status: Int?
    /// The next action that it allows.
    public var advice: Advice
    /// The invalidation of the device token; nil unless it is dead.
    public var invalidation: Invalidation?
    /// The limit on ``Advice/retry(after:)``; nil for the rules and the time to live alone.
    public var retryLimit: RetryLimit?

    /// Makes a refusal.
    public init(
        _ kind: Kind,
        reason: String,
        detail: String? = nil,
        status: Int? = nil,
        advice: Advice,
        invalidation: Invalidation? = nil,
        retryLimit: RetryLimit? = nil
    ) {
        self.kind = kind
        self.reason = reason
        self.detail = detail
        self.status = status
        self.advice = advice
        self.invalidation = invalidation
        self.retryLimit = retryLimit
    }
}

/// No usable answer after something was sent.
public struct UnknownOutcome: Sendable, Hashable {
    /// The reason why no answer came: `deadline`, `connection_lost`, `stream_reset`.
    ///
    /// It has a bounded number of values, so it can be a metric's label.
    public var reason: String
    /// A sentence for people.
    public var detail: String?
    /// Whether a second copy can do harm (a call that rings twice).
    ///
    /// Then the message is not sent again unless the route says so.
    public var isRepeatHarmful: Bool
    /// The id that the message has at the platform if it was accepted, where the sender chose that id; nil otherwise.
    ///
    /// ``PushBackend/tracking`` looks the message up by it.
    public var platformID: String?

    /// Makes an unknown outcome.
    public init(reason: String, detail: String? = nil, isRepeatHarmful: Bool = false, platformID: String? = nil) {
        self.reason = reason
        self.detail = detail
        self.isRepeatHarmful = isRepeatHarmful
        self.platformID = platformID
    }
}

extension Refusal {
    /// The reason of a refusal by a platform that keeps its own list of devices and does not have this one.
    ///
    /// If the gateway has yet to register the device there, it retries the message afterwards.
    public static let notRegistered = "not_registered"
}

extension DeliveryOutcome {
    /// Whether the platform took the message.
    public var isAccepted: Bool { if case .accepted = self { true } else { false } }

    /// Returns the acceptance.
    ///
    /// - Throws: ``DeliveryFailure`` for a refusal and for an unknown outcome. After an unknown outcome the message may
    ///   have been delivered.
    public func get() throws(DeliveryFailure) -> Acceptance {
        switch self {
        case .accepted(let acceptance): return acceptance
        case .refused(let refusal): throw .refused(refusal)
        case .unknown(let unknown): throw .unknown(unknown)
        }
    }

    /// Returns the token to delete, when the message went to a token that the platform declared dead for certain.
    ///
    /// It is also nil when a wrong environment or app could have caused the refusal: see
    /// ``Refusal/Invalidation/isCertain``.
    ///
    /// - Parameter recipient: The recipient that the message was sent to.
    /// - Returns: The token of `recipient`; nil for any other recipient or outcome.
    public func deadToken(of recipient: Recipient) -> DeviceToken? {
        guard case .refused(let refusal) = self, refusal.invalidation?.isCertain == true,
            case .token(let token) = recipient
        else { return nil }
        return token
    }
}

/// An outcome that is no acceptance, as an error for code that needs one.
public enum DeliveryFailure: LocalizedError, Hashable, CustomStringConvertible {
    /// The platform, or the plugin on its behalf, refused.
    case refused(Refusal)
    /// No usable answer came: the message may have been delivered.
    case unknown(UnknownOutcome)

    /// The reason and the sentence for people.
    public var description: String {
        switch self {
        case .refused(let refusal): "refused: \(Self.words(refusal.reason, refusal.detail))"
        case .unknown(let unknown):
            "no answer, it may have been delivered: \(Self.words(unknown.reason, unknown.detail))"
        }
    }

    private static func words(_ reason: String, _ detail: String?) -> String {
        detail.map { "\(reason), \($0)" } ?? reason
    }

    /// The description.
    public var errorDescription: String? { description }
}
