/// The explanations of reasons that the gateway itself gives, not a platform.
///
/// `explain`, the answers about deliveries and docs/Troubleshooting.md use them. Each has the meaning of the reason,
/// the gateway's reaction, and what to do.
package enum GatewayReasons {
    package static let all: [ReasonGuide] = [
        guide(
            GatewayReason.cancelled,
            "refused: platform",
            "The sender ended before the message left.",
            "Tries again after its next start.",
            "Nothing."
        ),
        guide(
            GatewayReason.breakerOpen,
            "refused: platform",
            "The backend failed so often that it is left alone for a while.",
            "Sends one message now and then to see whether it works again; the others wait, or take the next backend.",
            "Look at the reason of the attempts before this one."
        ),
        guide(
            GatewayReason.bulkheadFull,
            "refused: platform",
            "As many messages as max_in_flight allows are under way.",
            "Tries again later.",
            "Raise max_in_flight if the platform can take more."
        ),
        guide(
            GatewayReason.rateLimited,
            "refused: platform",
            "The backend's rate_limit leaves no room in the time that the message may wait.",
            "Tries again later.",
            "Raise rate_limit if the platform allows more."
        ),
        guide(
            GatewayReason.notAddressable,
            "refused: message",
            "No backend of the plan can address the recipient.",
            "Ends the delivery as failed.",
            "Compare the recipient with RECIPIENTS of \"backends\", and with the route."
        ),
        guide(
            GatewayReason.noToken,
            "refused: token",
            "The device has no live token for the backend.",
            "Goes on with the next backend of the plan, else ends the delivery as failed.",
            "Look at the device: devices get ID. The app registers its token again at its next start."
        ),
        guide(
            GatewayReason.otherEnvironment,
            "refused: token",
            "The token is of the other environment, for which the plan has a backend.",
            "Goes on with that backend.",
            "Nothing."
        ),
        guide(
            GatewayReason.backendGone,
            "waiting",
            "The backend that the delivery waits for is not configured any more.",
            "Keeps it waiting.",
            "Configure the backend again, or use backends move or backends drop."
        ),
        guide(
            GatewayReason.resolverFailed,
            "refused: platform",
            "The recipient's tokens could not be looked up.",
            "Tries again later.",
            "Look at the log: the registry could not be read."
        ),
        guide(
            GatewayReason.failedLater,
            "refused: platform",
            "The platform took the message, and reported later that it failed.",
            "Goes on with the next backend of the plan, else ends the delivery as failed.",
            "Look at the attempt's receipt for the platform's own reason."
        ),
        guide(
            GatewayReason.awaitsReport,
            "waiting",
            "The platform took the message, and the route has escalate: the report that it arrived has not come yet.",
            "Ends the delivery with the report; without one in time the next backend takes over.",
            "Nothing."
        ),
        guide(
            GatewayReason.escalationLimit,
            "skipped",
            "As many messages went to the backend today as escalate.max_per_day of the route allows.",
            "Ends the delivery as accepted by the platform that took it; as failed if none did.",
            "Raise max_per_day, or look at why so few messages are reported as delivered."
        ),
        guide(
            "ttl_ended",
            "expired",
            "The time to live (options.ttl) ended before the message was taken.",
            "Ends the delivery as expired, or as unknown if an earlier attempt may have arrived.",
            "Give it a longer ttl, or look at why the backend was late: backends --url."
        ),
        guide(
            "expired",
            "refused: message",
            "The time to live (options.ttl) ended before the message was sent: it waited, or less than a second was left.",
            "Goes on with the next backend of the plan, else ends the delivery as expired, or as unknown if an earlier "
                + "attempt may have arrived.",
            "Give it a longer ttl, or look at the attempts before this one."
        ),
        guide(
            "cancelled_by_caller",
            "cancelled",
            "DELETE /v1/notifications/{id} cancelled it.",
            "Ends the delivery as cancelled.",
            "Nothing."
        ),
        guide(
            "user_erased",
            "cancelled",
            "The user was erased while the message waited.",
            "Ends the delivery and removes what is kept of the user.",
            "Nothing."
        ),
        guide(
            "gateway_restarted",
            "unknown",
            "The gateway ended while the message was on its way: it may have been delivered.",
            "Sends it again after the start, marked as a repeat, unless a second copy does harm.",
            "Nothing."
        ),
        guide(
            "backend_dropped",
            "failed",
            "It waited for a backend that is gone, and an operator dropped what waited (backends drop).",
            "Ends the delivery as failed, or as unknown if an earlier attempt may have arrived.",
            "Send it again if it is still wanted."
        ),
        guide(
            "backend_parked",
            "waiting",
            "The backend is parked: the platform refused its credentials or configuration.",
            "One waiting message probes after 1 s, then at growing intervals of up to 15 minutes; a reload probes at once.",
            "Mend the backend's section, run doctor, and reload."
        ),
        guide(
            "backend_paused",
            "waiting",
            "The platform asked for a pause of the whole backend.",
            "Goes on when the pause is over; where no time was named, one message at a time goes out until one is taken.",
            "Nothing; if it lasts, lower rate_limit."
        ),
        guide(
            "invalidations_held",
            "waiting",
            "Too many tokens were declared dead at once, which a wrong environment or topic looks like.",
            "Believes none of it and stops the backend.",
            "Compare environment, topic and project; then devices discard, or devices release if it is true."
        ),
        guide(
            "invalidations_quarantined",
            "waiting",
            "Too many tokens were declared dead at once, which a wrong environment or topic looks like.",
            "Believes none of it and stops the backend.",
            "Compare environment, topic and project; then devices discard, or devices release if it is true."
        ),
        guide(
            "invalidated_before",
            "waiting",
            "The token was marked invalid in the minutes before too many tokens were declared dead at once.",
            "Quarantines it with the others: it counts as alive until an operator decides.",
            "Compare environment, topic and project; then devices discard, or devices release if it is true."
        ),
        guide(
            "mass_invalidation",
            "waiting",
            "Too many tokens were declared dead at once, which a wrong environment or topic looks like.",
            "Believes none of it and stops the backend.",
            "Compare environment, topic and project; then devices discard, or devices release if it is true."
        ),
        guide(
            "registration_pending",
            "refused: token",
            "The platform keeps devices of its own, and this one is about to be registered there.",
            "Sends the message once the registration is done.",
            "Nothing."
        ),
        guide(
            "not_reported",
            "unknown",
            "The backend, or the service behind it, said nothing about this message.",
            "Follows on_unknown of the route.",
            "It is a fault of the plugin or service: report each recipient exactly once."
        ),
        guide(
            "no_answer",
            "unknown",
            "The backend did not come back from a send within its deadline.",
            "Follows on_unknown of the route.",
            "It is a fault of the plugin: every wait needs a deadline."
        ),
        guide(
            "content_unreadable",
            "failed",
            "The stored message cannot be read.",
            "Ends the delivery as failed.",
            "Look at the log, and at the disk; a store of a newer version is not readable by an older one."
        ),
    ]

    private static func guide(
        _ reason: String,
        _ outcome: String,
        _ meaning: String,
        _ gateway: String,
        _ action: String
    ) -> ReasonGuide {
        ReasonGuide(reason, of: "gateway", outcome: outcome, meaning: meaning, gateway: gateway, action: action)
    }
}
