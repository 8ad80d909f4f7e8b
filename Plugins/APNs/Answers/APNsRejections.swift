import Foundation
import ChaparCore

/// The table of Apple's refusals: what each reason or status means for the message, the token and the backend.
///
/// ``verdict(on:_:)`` applies a row to a request; it keeps nothing and sends nothing.
///
/// Source: Apple, "Handling notification responses from APNs" and "Sending channel management requests", read 2026-08;
/// unknown reasons are classified by their status.
enum APNsRejections {
    /// The handling that a reason calls for.
    enum Consequence: Sendable, Hashable {
        /// The token is dead or foreign.
        case invalidToken
        /// The message is refused for good.
        case drop
        /// An operator must act.
        case configuration
        /// As `configuration`, but about the topic: a topic that the caller chose is the caller's mistake.
        case topic
        /// As `configuration`, but for broadcasts only.
        case broadcasts
        /// Send once more on another connection; after that `configuration`.
        case replay
        /// Send once more on another connection with the same token; after that single messages are tried until Apple
        /// takes one.
        case slow
        /// This recipient gets too much.
        case slowRecipient
        /// Only waiting helps.
        case retry
        /// The channel does not exist any more.
        case channelGone
    }

    /// A row of the table.
    struct Rule: Sendable, Hashable {
        let consequence: Consequence
        let detail: String

        init(_ consequence: Consequence, _ detail: String) {
            self.consequence = consequence
            self.detail = detail
        }
    }

    /// Returns the row of a reason; that of its status when the reason is unknown.
    static func rule(for reason: String, status: Int) -> Rule {
        if let rule = reasons[reason] { return rule }
        let rule = statuses[status] ?? foreign
        let words = reason.isEmpty ? "no reason" : "\"\(reason)\", a reason unknown to Chapar"
        return Rule(rule.consequence, rule.detail.filled("reason", words).filled("status", "\(status)"))
    }

    /// Returns whether a reason has a row.
    static func isKnown(_ reason: String) -> Bool { reasons[reason] != nil }

    /// The fix for a fresh token that counts as expired.
    static let clockHint = """
        Apple calls a fresh provider token expired: this machine's clock is wrong. Set it (chronyc tracking, timedatectl), \
        then the backend goes on by itself.
        """
    /// The fix for tokens that change too often.
    static let tooManyHint = """
        Apple says that provider tokens change too often: some other process signs tokens with this team's keys at each \
        start or for each connection. Let it reuse one token for 30 minutes.
        """
    private static let gatewayFault = "This is a fault of Chapar or of a header override."
    /// Apple's reasons.
    private static let reasons: [String: Rule] = [
        "BadCollapseId": Rule(.drop, "The collapse id is longer than 64 bytes."),
        "BadDeviceToken": Rule(
            .invalidToken,
            "Not a token of this environment: tokens of builds run from Xcode belong to development, all others to production."
        ),
        "BadExpirationDate": Rule(
            .drop,
            "The expiration is not an epoch time, or not 0 on a channel that stores nothing."
        ),
        "BadMessageId": Rule(.drop, "The apns-id is not a UUID. \(gatewayFault)"),
        "BadPriority": Rule(.drop, "The priority is not 1, 5 or 10, or does not go with the push type."),
        "BadTopic": Rule(.topic, "The topic is malformed: write the app's bundle id, without a suffix."),
        "DeviceTokenNotForTopic": Rule(
            .invalidToken,
            "The token belongs to another app: compare topic with the bundle id of the app that registered it."
        ),
        "DuplicateHeaders": Rule(.configuration, "A header went out twice. \(gatewayFault)"),
        "IdleTimeout": Rule(.retry, "The connection was idle for too long; the next attempt uses another."),
        "InvalidPushType": Rule(.drop, "The push type is unknown to Apple."),
        "MissingDeviceToken": Rule(.drop, "The device token is empty."),
        "MissingTopic": Rule(.configuration, "The topic is missing: write topic into the backend's section."),
        "PayloadEmpty": Rule(.drop, "The payload is empty."),
        "TopicDisallowed": Rule(
            .topic,
            "This credential may not send to the topic: check topic, and the topics of the key or certificate."
        ),
        "BadCertificate": Rule(.configuration, "Apple does not take the client certificate: renew it."),
        "BadCertificateEnvironment": Rule(
            .configuration,
            "The client certificate is for the other environment: change environment or the certificate."
        ),
        "ExpiredProviderToken": Rule(.replay, clockHint),
        "Forbidden": Rule(.configuration, "Apple forbids this: check that key, team and topic belong together."),
        "InvalidProviderToken": Rule(
            .configuration,
            "Apple does not take the provider token: check that key_id, team_id and the key file belong together, "
                + "and that this machine's clock is not ahead."
        ),
        "MissingProviderToken": Rule(.configuration, "Apple saw neither a certificate nor a token: set key_file."),
        "UnrelatedKeyIdInToken": Rule(.replay, "The connection began with another key: check key_id."),
        "BadEnvironmentKeyIdInToken": Rule(
            .configuration,
            "The key is for the other environment: change environment, or use a key made for this one."
        ),
        "BadEnvironmentKeyInToken": Rule(
            .configuration,
            "The key is for the other environment: change environment, or use a key made for this one."
        ),
        "BadPath": Rule(.configuration, "The address is not one of APNs': check base_url and any proxy."),
        "MethodNotAllowed": Rule(.configuration, "The method is not allowed there: check base_url and any proxy."),
        "ExpiredToken": Rule(.invalidToken, "The device token has expired."),
        "Unregistered": Rule(
            .invalidToken,
            "The app is no longer installed on the device, or gave up its token. "
                + "When many are refused at once, check environment and topic first: a wrong one looks exactly like this."
        ),
        "PayloadTooLarge": Rule(.drop, "The payload is too large."),
        "TooManyProviderTokenUpdates": Rule(.slow, tooManyHint),
        "TooManyRequests": Rule(.slowRecipient, "Too many messages to one recipient: collapse or delay them."),
        "InternalServerError": Rule(.retry, "Apple's service has a problem."),
        "ServiceUnavailable": Rule(.retry, "Apple's service is not available."),
        "Shutdown": Rule(.retry, "The server is going away; the next attempt uses another connection."),
        // Broadcast channels.
        "BadChannelId": Rule(.channelGone, "There is no such channel in this environment."),
        "ChannelNotRegistered": Rule(.channelGone, "There is no such channel in this environment."),
        "MissingChannelId": Rule(.drop, "The channel id is empty."),
        "MissingPushType": Rule(.drop, "The push type is missing. \(gatewayFault)"),
        "BadRequestParams": Rule(.drop, "Apple does not take the parameters."),
        "BadRequestPayload": Rule(.drop, "Apple does not take the payload."),
        "CannotCreateChannelConfig": Rule(.drop, "There are as many channels as Apple allows."),
        "FeatureNotEnabled": Rule(
            .broadcasts,
            "Broadcast is not enabled for this app: enable it under the app's push capability."
        ),
        "TopicMismatch": Rule(.broadcasts, "The key or certificate is not for the bundle id: check topic."),
    ]

    /// The statuses of answers with a reason that is not among ``reasons``, or without one.
    private static let statuses: StatusTable<Rule> = [
        .on(403, means: Rule(.configuration, "Apple refused the credentials and gave {reason}.")),
        .on(
            404,
            405,
            means: Rule(.configuration, "The address is not one of APNs' ({reason}): check base_url and any proxy.")
        ),
        .on(410, means: Rule(.invalidToken, "Apple says the token is gone and gave {reason}.")),
        .on(429, means: Rule(.slowRecipient, "Apple wants fewer messages and gave {reason}.")),
        .within(400...499, means: Rule(.drop, "Apple refused the message and gave {reason}.")),
        .within(500...Int.max, means: Rule(.retry, "Apple's service has a problem and gave {reason}.")),
    ]
    /// The row for a status that APNs does not use.
    private static let foreign = Rule(
        .configuration,
        "Status {status} is not one of APNs': check base_url and any proxy."
    )
}

extension APNsRejections {
    /// The properties of a request that decide what an answer to it means.
    struct Context {
        /// The start of the send, from which a token counts as dead when Apple gives no time.
        var started: Date
        /// Whether it went to the configured topic itself.
        var isOwnTopic: Bool
        /// Whether it went to a broadcast channel.
        var isBroadcast: Bool
        /// Whether it has been replayed already.
        var isSecondTry: Bool
    }

    /// The decision about an answer other than 200.
    enum Verdict {
        case final(DeliveryOutcome)
        /// Send the message once more on another connection; the value is the outcome if that is not possible.
        case replay(otherwise: DeliveryOutcome)
    }

    /// Returns what to do after an answer that is not a success.
    static func verdict(on answer: HTTPAnswer, _ context: Context) -> Verdict {
        let body = APNsAnswer(answer)
        if body.isForeign, answer.status < 500, answer.status != 429 {
            let detail = "Something other than APNs answered: a proxy, a captive portal or a wrong base_url."
            return .final(
                .refused(
                    Refusal(
                        .account,
                        reason: "foreign_answer",
                        detail: detail,
                        status: answer.status,
                        advice: .parkBackend
                    )
                )
            )
        }
        let reason = body.reason ?? "http_\(answer.status)"
        let rule = rule(for: body.reason ?? "", status: answer.status)
        let detail = clockDetail(reason, answer, context) ?? rule.detail
        func refused(
            _ kind: Refusal.Kind,
            _ advice: Refusal.Advice,
            _ invalidation: Refusal.Invalidation? = nil
        ) -> DeliveryOutcome {
            .refused(
                Refusal(
                    kind,
                    reason: reason,
                    detail: detail,
                    status: answer.status,
                    advice: advice,
                    invalidation: invalidation
                )
            )
        }
        let wait = answer.retryAfter(now: context.started)
        switch rule.consequence {
        case .invalidToken: return .final(refused(.token, .never, invalidation(answer, body, context)))
        case .drop: return .final(refused(.message, .never))
        // The app may not broadcast, or broadcast_url is wrong: messages to devices go on, those to the channel wait.
        case .broadcasts,
            .topic where context.isBroadcast,
            .configuration where context.isBroadcast && (answer.status == 404 || answer.status == 405):
            return .final(refused(.account, .slowRecipient(after: wait ?? .seconds(60))))
        case .configuration: return .final(refused(.account, .parkBackend))
        case .topic: return .final(context.isOwnTopic ? refused(.account, .parkBackend) : refused(.message, .never))
        case .replay:
            let outcome = refused(.account, .parkBackend)
            return context.isSecondTry ? .final(outcome) : .replay(otherwise: outcome)
        case .slowRecipient: return .final(refused(.token, .slowRecipient(after: wait ?? .seconds(60))))
        case .slow:
            // The connection is at fault more often than the key: the next connection takes messages with the same
            // token. Minting waits 20 minutes (APNsTokenSource); sending does not, unless Apple gives a pause.
            let outcome = refused(.account, .slowBackend(after: wait))
            return context.isSecondTry || wait != nil ? .final(outcome) : .replay(otherwise: outcome)
        case .retry: return .final(refused(.platform, .retry(after: wait)))
        case .channelGone: return .final(refused(.token, .never))
        }
    }

    /// Returns the sentence for a provider token from the future, when the answer tells how far this machine's clock is
    /// ahead.
    private static func clockDetail(_ reason: String, _ answer: HTTPAnswer, _ context: Context) -> String? {
        guard reason == "InvalidProviderToken", let date = answer.date else { return nil }
        let skew = Int(clamping: context.started.timeIntervalSince(date).rounded())
        guard skew > 60 else { return nil }
        return "Apple does not take the provider token: this machine's clock is \(skew) s ahead of Apple's. "
            + "Set it (chronyc tracking, timedatectl)."
    }

    /// Returns when the token counts as dead; nil unless the answer says that it is.
    private static func invalidation(
        _ answer: HTTPAnswer,
        _ body: APNsAnswer,
        _ context: Context
    ) -> Refusal.Invalidation? {
        if context.isBroadcast { return nil }
        if answer.status == 410, let timestamp = body.timestamp {
            return Refusal.Invalidation(asOf: timestamp, isCertain: true)
        }
        guard let reason = body.reason, isKnown(reason) else { return nil }  // An unknown reason invalidates no token.
        // A token that does not belong to a topic of the caller's choice may belong to the app's own topic.
        if reason == "DeviceTokenNotForTopic", !context.isOwnTopic { return nil }
        return Refusal.Invalidation(asOf: context.started, isCertain: false)
    }
}

extension APNsRejections {
    /// The outcome of a delivery for each reason of the table, at the configured topic.
    static var outcomes: [DeliveryOutcome] {
        let context = Context(
            started: Date(timeIntervalSince1970: 0),
            isOwnTopic: true,
            isBroadcast: false,
            isSecondTry: true
        )
        // Apple gives a time with 410 only.
        let gone: Set<String> = ["Unregistered", "ExpiredToken"]
        let dates = ["certificate_expired", "certificate_not_yet_valid"].map {
            DeliveryOutcome.refused(
                Refusal(
                    .account,
                    reason: $0,
                    detail: "The dates of the client certificate, or this machine's clock, keep it from being used.",
                    advice: .parkBackend
                )
            )
        }
        return dates
            + reasons.keys.sorted().map { reason in
                let body: JSONValue =
                    gone.contains(reason) ? ["reason": .string(reason), "timestamp": 1] : ["reason": .string(reason)]
                let answer = HTTPAnswer(status: gone.contains(reason) ? 410 : 400, body: body.bytes)
                switch verdict(on: answer, context) {
                case .final(let outcome), .replay(let outcome): return outcome
                }
            }
    }
}
