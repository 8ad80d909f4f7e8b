import Foundation
public import PushCore

/// How an IDPush project is reached.
public struct IDPushOptions: Sendable {
    /// The project's id: the one thing that lets somebody edit its devices, hence a secret.
    public var projectID: Secret
    /// The entitlement of tokens whose device does not say; only `development` makes a difference here.
    public var environment = OneSignalOptions.Environment.production
    /// Where IDPush listens.
    public var base = IDPushClient.address
    /// How to connect.
    public var common = CommonBackendOptions(timeout: .seconds(30))
    /// How often an action is tried whose answer cannot be read.
    public var attempts = 3
    /// The pause after the first of them; longer after each.
    public var retryPause = Duration.seconds(1)
    /// The span between two writes of one device.
    public var writeSpacing = Duration.seconds(1)

    /// Makes options; the id is trimmed.
    public init(projectID: Secret) { self.projectID = Secret(projectID.reveal().trimmed) }
}

/// IDPush: registers devices with OneSignal over a host that is reachable where OneSignal is not, and sends through OneSignal.
///
/// IDPush itself has no route that sends. With a OneSignal backend of the same app inside, devices that were registered here
/// get messages from there; without one, sends are refused with a sentence that says what is missing.
public final class IDPushBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "idpush"

    /// `idpush`.
    public var kind: BackendKind { Self.kind }
    /// What the OneSignal inside can address; without one the devices that are registered here.
    public let audience: BackendAudience
    /// What sends; nil when the project only registers.
    public let sender: OneSignalBackend?

    private let client: IDPushClient
    private let players: WatchedPlayers
    private let registrar: IDPushRegistrar

    /// Makes a backend.
    ///
    /// - Parameters:
    ///   - options: The project.
    ///   - oneSignal: The OneSignal app that the project stands for; nil registers only.
    ///   - strategy: What authorizes requests to IDPush; it needs none of its own.
    ///   - players: Where devices' ids are kept; by default the context's store, else memory.
    ///   - context: Its surroundings.
    /// - Throws: When a certificate or proxy of the options cannot work.
    public init(
        options: IDPushOptions,
        oneSignal: OneSignalOptions? = nil,
        strategy: (any AuthStrategy)? = nil,
        players: (any PlayerStore)? = nil,
        context: BackendContext
    ) throws(HTTPPoolError) {
        let players = WatchedPlayers(players ?? PlayerRecord.store(context))
        self.players = players
        client = try IDPushClient(
            base: options.base,
            common: options.common,
            http: context.authorized(by: strategy).http
        )
        var sender: OneSignalBackend?
        if let oneSignal { sender = try OneSignalBackend(options: oneSignal, players: players, context: context) }
        self.sender = sender
        audience = sender?.audience ?? BackendAudience(forms: [.device, .platformID])
        registrar = IDPushRegistrar(
            client: client,
            options: options,
            players: players,
            turns: DeviceTurns(time: context.time, spacing: options.writeSpacing),
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
            for place in request.recipients.indices {
                let outcome: DeliveryOutcome =
                    request.notification.isDryRun ? .accepted(Acceptance(isDryRun: true)) : .refused(refusal)
                reports.append(DeliveryReport(request: index, recipient: place, outcome: outcome))
            }
        }
        if !reports.isEmpty { report(reports) }
    }

    /// As OneSignal; without one a warning that nothing can be sent.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        OneSignalCheck.examine(notification)
    }

    /// The connections to both.
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

    /// Looks at OneSignal; IDPush has no route that does not write.
    public func diagnose() async -> [Diagnosis] {
        guard let sender else {
            let fix = "Add onesignal: { app_id, api_key } to send."
            return [Diagnosis("onesignal", .warning, "The backend registers devices and cannot send.", fix: fix)]
        }
        return await sender.diagnose()
    }

    /// Ends both.
    public func shutdown(grace: Duration) async {
        await client.shutdown(grace: grace)
        await sender?.shutdown(grace: grace)
    }

    /// Forgets the ids of one device or of all, and how they stand; OneSignal inside uses the same.
    public func forget(device: String?) async throws(PushError) { try await players.forget(device) }

    /// Adds and edits devices.
    public var devices: (any DeviceRegistrar)? { registrar }
    /// Keeps subscriptions; their state is our own record, since IDPush tells none.
    public var subscriptions: (any SubscriptionManager)? { registrar }
    /// Keeps tags of the device.
    public var tags: (any TagEditor)? { registrar }
    /// As OneSignal; nil without one.
    public var cancellation: (any MessageCanceller)? { sender?.cancellation }
    /// As OneSignal; nil without one.
    public var tracking: (any MessageTracker)? { sender?.tracking }
}
