internal import Foundation
internal import Logging
public import ChaparCore

/// Altcraft: keeps a resource's push subscriptions, reports deliveries and openings, and starts trigger campaigns.
///
/// Altcraft sends its pushes itself, to the tokens that devices subscribed with. Sending through this backend starts a
/// trigger campaign, whose template is in the platform; without one in the options nothing can be sent, and the
/// audience is empty.
public final class AltcraftBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "altcraft"

    /// `altcraft`.
    public var kind: BackendKind { Self.kind }
    /// Users and profile ids, when there is a campaign.
    public let audience: BackendAudience
    /// Tokens, subscriptions, profile fields, events.
    public let mobile: AltcraftDevices

    let client: AltcraftClient
    let campaign: AltcraftBatch?

    /// Makes a backend; nothing is opened before the first call.
    ///
    /// - Parameters:
    ///   - options: The resource and how it is used.
    ///   - auth: The credentials that requests carry.
    ///   - context: Its surroundings; its `announce` gets every event as a notice.
    ///   - onEvent: Gets every event; must not block.
    /// - Throws: When a certificate or proxy of the options cannot work.
    public init(
        options: AltcraftOptions,
        auth: AltcraftAuth,
        context: BackendContext,
        onEvent: (@Sendable (AltcraftEvent) -> Void)? = nil
    ) throws(HTTPPoolError) {
        let logger = context.logger
        let announce = context.announce
        client = try AltcraftClient(options: options, auth: auth, context: context) { event in
            announce(event.notice)
            onEvent?(event)
            logger.debug(
                "altcraft event",
                metadata: [
                    "code": "\(event.eventCode ?? 0)", "level": "\(event.level.rawValue)", "what": "\(event.function)",
                ]
            )
        }
        mobile = AltcraftDevices(client, context: context)
        campaign = try options.campaign.map { campaign throws(HTTPPoolError) in
            try AltcraftBatch(campaign, common: options.common, context: context)
        }
        audience = BackendAudience(forms: campaign == nil ? [] : [.user, .platformID])
    }

    /// Starts the campaign for each recipient, or refuses for good.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        if let campaign { return await campaign.send(requests, report: report) }
        let refusal = Refusal(
            .account,
            reason: "send_not_configured",
            detail:
                "This backend cannot send: Altcraft sends only through a trigger campaign; add campaign: { url, api_token, "
                + "trigger_id }, or send to the device's token through APNs, FCM or HMS.",
            advice: .never
        )
        var reports: [DeliveryReport] = []
        for (index, request) in requests.enumerated() {
            for place in request.recipients.indices {
                reports.append(DeliveryReport(request: index, recipient: place, outcome: .refused(refusal)))
            }
        }
        if !reports.isEmpty { report(reports) }
    }

    /// Finds what a template cannot show.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        AltcraftCheck.examine(notification, for: client.options.campaign?.call)
    }

    /// Returns true: each start of a campaign sends, so a repeat sends twice.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool { true }

    /// The number of campaign starts that the connections take at once: one each.
    public var window: Int? { client.options.common.maximumConnections }

    /// The connections of the subscriptions and of the campaigns.
    public var health: BackendHealth {
        var health = BackendHealth(client.pool.status)
        guard let campaign = campaign?.status else { return health }
        health.connections += campaign.connections
        health.inFlight += campaign.openStreams
        if let outage = campaign.outage { (health.status, health.detail) = (.down, outage.detail) }
        return health
    }

    /// Ends the backend.
    public func shutdown(grace: Duration) async {
        await client.shutdown(grace: grace)
        await campaign?.shutdown(grace: grace)
    }

    /// Moves subscriptions when tokens change.
    public var devices: (any DeviceRegistrar)? { mobile }
    /// Keeps subscriptions.
    public var subscriptions: (any SubscriptionManager)? { mobile }
    /// Sets profile fields, when the options say so.
    public var tags: (any TagEditor)? { client.options.updatesProfiles ? mobile : nil }
    /// Takes deliveries and openings.
    public var events: (any EventReporter)? { mobile }
    /// Takes events of the app's own.
    public var customEvents: (any CustomEventReporter)? { mobile }
    /// The SDK's schedule, unless the options say otherwise.
    public var operationPolicy: RetrySchedule { client.options.operationPolicy }

    /// Forgets saved and manual tokens and JWTs, of a device or of all; the subscriptions at Altcraft stay unchanged.
    public func forget(device: String?) async throws(PushError) {
        try await mobile.tokens.store.forget(device)
        client.auth.forget(device: device)
        client.emit(.info, "clear()", "the data is cleared", 205, device: device)
    }
}
