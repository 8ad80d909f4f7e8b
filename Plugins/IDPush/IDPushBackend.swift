import Foundation
public import ChaparCore
public import ChaparOneSignalDevices

/// IDPush: registers devices with OneSignal over a host that is reachable where OneSignal is not, and sends through
/// OneSignal.
///
/// IDPush itself has no route that sends. With a sender, a OneSignal backend of the same app, devices that were
/// registered here get messages from there; without one, sends are refused with a sentence that says what is missing.
public final class IDPushBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "idpush"

    /// `idpush`.
    public var kind: BackendKind { Self.kind }
    /// The sender's audience; without a sender, the devices that are registered here.
    public let audience: BackendAudience
    /// The backend that sends; nil when the project only registers.
    public let sender: (any PushBackend)?

    private let client: IDPushClient
    private let players: WatchedPlayers
    private let registrar: IDPushRegistrar

    /// Makes a backend.
    ///
    /// - Parameters:
    ///   - options: The project.
    ///   - strategy: Authorizes requests to a relay in the place of IDPush, which needs no credential.
    ///   - players: Where devices' ids are kept; by default the context's store, else memory.
    ///   - context: Its dependencies.
    ///   - makeSender: Makes the backend of the OneSignal app that the project stands for; nil registers only.
    /// - Throws: When a certificate or proxy of the options cannot work.
    public init(
        options: IDPushOptions,
        strategy: (any AuthStrategy)? = nil,
        players: (any PlayerStore)? = nil,
        context: BackendContext,
        sender makeSender: OneSignalSender? = nil
    ) throws(HTTPPoolError) {
        let players = WatchedPlayers(players ?? PlayerRecord.store(context))
        self.players = players
        client = try IDPushClient(
            base: options.base,
            common: options.common,
            http: context.authorized(by: strategy).http
        )
        sender = try makeSender?(context, players)
        audience = sender?.audience ?? BackendAudience(forms: [.device, .platformID])
        registrar = IDPushRegistrar(
            client: client,
            options: options,
            players: players,
            limiter: DeviceLimiter(time: context.time, spacing: options.writeSpacing),
            time: context.time
        )
    }

    /// Sends through OneSignal, or refuses for good.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        if let sender { return await sender.send(requests, report: report) }
        let refusal = Refusal(
            .account,
            reason: "send_not_configured",
            detail: "IDPush only registers devices: add onesignal: { app_id, api_key } to send through OneSignal.",
            advice: .never
        )
        var reports: [DeliveryReport] = []
        for (index, request) in requests.enumerated() {
            for recipient in request.recipients.indices {
                let outcome: DeliveryOutcome =
                    request.notification.isDryRun ? .accepted(Acceptance(isDryRun: true)) : .refused(refusal)
                reports.append(DeliveryReport(request: index, recipient: recipient, outcome: outcome))
            }
        }
        if !reports.isEmpty { report(reports) }
    }

    /// Returns the sender's findings; none without a sender, since every message is refused then.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        sender?.check(notification, for: recipient) ?? PayloadCheck()
    }

    /// Returns the sender's size of the payload; nil without a sender.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        sender?.payloadSize(of: notification, for: addressee)
    }

    /// Returns the sender's payload; nil without a sender.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        sender?.payload(of: notification, for: addressee)
    }

    /// The sender's window; nil without a sender.
    public var window: Int? { sender?.window }

    /// The sender's batching; nil without a sender.
    public var batching: RequestBatching? { sender?.batching }

    /// Whether the sender's platform keeps messages until their time to send.
    public var schedulesMessages: Bool { sender?.schedulesMessages ?? false }

    /// The connections to IDPush and of the sender.
    public var health: BackendHealth {
        var health = sender?.health ?? BackendHealth(detail: "registers devices, cannot send: no onesignal section")
        let status = client.pool.status
        health.connections += status.connections
        health.inFlight += status.openStreams
        if let outage = status.outage {
            (health.status, health.detail) = (sender == nil ? .down : .degraded, outage.detail)
        }
        return health
    }

    /// Ends the connections to IDPush, and the sender.
    public func shutdown(grace: Duration) async {
        await client.shutdown(grace: grace)
        await sender?.shutdown(grace: grace)
    }

    /// Forgets the ids and subscription states of one device or of all; the sender uses the same store.
    public func forget(device: String?) async throws(PushError) { try await players.forget(device) }

    /// Adds and edits devices.
    public var devices: (any DeviceRegistrar)? { registrar }
    /// Changes subscriptions; their state is read from the stored record, since IDPush reports none.
    public var subscriptions: (any SubscriptionManager)? { registrar }
    /// Keeps tags of the device.
    public var tags: (any TagEditor)? { registrar }
    /// Cancels messages through the sender; nil without one.
    public var cancellation: (any MessageCanceller)? { sender?.cancellation }
    /// Reads the state of messages through the sender; nil without one.
    public var tracking: (any MessageTracker)? { sender?.tracking }
}
