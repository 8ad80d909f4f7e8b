public import Foundation
internal import Logging
public import ChaparCore
import Synchronization

/// Apple Push Notification service: one (team, key or certificate, environment), over HTTP/2.
///
/// A delivery worker, or a caller's own code, sends through it. It applies Apple's rules: provider tokens, push types,
/// limits, and the meaning of refusals. It does not queue and does not retry, with one exception: a message refused for
/// its connection's credential is sent once more on another connection within the same `send`. Source of all rules:
/// Apple's "Sending notification requests to APNs" and the pages around it, read 2026-08.
public final class APNsBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "apns"

    /// `apns`.
    public var kind: BackendKind { Self.kind }
    /// Apple's device tokens, and broadcast channels by their id.
    public let audience: BackendAudience
    /// The broadcast channels of the app; nil with a client certificate, or when their address is not known.
    public var channels: (any ChannelManager)? { ownChannels }

    let options: APNsOptions
    let pool: any HTTPPool
    private let ownChannels: APNsChannels?
    let tokens: APNsTokenSource?
    private let broadcastPool: any HTTPPool
    private let templates: APNsTemplates
    let time: any TimeSource
    private let logger: Logger
    private let unknownReasons = SeenValues()
    private let shutdown = OneTimeStep()

    /// Makes a backend; nothing is opened before the first send.
    ///
    /// Throws when a certificate or proxy of the options cannot work; the options' own rules are checked before.
    public init(options: APNsOptions, context: BackendContext) throws(HTTPPoolError) {
        self.options = options
        time = context.time
        logger = context.logger
        templates = APNsTemplates(topic: options.topic)
        switch options.credential {
        case .key(let key, let keyID, let teamID):
            tokens = APNsTokenSource(
                key: key,
                keyID: keyID,
                teamID: teamID,
                time: context.time,
                store: context.credentials,
                logger: context.logger
            )
        case .certificate, .strategy: tokens = nil
        }
        audience = BackendAudience(
            services: [.iOSAPNs],
            forms: options.hasProviderToken ? [.platformID] : [],
            environment: options.environment.ofTokens
        )
        let http = context.authorized(by: options.strategy).http
        let policy = APNsConnectionPolicy(tokens: tokens)
        func pool(_ endpoint: HTTPEndpoint) throws(HTTPPoolError) -> any HTTPPool {
            try http.pool(options.pool(endpoint, policy: policy))
        }
        self.pool = try pool(options.endpoint)
        broadcastPool = try options.broadcastEndpoint.map(pool) ?? self.pool
        if let tokens, let endpoint = options.managementEndpoint {
            ownChannels = APNsChannels(
                pool: try pool(endpoint),
                tokens: tokens,
                bundleID: options.topic,
                time: context.time
            )
        } else {
            ownChannels = nil
        }
    }

    // MARK: Sending

    /// Sends every message once and reports each answer as it comes.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await tokens?.prepare()
        var batch = APNsBatch(
            started: time.now,
            room: requests.indices.reduce(0) { $0 + requests[$1].recipients.count },
            templates: templates,
            options: options,
            storage: { self.ownChannels?.knownStorage(of: $0) }
        )
        for index in requests.indices { batch.add(requests[index], at: index) }
        if !batch.refused.isEmpty { report(batch.refused) }
        if let problem = credentialProblem(at: batch.started) {
            let outcome = DeliveryOutcome.refused(problem)
            return report((batch.deviceCalls.slots + batch.channelCalls.slots).map { $0.report(outcome) })
        }
        await run(batch.deviceCalls, on: pool, started: batch.started, report: report)
        await run(batch.channelCalls, on: broadcastPool, started: batch.started, report: report)
    }

    private func run(
        _ batch: APNsBatch.Calls,
        on pool: any HTTPPool,
        started: Date,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async {
        guard !batch.calls.isEmpty else { return }
        let replays = Mutex<[(index: Int, otherwise: DeliveryOutcome)]>([])
        let slots = batch.slots
        await pool.send(batch.calls) { replies in
            var reports: [DeliveryReport] = []
            reports.reserveCapacity(replies.count)
            for reply in replies {
                let slot = slots[reply.index]
                switch self.verdict(on: reply.result, slot, started: started, isSecondTry: false) {
                case .final(let outcome): reports.append(slot.report(outcome))
                case .replay(let otherwise): replays.withLock { $0.append((reply.index, otherwise)) }
                }
            }
            if !reports.isEmpty { report(reports) }
        }
        await replay(replays.withLock { $0 }, of: batch, on: pool, started: started, report: report)
    }

    /// Sends messages that were refused for their credential once more, on another connection and with the newest
    /// token.
    ///
    /// The refused connection is retired already. A second refusal is final.
    private func replay(
        _ refused: [(index: Int, otherwise: DeliveryOutcome)],
        of batch: APNsBatch.Calls,
        on pool: any HTTPPool,
        started: Date,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async {
        guard !refused.isEmpty else { return }
        guard !Task.isCancelled else {
            report(refused.map { batch.slots[$0.index].report($0.otherwise) })
            return
        }
        // A replay must not use another connection that still carries the refused token.
        if let tokens, tokens.consumeReplacement() { pool.replaceConnections() }
        await tokens?.prepare()  // Saves a token that was minted after the refusal.
        let slots = batch.slots
        await pool.send(refused.map { batch.calls[$0.index] }) { replies in
            report(
                replies.map { reply in
                    let (index, otherwise) = refused[reply.index]
                    switch self.verdict(on: reply.result, slots[index], started: started, isSecondTry: true) {
                    case .final(let outcome):
                        if case .success(let answer) = reply.result, answer.status == 200 { self.tokens?.confirm() }
                        return slots[index].report(outcome)
                    case .replay: return slots[index].report(otherwise)
                    }
                }
            )
        }
    }

    private func verdict(
        on result: Result<HTTPAnswer, HTTPFailure>,
        _ slot: APNsBatch.Slot,
        started: Date,
        isSecondTry: Bool
    ) -> APNsRejections.Verdict {
        switch result {
        case .success(let answer) where answer.status == 200 && answer.body.isEmpty:
            return .final(.accepted(acceptance(answer, slot)))
        case .success(let answer):
            if answer.status == 200, !APNsAnswer(answer).isForeign {
                return .final(.accepted(acceptance(answer, slot)))
            }
            logUnknownReason(answer)
            let context = APNsRejections.Context(
                started: started,
                isOwnTopic: slot.isOwnTopic,
                isBroadcast: slot.isBroadcast,
                isSecondTry: isSecondTry
            )
            return APNsRejections.verdict(on: answer, context)
        case .failure(let failure):
            return .final(failure.outcome(isRepeatHarmful: slot.isRepeatHarmful))
        }
    }

    private func acceptance(_ answer: HTTPAnswer, _ slot: APNsBatch.Slot) -> Acceptance {
        var acceptance = Acceptance(isForAudience: slot.isBroadcast, status: 200)
        for header in answer.headers {
            switch header.name {
            case "apns-id": acceptance.platformID = header.value
            // A broadcast is answered with the request's id.
            case "apns-request-id" where slot.isBroadcast:
                acceptance.platformID = acceptance.platformID ?? header.value
            case "apns-unique-id": acceptance.trackingID = header.value
            default: break
            }
        }
        if acceptance.platformID == nil, !slot.isBroadcast {
            logger.debug("APNs accepted a message without apns-id")
        }
        return acceptance
    }

    /// Logs an unknown reason, once.
    private func logUnknownReason(_ answer: HTTPAnswer) {
        guard let reason = APNsAnswer(answer).reason, !APNsRejections.isKnown(reason) else { return }
        guard unknownReasons.add(reason) else { return }
        logger.debug(
            "APNs gave an unknown reason",
            metadata: ["reason": "\(reason)", "status": .stringConvertible(answer.status)]
        )
    }

    // MARK: Checks, sizes and limits

    /// Finds what Apple would refuse; the exact size is counted only when a bound does not already show that it fits.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        if recipient == .token, APNsCheck.isPlain(notification), !APNsPayload.needsExtension(notification),
            APNsPayload.upperBound(notification, overrides: nil) <= APNsPushType.alert.payloadLimit
        {
            return PayloadCheck()
        }
        let overrides = notification.overrides[Self.kind.rawValue].map { APNsOverrides($0) }
        let headers = APNsHeaders(
            notification,
            overrides: overrides,
            form: recipient,
            topic: options.topic,
            hasProviderToken: tokens != nil
        )
        return APNsCheck.examine(notification, headers: headers, overrides: overrides, form: recipient)
    }

    /// Returns the bytes of the payload in the recipient's language, and Apple's limit for the push type.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        let (headers, payload) = encoded(notification, for: addressee)
        return PayloadSize(bytes: payload.count, limit: APNsCheck.limit(headers, addressee.recipient.form))
    }

    /// Returns the request's body, in the recipient's language.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        (try? JSONValue(parsing: encoded(notification, for: addressee).payload))?.objectValue
    }

    private func encoded(
        _ notification: PushNotification,
        for addressee: Addressee
    ) -> (headers: APNsHeaders, payload: [UInt8]) {
        let overrides = notification.overrides[Self.kind.rawValue].map { APNsOverrides($0) }
        let headers = APNsHeaders(
            notification,
            overrides: overrides,
            form: addressee.recipient.form,
            topic: options.topic,
            hasProviderToken: tokens != nil
        )
        let payload = APNsPayload.encode(
            notification,
            language: addressee.language,
            pushType: headers.pushType,
            overrides: overrides
        )
        return (headers, payload)
    }

    /// Returns which of a device's tokens the push goes to; nil when none takes it.
    ///
    /// The push type decides. The start of a Live Activity goes to the token of its attributes' type, an update or end
    /// to the token of the activity.
    public func tokenUse(of notification: PushNotification) -> TokenUse? {
        guard let overrides = notification.overrides[Self.kind.rawValue] else {
            return notification.activity == nil ? TokenUse(.device) : nil
        }
        return APNsOverrides(overrides).tokenUse(activity: notification.activity)
    }

    /// Whether a second copy does harm: true for calls, Push-to-Talk and the start of a Live Activity.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool {
        guard let overrides = notification.overrides[Self.kind.rawValue].map({ APNsOverrides($0) }) else {
            return false
        }
        return overrides.isRepeatHarmful
    }

    /// The sum of the stream limits that Apple grants now; at least 1, so that a first message opens a connection.
    public var window: Int? { max(1, pool.status.streamLimit) }

    /// Returns the refusal of all messages while the dates of the client certificate do not allow sending; nil with a
    /// key.
    public func credentialProblem(at now: Date) -> Refusal? {
        guard case .certificate(let certificate) = options.credential else { return nil }
        return certificate.problem(at: now)
    }

    /// The state of connections and credential, with Apple's last complaint.
    public var health: BackendHealth {
        guard case .certificate(let certificate) = options.credential else {
            return BackendHealth(pool.status, alert: tokens?.alert)
        }
        let validity = certificate.validity(at: time.now)
        let finding = validity.fix.map { "\(validity.finding) \($0)" } ?? validity.finding
        var health = BackendHealth(
            pool.status,
            alert: validity.verdict == .ok ? nil : finding,
            severity: validity.verdict == .failure ? .down : .degraded
        )
        health.credentialExpiries["client_certificate"] = certificate.notAfter
        return health
    }

    /// Ends the backend: open streams get until `grace`.
    public func shutdown(grace: Duration) async {
        guard shutdown.begin() else { return }
        await tokens?.prepare()
        await pool.shutdown(grace: grace)
        if options.broadcastEndpoint != nil { await broadcastPool.shutdown(grace: grace) }
        await ownChannels?.pool.shutdown(grace: grace)
        await options.strategy?.shutdown()
    }
}
