import Foundation
internal import Logging
public import ChaparCore
public import ChaparOneSignalDevices
import Synchronization

/// OneSignal: one app, by its REST API.
///
/// Sends to subscriptions, users, segments and tags in as few requests as the platform's limit allows, each with an
/// idempotency key that stays the same over retries and restarts. A status 200 alone is no success: an answer without
/// an id means that no message was made. Source of all rules: OneSignal's reference pages, read 2026-08.
public final class OneSignalBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "onesignal"

    /// `onesignal`.
    public var kind: BackendKind { Self.kind }
    /// Ids of OneSignal, devices that were registered here, users, segments, tags, everybody.
    public let audience: BackendAudience
    /// Messages at OneSignal: their reports and their cancellation.
    public let messages: OneSignalMessages
    /// Users with their aliases and subscriptions, in the user model.
    public let directory: OneSignalDirectory

    let client: OneSignalClient
    let players: any PlayerStore
    private let name: String
    private let ledger: OneSignalLedger
    private let share: OneSignalMessageShare
    private let registrar: any OneSignalDevices
    private let chunkSize: Mutex<Int>
    private let reconciler: OneSignalReconciler?
    private let alert = Mutex<String?>(nil)
    /// When OneSignal last made a message for ids that this backend sent; within a day this proves the app id.
    private let lastMade = Mutex<Date>(.distantPast)
    private let logger: Logger
    private let announce: @Sendable (BackendNotice) -> Void

    var options: OneSignalOptions { client.options }

    /// Makes a backend; nothing is opened before the first call.
    ///
    /// - Parameters:
    ///   - options: The app and how it is used.
    ///   - strategy: Authorizes requests instead of the app's API key.
    ///   - players: Where devices' ids at OneSignal are kept; by default the context's store, else memory.
    ///   - context: Its surroundings.
    /// - Throws: When a certificate or proxy of the options cannot work.
    public init(
        options: OneSignalOptions,
        strategy: (any AuthStrategy)? = nil,
        players: (any PlayerStore)? = nil,
        context: BackendContext
    ) throws(HTTPPoolError) {
        name = context.name
        logger = context.logger
        announce = context.announce
        let players = WatchedPlayers(players ?? PlayerRecord.store(context))
        self.players = players
        client = try OneSignalClient(options, strategy: strategy, context: context)
        messages = OneSignalMessages(client: client)
        directory = OneSignalDirectory(client: client)
        reconciler = options.reconcilesCounts ? OneSignalReconciler(messages, context) : nil
        ledger = OneSignalLedger(state: context.state, backend: context.name, time: context.time)
        share = OneSignalMessageShare(limit: options.maximumMessagesPer15Minutes, time: context.time)
        chunkSize = Mutex(options.chunkSize)
        let limiter = DeviceLimiter(time: context.time, spacing: options.writeSpacing)
        registrar =
            switch options.deviceAPI {
            case .users: OneSignalUsers(client: client, players: players, limiter: limiter)
            case .players: OneSignalPlayers(client: client, players: players, limiter: limiter)
            }
        audience = BackendAudience(
            services: options.allowsRawTokens ? [.iOSAPNs, .androidFirebase] : [],
            forms: [.platformID, .device, .user, .topic, .tags, .everyone],
            broadcast: options.broadcastRule
        )
    }

    // MARK: Sending

    /// Sends each request in chunks, one call for each.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await withTaskGroup(of: Void.self) { tasks in
            for (index, request) in requests.enumerated() {
                // At most this number of requests has a task; the others wait here.
                if index >= 64 { await tasks.next() }
                tasks.addTask { await self.send(request, at: index, report: report) }
            }
        }
    }

    private func send(
        _ request: PushRequest,
        at index: Int,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async {
        let notification = request.notification
        func reportAll(_ indices: some Sequence<Int>, _ outcome: DeliveryOutcome) {
            let reports = indices.map { DeliveryReport(request: index, recipient: $0, outcome: outcome) }
            if !reports.isEmpty { report(reports) }
        }
        if let fault = OneSignalCheck.faults(notification).first {
            let refusal = Refusal(fault)
            return reportAll(request.recipients.indices, .refused(refusal))
        }
        let remaining: Int64?
        switch request.remaining(now: client.time.now) {
        case .platformDefault: remaining = nil
        case .now: remaining = 0
        case .seconds(let left): remaining = left
        case .over: return reportAll(request.recipients.indices, .refused(.expired))
        }
        let plan = await OneSignalBatch(request, self, ledger)
        for (index, outcome) in plan.resolved { reportAll([index], outcome) }
        if notification.isDryRun {
            return reportAll(plan.indices.flatMap(\.value), .accepted(Acceptance(isDryRun: true)))
        }
        let sendAfter =
            options.schedulesOnPlatform ? notification.sendAt.flatMap { $0 > client.time.now ? $0 : nil } : nil
        let body = OneSignalPayload(notification, remaining: remaining, sendAfter: sendAfter)
        await withTaskGroup(of: Void.self) { tasks in
            for (number, chunk) in plan.chunks.enumerated() {
                if number >= 16 { await tasks.next() }
                tasks.addTask {
                    await self.send(chunk, body, plan, index, report)
                }
            }
        }
    }

    private func send(
        _ chunk: OneSignalBatchRequest,
        _ body: OneSignalPayload,
        _ plan: OneSignalBatch,
        _ index: Int,
        _ report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async {
        let mine = chunk.members.filter { plan.indices[$0.message] != nil }
        let verdict = await ledger.send(chunk, for: mine.map(\.message)) { await self.create($0, body) }
        if case .refused(let refusal) = verdict.outcome, refusal.reason == OneSignalBatch.tooMany,
            chunk.targets.count > 1
        {
            // Certainly no message was made, so both halves are sent under keys of their own.
            await ledger.forget(chunk.key)
            let limit = max(1, chunk.targets.count / 2)
            chunkSize.withLock { $0 = min($0, limit) }
            warn("batch_size", "OneSignal takes fewer ids in one request than batch_size: \(limit) from now on.")
            for half in OneSignalBatch.cut(mine, chunk.form, limit, name) {
                await send(half, body, plan, index, report)
            }
            return
        }
        let reports = mine.flatMap { member in
            (plan.indices[member.message] ?? []).map {
                DeliveryReport(request: index, recipient: $0, outcome: verdict.outcome(for: member.target))
            }
        }
        if !reports.isEmpty { report(reports) }
    }

    /// Handles one request and its one answer for all recipients in it.
    private func create(_ chunk: OneSignalBatchRequest, _ body: OneSignalPayload) async -> OneSignalOutcomes {
        if let wait = await share.reserve(chunk.targets.count) {
            let detail =
                "The app's limit of messages in 15 minutes would be crossed; OneSignal disables an app for that."
            warn("app_message_limit", detail)
            let refusal = Refusal(
                .platform,
                reason: "app_message_limit",
                detail: detail,
                advice: .slowBackend(after: wait)
            )
            return OneSignalOutcomes(outcome: .refused(refusal), isOpen: true)
        }
        let isLegacy = options.deviceAPI == .players
        let started = client.time.now
        let bytes = body.bytes(appID: options.appID, audience: chunk.audience, key: chunk.key, isLegacy: isLegacy)
        do throws(PushError) {
            switch try await client.exchange("POST", "/notifications", bytes, quota: .messages) {
            case .success(let answer):
                let verdict = OneSignalOutcomes(answer, for: chunk)
                inspect(answer, verdict)
                await recordUnsubscribed(answer, chunk, since: started)
                if case .accepted(let acceptance) = verdict.outcome, let id = acceptance.platformID,
                    chunk.form == .subscriptions
                {
                    await reconciler?.watch(id, expected: chunk.targets.count)
                }
                return verdict
            case .failure(let failure):
                // The idempotency key makes a repeat harmless.
                return OneSignalOutcomes(outcome: failure.outcome(), isOpen: true)
            }
        } catch {
            let refusal = Refusal(
                .platform,
                reason: error.reason ?? "quota",
                detail: error.message,
                advice: error.code == .rateLimited ? .slowBackend(after: error.retryAfter) : .retry(after: nil)
            )
            return OneSignalOutcomes(outcome: .refused(refusal), isOpen: true)
        }
    }

    private func inspect(_ answer: OneSignalAnswer, _ verdict: OneSignalOutcomes) {
        if answer.isReplayed { logger.debug("OneSignal repeated an earlier answer") }
        if let warnings = answer.body?["warnings"], warnings != .null {
            logger.debug("OneSignal warns of a message", metadata: ["warnings": "\(warnings.text.prefix(300))"])
        }
        let users = Set(answer.invalidAliases).count
        if users > 0 {
            // It is not known whether another device of these users got it: they count as accepted.
            let sentence = "\(users) users of a message have devices that are not subscribed."
            announce(BackendNotice(.info, "unsubscribed_devices", message: sentence))
        }
        switch verdict.outcome {
        case .accepted: alert.withLock { $0 = nil }
        case .refused(let refusal) where refusal.advice == .parkBackend:
            warn("account", refusal.detail ?? "OneSignal refused the account (\(refusal.reason)).", .error)
        default: break
        }
    }

    /// Logs and publishes a problem, once until a message is accepted.
    private func warn(_ name: String, _ sentence: String, _ level: BackendNotice.Level = .retry) {
        let isNews = alert.withLock { alert in
            defer { alert = sentence }
            return alert != sentence
        }
        guard isNews else { return }
        logger.warning("sending to OneSignal fails", metadata: ["problem": "\(name)", "detail": "\(sentence)"])
        announce(BackendNotice(level, name, message: sentence))
    }

    /// Records the devices that have unsubscribed.
    ///
    /// If a wrong app id may be the cause, none is recorded.
    private func recordUnsubscribed(_ answer: OneSignalAnswer, _ chunk: OneSignalBatchRequest, since started: Date)
        async
    {
        guard chunk.form == .subscriptions else { return }
        let ids = Set(answer.entries("invalid_player_ids") + answer.entries("invalid_subscription_ids"))
        let count = chunk.targets.count
        let wasRight = lastMade.withLock { lastMade in
            defer { if answer.id != nil { lastMade = started } }
            return started.timeIntervalSince(lastMade) < 86_400
        }
        guard !ids.isEmpty || answer.status == 200 && answer.id == nil else { return }
        if count > 1, answer.id == nil || ids.count * 2 > count {
            let found = ids.isEmpty ? count : ids.count
            warn("mass_refusal", "OneSignal calls \(found) of \(count) ids unsubscribed: is app_id right?")
        }
        // After a message was made, the ids that are named belong to the app. Without a message, a wrong app id is as
        // likely.
        let named = answer.id == nil ? count == 1 && wasRight ? Set(chunk.targets) : [] : ids
        for id in named {
            // If the store fails, the device is refused once more the next time.
            guard let device = try? await players.device(platformID: id.lowercased()),
                var record = try? await players.load(device: device), record.subscription != .unsubscribed,
                record.since.millisecondsSince1970 <= started.millisecondsSince1970  // As stores keep it.
            else { continue }
            record.subscription = .declined
            record.reason = 0
            record.since = client.time.now
            try? await players.save(record)
            let sentence = "OneSignal says that the device is not subscribed; it is left out until it registers again."
            announce(BackendNotice(.info, "unsubscribed", device: device, message: sentence))
        }
    }

    /// The size that chunks are cut to now.
    var currentChunkSize: Int { chunkSize.withLock { $0 } }
    /// The name in keys and stores.
    var backendName: String { name }

    // MARK: Checks, sizes and limits

    /// Finds what OneSignal would refuse or drop.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        OneSignalCheck.examine(notification)
    }

    /// Returns about how many bytes reach a device, with the texts of all languages, and the most that surely do.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        let payload = OneSignalPayload(notification, remaining: nil, sendAfter: nil)
        return PayloadSize(bytes: payload.estimatedSize, limit: OneSignalCheck.payloadLimit)
    }

    /// Returns the request without audience, app and idempotency key; it has all languages, since OneSignal chooses
    /// one.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        OneSignalPayload(notification, remaining: nil, sendAfter: nil).members
    }

    /// The number of recipients that the connections take in full requests.
    public var window: Int? { options.common.maximumConnections * currentChunkSize }

    /// One notification to as many recipients as the platform takes.
    public var batching: RequestBatching? { RequestBatching(limit: currentChunkSize, isMixed: false) }

    /// Whether OneSignal keeps messages, by the option.
    public var schedulesMessages: Bool { options.schedulesOnPlatform }

    /// The connections, and the last problem until a message is accepted.
    public var health: BackendHealth { BackendHealth(client.pool.status, alert: alert.withLock { $0 }) }

    /// Ends the backend.
    public func shutdown(grace: Duration) async {
        await reconciler?.shutdown()
        await client.shutdown(grace: grace)
    }

    /// Forgets the ids and subscription states of one device or of all.
    public func forget(device: String?) async throws(PushError) { try await players.forget(device) }

    /// Adds and edits devices.
    public var devices: (any DeviceRegistrar)? { registrar }
    /// Keeps subscriptions.
    public var subscriptions: (any SubscriptionManager)? { registrar }
    /// Keeps tags: of the user in the user model, of the device in the legacy one.
    public var tags: (any TagEditor)? { registrar }
    /// Cancels messages that are scheduled or still going out.
    public var cancellation: (any MessageCanceller)? { messages }
    /// Reads the state of a message, for all its recipients together.
    public var tracking: (any MessageTracker)? { messages }
}

/// The operations that both models of devices support.
protocol OneSignalDevices: DeviceRegistrar, SubscriptionManager, TagEditor {
    var client: OneSignalClient { get }
    var players: WatchedPlayers { get }
}

extension OneSignalDevices {
    /// Whether the device has a token that OneSignal takes.
    func accepts(_ device: DeviceRecord) -> Bool { (try? DeviceFields(device)) != nil }

    /// Whether the device waits, since its user has turned messages off.
    func awaits(_ device: DeviceRecord) -> Bool { players.isDeclined(device.id) }

    /// The app, its model and the entitlement of its tokens.
    var stamp: String {
        let options = client.options
        return "\(options.appID) \(options.deviceAPI.rawValue) \(options.environment.rawValue)"
    }
}
