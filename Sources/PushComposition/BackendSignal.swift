public import PushCore

/// What an outcome tells of the backend as a whole, rather than of one message: what a ``Breaker`` and the gateway's
/// flow control go by.
@nonexhaustive
public enum BackendSignal: Sendable, Hashable {
    /// Nothing: the platform was not asked, or the fault is the account's.
    case nothing
    /// The platform took a message, or refused one by itself: it is there.
    case works
    /// The platform or the way to it failed.
    case fails(reason: String)
    /// The platform asked for a pause of this length.
    case pause(Duration, reason: String)
    /// The platform asked for a pause and named no time, or less than a second: single messages test when it takes one
    /// again.
    case slow(reason: String, detail: String?)
    /// An operator must act.
    case park(reason: String, detail: String?)

    /// The wait before the first single message after ``slow(reason:detail:)`` or ``park(reason:detail:)``; it doubles
    /// with each that is refused.
    package static let firstWait = Duration.seconds(1)
    /// The longest such wait while the platform only asked for a pause.
    package static let longestSlowWait = Duration.seconds(60)
    /// The longest such wait while an operator must act.
    package static let longestParkedWait = Duration.seconds(900)
}

/// The reasons for which Chapar itself, and not a platform, refuses a message.
public enum GatewayReason {
    /// The sender is ending.
    public static let cancelled = "cancelled"
    /// A ``CircuitBreakingBackend`` is open.
    public static let breakerOpen = "breaker_open"
    /// A ``BulkheadBackend`` has no room.
    public static let bulkheadFull = "bulkhead_full"
    /// A ``RateLimitedBackend`` could not send it in time.
    public static let rateLimited = "rate_limited"
    /// No backend of a plan can address the recipient.
    public static let notAddressable = "not_addressable"
    /// A device has no live token for the backend.
    public static let noToken = "no_token"
    /// The backend is of another environment than the token, and one of the token's follows.
    public static let otherEnvironment = "other_environment"
    /// The backend is not configured any more.
    public static let backendGone = "backend_gone"
    /// A recipient's tokens could not be looked up.
    public static let resolverFailed = "resolver_failed"
    /// The platform reported after its acceptance that the message failed.
    public static let failedLater = "failed_later"

    /// Those that say nothing of a platform.
    static let all: Set<String> = [
        cancelled, breakerOpen, bulkheadFull, rateLimited, notAddressable, noToken, otherEnvironment, backendGone,
        resolverFailed, failedLater,
    ]
}

extension DeliveryOutcome {
    /// The signal of the outcome about its backend; ``PushComposition/BackendSignal/nothing`` where Chapar itself
    /// refused.
    public var signal: BackendSignal {
        switch self {
        case .accepted(let acceptance): acceptance.isDryRun ? .nothing : .works
        case .refused(let refusal): refusal.signal
        case .unknown(let unknown):
            GatewayReason.all.contains(unknown.reason) ? .nothing : .fails(reason: unknown.reason)
        }
    }

    /// The signal of the outcome about its backend, by its former name.
    @available(*, deprecated, message: "Use signal: a pause without a length is a signal of its own.")
    public func signal(defaultPause: Duration) -> BackendSignal {
        if case .slow(let reason, _) = signal { .pause(defaultPause, reason: reason) } else { signal }
    }
}

extension Refusal {
    fileprivate var signal: BackendSignal {
        switch advice {
        // A wait of nothing, as some proxies name, is no pause: the backend would be asked again and again at once.
        case .slowBackend(let after?) where after >= BackendSignal.firstWait: return .pause(after, reason: reason)
        case .slowBackend: return .slow(reason: reason, detail: detail)
        case .parkBackend: return .park(reason: reason, detail: detail)
        case .never, .retry, .slowRecipient: break
        }
        if GatewayReason.all.contains(reason) { return .nothing }
        switch kind {
        case .token, .message: return status == nil ? .nothing : .works  // Without a status the plugin refused it.
        case .account: return .nothing
        case .platform: return .fails(reason: reason)
        }
    }
}
