package import ChaparCore

/// The meaning of an outcome for its backend as a whole, rather than for one message.
///
/// A ``Breaker`` and the gateway's flow control use it to decide.
package enum BackendSignal: Sendable, Hashable {
    /// No meaning: the platform was not asked, or the fault is the account's.
    case nothing
    /// The platform took a message, or refused one for itself: it is reachable.
    case works
    /// The platform or the connection to it failed.
    case fails(reason: String)
    /// The platform asked for a pause of this length.
    case pause(Duration, reason: String)
    /// The platform asked for a pause without a length, or of less than a second: single messages probe it.
    case slow(reason: String, detail: String?)
    /// An operator must act.
    case park(reason: String, detail: String?)

    /// The wait before the first single message after ``slow(reason:detail:)`` or ``park(reason:detail:)``; it doubles
    /// with each message that is refused.
    package static let firstWait = Duration.seconds(1)
    /// The longest such wait while the platform only asked for a pause.
    package static let longestSlowWait = Duration.seconds(60)
    /// The longest such wait while an operator must act.
    package static let longestParkedWait = Duration.seconds(900)
}

/// The reasons of refusals by Chapar itself, not by a platform.
public enum GatewayReason {
    /// The sender is shutting down.
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
    /// The backend's environment is not the token's, and a backend of the token's follows.
    public static let otherEnvironment = "other_environment"
    /// The backend is no longer configured.
    public static let backendGone = "backend_gone"
    /// A recipient's tokens could not be looked up.
    public static let resolverFailed = "resolver_failed"
    /// The message's time to live ended while it waited.
    package static let expired = Refusal.expired.reason
    /// As many messages a day as `max_per_day` allows went to the backends that take over.
    package static let escalationLimit = "escalation_limit"
    /// A platform took the message, and it waits for a report before another backend takes over.
    package static let awaitsReport = "awaits_report"
    /// The platform accepted the message and later reported that it failed.
    public static let failedLater = "failed_later"

    /// The reasons that say nothing about a platform.
    static let all: Set<String> = [
        cancelled, breakerOpen, bulkheadFull, rateLimited, notAddressable, noToken, otherEnvironment, backendGone,
        resolverFailed, failedLater,
    ]
}

extension DeliveryOutcome {
    /// The signal that the outcome gives about its backend; ``BackendSignal/nothing`` where Chapar itself refused the
    /// message.
    package var signal: BackendSignal {
        switch self {
        case .accepted(let acceptance): acceptance.isDryRun ? .nothing : .works
        case .refused(let refusal): refusal.signal
        case .unknown(let unknown):
            GatewayReason.all.contains(unknown.reason) ? .nothing : .fails(reason: unknown.reason)
        }
    }
}

extension Refusal {
    fileprivate var signal: BackendSignal {
        switch advice {
        // A pause of zero, as some proxies name, is none: the backend would be asked again and again at once.
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
