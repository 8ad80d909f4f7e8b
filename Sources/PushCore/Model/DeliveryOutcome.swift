public import Foundation

/// What became of one recipient of one attempt.
///
/// Never a bare truth value, never one error for a whole batch.
public enum DeliveryOutcome: Sendable, Hashable {
    /// The platform took the message. It does not say that a device showed it.
    case accepted(Acceptance)
    /// The platform, or the plugin on its behalf, refused; ``Refusal/advice`` says whether trying again makes sense.
    case refused(Refusal)
    /// Sent, at least in part, and no usable answer came: it may have been delivered.
    case unknown(UnknownOutcome)
}

/// A platform's yes.
public struct Acceptance: Sendable, Hashable {
    /// The platform's id of the message: `apns-id`, an FCM message name.
    ///
    /// Nil when it gave none; an empty one counts as none.
    public var platformID: String? {
        didSet { if platformID == "" { platformID = nil } }
    }
    /// A second id that some platforms give, such as `apns-unique-id` of Apple's development host.
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

/// A platform's no: whose fault it is, the platform's word for it, and what to do next.
public struct Refusal: Sendable, Hashable {
    /// Whose fault a refusal is.
    ///
    /// Decides who must act: the device's owner, the caller, the operator, or none.
    @nonexhaustive
    public enum Kind: String, Sendable, CaseIterable {
        /// The device token: it is dead, malformed or of another app, or the device gets too much.
        case token
        /// The message: too large, a bad header, a wrong combination. The caller must change it.
        case message
        /// The account: credentials, topic, quota of the project. An operator must act.
        case account
        /// The platform or the way to it: overload, outage, connection trouble. Nobody but time helps.
        case platform
    }

    /// What to do next.
    @nonexhaustive
    public enum Advice: Sendable, Hashable {
        /// The same message to the same recipient will never be taken.
        case never
        /// Try again: this delivery only. The span is the platform's own floor, nil when it gave none.
        case retry(after: Duration?)
        /// Try again later, and send nothing else to this recipient until then.
        case slowRecipient(after: Duration?)
        /// Try again later, and send nothing through this backend until then.
        ///
        /// The span is what the platform asked for; with nil, single messages find out when it takes one again, from a
        /// second to a minute apart. A span that a plugin makes up stops all messages for one that may have had bad
        /// luck: give nil.
        case slowBackend(after: Duration?)
        /// An operator must mend the backend. It is parked, and single messages find out when it is mended, from a
        /// second to 15 minutes apart; the message waits.
        case parkBackend
    }

    /// A device token that the platform declared dead.
    public struct Invalidation: Sendable, Hashable {
        /// Since when the token is dead: the platform's time, or the start of the request when it gave none.
        ///
        /// A registration younger than this stays valid.
        public var asOf: Date
        /// Whether the platform's word suffices.
        ///
        /// True: the token is dead at every backend of its service, and none of them is tried. False, for reasons that
        /// a wrong configuration explains as well (APNs `BadDeviceToken`, a token that never was one): the other
        /// backends of the service are tried, and all have to refuse it. Either way those that come in numbers are
        /// quarantined until an operator decides: the guard counts certain ones under `certain_share`, others under the
        /// lower `share`.
        public var isCertain: Bool

        /// Makes an invalidation.
        public init(asOf: Date, isCertain: Bool) {
            self.asOf = asOf
            self.isCertain = isCertain
        }
    }

    /// How long a platform is tried again after a refusal, where that is less than usual.
    public struct RetryLimit: Sendable, Hashable {
        /// The most attempts of the delivery, those before and at other backends included.
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
    /// Of bounded variety, fit for a metric label; never holds a token.
    public var reason: String
    /// A sentence for people with the likely fix.
    ///
    /// Never a token, key or payload.
    public var detail: String?
    /// The HTTP status, when there was one.
    public var status: Int?
    /// What to do next.
    public var advice: Advice
    /// Set when the device token is dead.
    public var invalidation: Invalidation?
    /// How long ``Advice/retry(after:)`` holds; nil for as long as the rules and the time to live allow.
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
    /// What happened instead of an answer: `deadline`, `connection_lost`, `stream_reset`.
    ///
    /// Bounded variety.
    public var reason: String
    /// A sentence for people.
    public var detail: String?
    /// Whether a repeat can do harm (a call that rings twice): then the rule is to stop unless the route says
    /// otherwise.
    public var isRepeatHarmful: Bool
    /// The platform's id of the message if it accepted it, where the sender chose that id; nil otherwise.
    ///
    /// What ``PushBackend/tracking`` is asked by.
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
    /// The reason of a platform that keeps its own devices and has no registration of this one.
    ///
    /// A gateway that is about to tell it sends the message later instead.
    public static let notRegistered = "not_registered"
}
