public import Foundation

extension PushRequest {
    /// The time that a platform may still try to deliver a message.
    public enum Remaining: Sendable, Hashable {
        /// None is given: the platform's own default holds, and the plugin sends no time to live.
        case platformDefault
        /// Try once, store nothing: the platform's word for it, mostly a time to live of zero.
        case now
        /// Seconds, at least 1.
        case seconds(Int64)
        /// No time is left: the plugin refuses the message with ``Refusal/expired`` and sends nothing.
        case over
    }

    /// Returns the time for which the platform may still try to deliver at the moment `now`.
    ///
    /// It follows from ``expiration``, or else from the notification's time to live, which then counts from `now`.
    public func remaining(now: Date) -> Remaining {
        remaining(at: Int64(clamping: now.timeIntervalSince1970))
    }

    /// Does the same for a moment in whole seconds since 1970.
    package func remaining(at now: Int64) -> Remaining {
        switch expiration {
        case .immediately?: return .now
        case .at(let end)?:
            let left = end.subtracting(clamping: now)
            return left > 0 ? .seconds(left) : .over
        case nil:
            // Only code without a gateway sends so.
            guard let span = notification.timeToLive else { return .platformDefault }
            let (seconds, rest) = span.components
            return span <= .zero ? .now : .seconds(seconds.adding(clamping: rest > 0 ? 1 : 0))
        }
    }
}

extension Refusal {
    /// The refusal of a message whose time to live has ended before it was sent, also while it waited for its turn.
    public static let expired = Refusal(
        .message,
        reason: "expired",
        detail: "Its time to live has ended.",
        advice: .never
    )
}
