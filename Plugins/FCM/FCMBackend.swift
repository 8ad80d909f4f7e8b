import Foundation
internal import Logging
public import ChaparCore
import Synchronization

/// Firebase Cloud Messaging: one project, over the HTTP v1 API and HTTP/2.
///
/// A delivery worker, or a caller's own code, sends through it. It handles access tokens, message blocks, limits and
/// the meaning of refusals. It does not queue and does not retry, with one exception: a message whose access token was
/// refused is sent once more with a fresh one within the same `send`. Recipients are tokens of `android-firebase`,
/// `ios-firebase`, `web-firebase` and `x-firebase`, which is of any of them (a text that begins with `fid:` is an
/// installation ID), topics, and conditions, which are topics whose text holds quotation marks. Source of all rules:
/// Firebase, "FCM HTTP v1 API" and the pages around it, read 2026-08.
public final class FCMBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "fcm"

    /// `fcm`.
    public var kind: BackendKind { Self.kind }
    /// Firebase tokens of Android and Apple devices and of browsers, topics and conditions.
    public let audience: BackendAudience
    /// Token look-up, topics and import of APNs tokens; nil when their address is not known.
    public let instanceIDs: FCMInstanceIDs?
    /// The strategy that authorizes the requests.
    public let auth: any AuthStrategy

    let options: FCMOptions
    let pool: any HTTPPool
    let time: any TimeSource
    private let pauses = FCMPartialPauses()
    private let templates = FCMTemplates()
    private let logger: Logger
    private let unknownCodes = SeenValues()
    private let shutdown = OneTimeStep()

    /// Makes a backend; nothing is opened before the first send.
    ///
    /// Throws when the trust or the proxy of the options cannot work.
    public init(options: FCMOptions, context: BackendContext) throws(HTTPPoolError) {
        self.options = options
        audience = BackendAudience(
            services: [.androidFirebase, .iOSFirebase, .webFirebase, .anyFirebase],
            forms: [.topic],
            broadcast: options.broadcast
        )
        time = context.time
        logger = context.logger
        func google(_ source: FCMAuth.Source) throws(HTTPPoolError) -> any AuthStrategy {
            let addresses = [options.endpoint] + (options.instanceIDEndpoint.map { [$0] } ?? [])
            return try FCMAuth(source, for: addresses, common: options.common, context: context)
        }
        switch options.credential {
        case .serviceAccount(let account): auth = try google(.serviceAccount(account))
        case .authorizedUser(let user): auth = try google(.authorizedUser(user))
        case .accessToken(let provide): auth = try google(.provider(provide))
        case .strategy(let strategy): auth = strategy
        }
        pool = try context.http.pool(options.pool(options.endpoint))
        if let endpoint = options.instanceIDEndpoint {
            instanceIDs = FCMInstanceIDs(
                endpoint: endpoint,
                pool: try context.http.pool(options.pool(endpoint)),
                auth: auth,
                time: context.time
            )
        } else {
            instanceIDs = nil
        }
    }

    // MARK: Sending

    /// Sends every message once and reports each answer as it comes.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        guard requests.contains(where: { !$0.recipients.isEmpty }) else { return }
        let started = time.now
        let credential: AuthCredential
        do throws(PushError) {
            credential = try await auth.credential(for: options.endpoint)
        } catch {
            return withoutCredential(requests, FCMRejections.outcome(of: error), started: started, report: report)
        }
        let batch = batch(requests, templates.template(for: credential), started: started)
        if !batch.refused.isEmpty { report(batch.refused) }
        await run(batch, credential, report: report)
    }

    private func batch(_ requests: [PushRequest], _ template: HTTPCallTemplate, started: Date) -> FCMBatch {
        var batch = FCMBatch(
            started: started,
            room: requests.indices.reduce(0) { $0 + requests[$1].recipients.count },
            template: template,
            path: options.sendPath,
            label: options.analyticsLabel,
            broadcast: options.broadcast,
            pauses: pauses,
            staleAfter: options.staleAfter,
            steady: time.steady
        )
        for index in requests.indices { batch.add(requests[index], at: index) }
        return batch
    }

    /// Reports the requests when no access token is available: faults that need no token now, the rest with `outcome`.
    private func withoutCredential(
        _ requests: [PushRequest],
        _ outcome: DeliveryOutcome,
        started: Date,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) {
        let batch = batch(requests, HTTPCallTemplate(method: "POST"), started: started)
        report(batch.refused + batch.slots.map { $0.report(outcome) })
    }

    private func run(
        _ batch: FCMBatch,
        _ credential: AuthCredential,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async {
        guard !batch.calls.isEmpty else { return }
        let replays = Mutex<[(index: Int, otherwise: DeliveryOutcome)]>([])
        let slots = batch.slots
        let started = batch.started
        await pool.send(batch.calls) { replies in
            var reports: [DeliveryReport] = []
            reports.reserveCapacity(replies.count)
            for reply in replies {
                let slot = slots[reply.index]
                switch self.verdict(on: reply.result, slot, started: started, isSecondTry: false) {
                case .final(let outcome), .hold(_, _, let outcome): reports.append(slot.report(outcome))
                case .replay(let otherwise): replays.withLock { $0.append((reply.index, otherwise)) }
                }
            }
            if !reports.isEmpty { report(reports) }
        }
        let refused = replays.withLock { $0 }
        guard !refused.isEmpty else { return }
        await replay(refused, of: batch, after: credential, report: report)
    }

    /// Sends messages that were refused for their access token once more, with a fresh one; a second refusal is final.
    private func replay(
        _ refused: [(index: Int, otherwise: DeliveryOutcome)],
        of batch: FCMBatch,
        after credential: AuthCredential,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async {
        let slots = batch.slots
        func giveUp(_ outcome: DeliveryOutcome?) {
            report(refused.map { slots[$0.index].report(outcome ?? $0.otherwise) })
        }
        guard !Task.isCancelled else {
            return giveUp(HTTPFailure(.notProcessed, .cancelled, "the send was cancelled").outcome())
        }
        guard case .retry = await auth.refused(credential, status: 401, reason: nil) else { return giveUp(nil) }
        let template: HTTPCallTemplate
        do throws(PushError) {
            template = templates.template(for: try await auth.credential(for: options.endpoint))
        } catch {
            return giveUp(FCMRejections.outcome(of: error))
        }
        let calls = refused.map { refused in
            var call = batch.calls[refused.index]
            call.template = template
            return call
        }
        await pool.send(calls) { replies in
            report(
                replies.map { reply in
                    let (index, otherwise) = refused[reply.index]
                    switch self.verdict(on: reply.result, slots[index], started: batch.started, isSecondTry: true) {
                    case .final(let outcome), .hold(_, _, let outcome): return slots[index].report(outcome)
                    case .replay: return slots[index].report(otherwise)
                    }
                }
            )
        }
    }

    private func verdict(
        on result: Result<HTTPAnswer, HTTPFailure>,
        _ slot: FCMBatch.Slot,
        started: Date,
        isSecondTry: Bool
    ) -> FCMRejections.Verdict {
        switch result {
        case .success(let answer) where answer.status == 200:
            return .final(acceptance(answer, slot))
        case .success(let answer):
            logUnknownCode(answer)
            let context = FCMRejections.Context(started: started, target: slot.target, isSecondTry: isSecondTry)
            let verdict = FCMRejections.verdict(on: answer, context)
            if case .hold(let part, let span, let outcome) = verdict {
                pauses.hold(part, for: span, after: outcome, at: time.steady)
            }
            return verdict
        case .failure(let failure):
            return .final(failure.outcome(isRepeatHarmful: slot.isRepeatHarmful))
        }
    }

    private func acceptance(_ answer: HTTPAnswer, _ slot: FCMBatch.Slot) -> DeliveryOutcome {
        guard let id = FCMMessageName.id(in: answer.body) else {
            if FCMAnswer(answer).isForeign { return FCMRejections.foreign(answer) }
            // The answer is Google's, but cut off or empty: most likely the message was accepted.
            let detail = "FCM answered 200 without a message name."
            return .unknown(UnknownOutcome(reason: "bad_answer", detail: detail))
        }
        return .accepted(
            Acceptance(
                platformID: id,
                isForAudience: !slot.target.isToken,
                isDryRun: slot.isDryRun,
                status: 200
            )
        )
    }

    /// Logs an unknown code, once.
    private func logUnknownCode(_ answer: HTTPAnswer) {
        guard let code = FCMAnswer(answer).errorCode, !FCMErrorCode.known.contains(code) else { return }
        guard unknownCodes.add(code) else { return }
        logger.debug(
            "FCM gave an unknown error code",
            metadata: ["code": "\(code)", "status": .stringConvertible(answer.status)]
        )
    }

    /// Adds tokens to topics; nil when the address of the Instance ID service is not known.
    public var topics: (any TopicManager)? { instanceIDs }
    /// Looks tokens up and imports APNs tokens; nil when the address of the Instance ID service is not known.
    public var tokenDirectory: (any TokenDirectory)? { instanceIDs }

    // MARK: Checks, sizes and limits

    /// Finds what Google would refuse; the exact size is counted only when a bound does not already show that it fits.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        FCMCheck.examine(payload(notification), form: recipient)
    }

    /// Returns the bytes that count against Google's limit, in the recipient's language.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        guard let kind = try? FCMTarget(addressee.recipient).kind else { return nil }
        let message = payload(notification).encoded(for: kind, language: addressee.language)
        return PayloadSize(bytes: FCMPayload.size(of: message), limit: kind.payloadLimit)
    }

    /// Returns the field `message` of the request to FCM, for a preview; nil for a recipient that FCM cannot address.
    ///
    /// It has no token, topic or condition. It has zeros in the place of the delivery's id, which is not known yet.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        guard let kind = try? FCMTarget(addressee.recipient).kind else { return nil }
        let message = payload(notification).encoded(for: kind, language: addressee.language)
        return (try? JSONValue(parsing: FCMBody.shown(message)))?.objectValue
    }

    private func payload(_ notification: PushNotification) -> FCMPayload {
        FCMPayload(
            notification: notification,
            overrides: notification.overrides[Self.kind.rawValue].map { FCMOverrides($0) },
            label: options.analyticsLabel,
            life: FCMPayload.Life()
        )
    }

    /// Whether a second copy does harm: true for the start of a Live Activity.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool {
        notification.overrides[Self.kind.rawValue].map { FCMOverrides($0).isRepeatHarmful } ?? false
    }

    /// The sum of the stream limits that Google grants now, at least 100; a quarter of it around quarter hours.
    ///
    /// Google asks large senders to keep away from two minutes before and after :00, :15, :30 and :45. Urgent messages
    /// go before others, so a large send does not delay them.
    public var window: Int? {
        let granted = max(100, pool.status.streamLimit)
        return options.spreadsQuarterHours && Self.isNearQuarterHour(time.now) ? max(25, granted / 4) : granted
    }

    /// Whether a moment is less than two minutes from a quarter of an hour.
    static func isNearQuarterHour(_ moment: Date) -> Bool {
        let second = moment.timeIntervalSince1970.truncatingRemainder(dividingBy: 900)
        return second < 120 || second > 780
    }

    /// Google's default quota of a project, reached over a minute as Google asks.
    public var pacing: Pacing? { .perMinute(600_000, rampUp: .seconds(60)) }

    /// The state of connections and access token, with Google's last complaint.
    public var health: BackendHealth {
        guard let failure = (auth as? FCMAuth)?.lastFailure else {
            return BackendHealth(pool.status, alert: pauses.detail(at: time.steady))
        }
        let severity: BackendHealth.Status = failure.code == .credentialsRefused ? .down : .degraded
        return BackendHealth(pool.status, alert: failure.message, severity: severity)
    }

    /// Ends the backend: open streams get until `grace`.
    public func shutdown(grace: Duration) async {
        guard shutdown.begin() else { return }
        await pool.shutdown(grace: grace)
        await instanceIDs?.pool.shutdown(grace: grace)
        await (auth as? FCMAuth)?.shutdown(grace: grace)
    }
}

/// Keeps the template of calls for the present access token, so that the transport compresses its fields once.
private final class FCMTemplates: Sendable {
    private let latest = Mutex<(credential: AuthCredential, template: HTTPCallTemplate)?>(nil)

    func template(for credential: AuthCredential) -> HTTPCallTemplate {
        latest.withLock { latest in
            if let latest, latest.credential.generation == credential.generation { return latest.template }
            let template = HTTPCallTemplate(
                method: "POST",
                headers: credential.httpHeaders + [HTTPHeader("content-type", "application/json; charset=utf-8")]
            )
            latest = (credential, template)
            return template
        }
    }
}
