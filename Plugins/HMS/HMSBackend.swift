import Foundation
internal import Logging
public import ChaparCore
import Synchronization

/// Huawei Push Kit: one app or project, over HTTPS.
///
/// A delivery worker, or a caller's own code, sends through it. It applies Huawei's rules: access tokens, batches of up
/// to 1,000 recipients, the verdicts inside a successful answer, receipts. It does not queue. It sends again only
/// messages that Huawei certainly did not accept: a request that was refused for its credential once more with a fresh
/// one, a request that was refused for its size in parts, and a request that was refused for its urgency with normal
/// urgency. Source of all rules: Huawei's "Push Kit" REST reference, read 2026-08.
public final class HMSBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "hms"

    /// `hms`.
    public var kind: BackendKind { Self.kind }
    /// Huawei's device tokens of Android and iOS, and topics, also as conditions such as
    /// `'news' in topics && 'fa' in topics`; with v3 the tokens of HarmonyOS 5 and later, and nothing else.
    public let audience: BackendAudience
    /// The topics of the app; nil when its id is not known.
    public let topics: (any TopicManager)?
    /// Takes messages back; nil with v1 and v2, and without the id of the client.
    public let revocation: (any MessageRevoker)?
    /// Checks and reads delivery receipts; nil without the settings of their signature.
    public let receipts: (any ReceiptReader)?
    /// The strategy that authorizes requests.
    public let auth: any AuthStrategy

    let options: HMSOptions
    let time: any TimeSource
    let pool: any HTTPPool
    let client: HMSClient
    private let tokenPool: (any HTTPPool)?
    private let logger: Logger
    private let flow = HMSFlowControl()
    private let knownGood = HMSKnownGoodTokens()
    private let pauses = HMSTokenPauses()
    /// The time until which urgent messages are sent with normal urgency, since Huawei said that the app has no right
    /// to urgent ones.
    private let demotedUntil = Mutex<Date>(.distantPast)
    private let unknownCodes = SeenValues()
    private let alert = Mutex<String?>(nil)
    private let shutdown = OneTimeStep()

    /// Makes a backend; nothing is opened before the first send.
    ///
    /// Throws when a certificate or proxy of the options cannot work; the options' own rules are checked before.
    public init(options: HMSOptions, context: BackendContext) throws(HTTPPoolError) {
        self.options = options
        audience =
            options.isHarmony
            ? BackendAudience(services: [.harmonyHuawei])
            : BackendAudience(services: [.androidHuawei, .iOSHuawei], forms: [.topic], broadcast: options.broadcast)
        time = context.time
        logger = context.logger
        pool = try context.http.pool(options.pool(options.endpoint))
        switch options.credential {
        case .client(let id, let secret):
            let tokenPool = try context.http.pool(options.pool(options.tokenEndpoint))
            self.tokenPool = tokenPool
            auth = HMSAuth(
                clientID: id,
                secret: secret,
                pool: tokenPool,
                for: [options.endpoint],
                time: context.time
            )
        case .serviceAccount(let account):
            tokenPool = nil
            auth = HMSAuth(account: account, for: [options.endpoint], time: context.time)
        case .strategy(let strategy):
            tokenPool = nil
            auth = strategy
        }
        client = HMSClient(pool: pool, auth: auth, endpoint: options.endpoint, time: context.time)
        topics = options.isHarmony ? nil : options.appID.map { [client] in HMSTopics(appID: $0, client: client) }
        revocation = options.revocationID.map { [client] in HMSRevocation(clientID: $0, client: client) }
        receipts = options.receipts.map { [pauses] in HMSReceipts($0, pauses: pauses) }
    }

    // MARK: Sending

    /// Sends every message once, in as few requests as its recipients allow, and reports each answer as it comes.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let started = time.now
        var batch = HMSBatch(
            started: started,
            options: options,
            pauses: pauses,
            isDemoted: options.demotesWithoutRight && started < demotedUntil.withLock { $0 }
        )
        for index in requests.indices { batch.add(requests[index], at: index) }
        if !batch.refused.isEmpty { report(batch.refused) }
        var waiting = batch.batchRequests
        if options.isHarmony {
            // The API v3 has no dry runs: only the checks made here can be reported.
            let dry = waiting.filter(\.isDryRun)
            waiting.removeAll(where: \.isDryRun)
            if !dry.isEmpty { report(dry.flatMap { $0.reports(.accepted(Acceptance(isDryRun: true))) }) }
        }
        // Each further round has only messages that Huawei certainly did not accept, with fewer recipients, less
        // urgency or a fresh credential.
        while !waiting.isEmpty {
            waiting = await round(waiting, started: started, report: report)
        }
    }

    /// The requests of a round that have no final outcome yet.
    private struct Rest {
        var again: [HMSBatchRequest] = []
        var unauthorized: [(batchRequest: HMSBatchRequest, code: String?, status: Int, otherwise: DeliveryOutcome)] = []
        var suspicious: [HMSBatchRequest] = []
    }

    private func round(
        _ batchRequests: [HMSBatchRequest],
        started: Date,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async -> [HMSBatchRequest] {
        let credential: AuthCredential
        do throws(PushError) {
            credential = try await auth.credential(for: options.endpoint)
        } catch {
            recordAlert(error)
            report(batchRequests.flatMap { $0.reports(HMSOutcomes.outcome(of: error)) })
            return []
        }
        let headers = credential.httpHeaders.map { HTTPHeader($0.name, $0.value, .indexed) }
        let calls = batchRequests.map { batchRequest in
            let scene = batchRequest.message.pushType.map { [HTTPHeader("push-type", String($0), .indexed)] } ?? []
            return HTTPCall(
                HMSClient.template,
                path: options.sendPath,
                headers: headers + scene,
                body: batchRequest.body
            )
        }
        let rest = Mutex(Rest())
        await pool.send(calls) { replies in
            var reports: [DeliveryReport] = []
            for reply in replies {
                let batchRequest = batchRequests[reply.index]
                let outcomes = HMSOutcomes(started: started, batchRequest: batchRequest)
                switch reply.result {
                case .failure(let failure): reports += outcomes.verdict(on: failure)
                case .success(let answer):
                    let answer = HMSAnswer(answer, now: started)
                    self.look(at: answer, batchRequest, at: started)
                    switch outcomes.verdict(on: answer, flow: self.flow) {
                    case .reports(let own): reports += own
                    case .again(let parts): rest.withLock { $0.again += parts }
                    case .reauthorize(let code, let status, let otherwise):
                        rest.withLock { $0.unauthorized.append((batchRequest, code, status, otherwise)) }
                    case .suspicious: rest.withLock { $0.suspicious.append(batchRequest) }
                    }
                }
            }
            if !reports.isEmpty { report(reports) }
        }
        return await resolve(rest.withLock { $0 }, credential, started: started, report: report)
    }

    /// Decides about refusals of a whole request; returns the requests of the next round.
    private func resolve(
        _ rest: Rest,
        _ credential: AuthCredential,
        started: Date,
        report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async -> [HMSBatchRequest] {
        var again = rest.again
        for (batchRequest, code, status, otherwise) in rest.unauthorized {
            guard !Task.isCancelled, await auth.refused(credential, status: status, reason: code) == .retry else {
                report(batchRequest.reports(otherwise))
                continue
            }
            var batchRequest = batchRequest
            batchRequest.isReauthorized = true
            again.append(batchRequest)
        }
        if !rest.suspicious.isEmpty {
            let isAppFine = Task.isCancelled ? nil : await probeKnownGoodToken(credential, at: started)
            for batchRequest in rest.suspicious {
                report(HMSOutcomes(started: started, batchRequest: batchRequest).afterProbe(isAppFine: isAppFine))
            }
        }
        return again
    }

    /// Whether Huawei still takes a token that it took within the last day; nil when unknown.
    private func probeKnownGoodToken(_ credential: AuthCredential, at now: Date) async -> Bool? {
        // v3 has no message that is checked and not sent.
        guard !options.isHarmony, let token = knownGood.token(at: now) else { return nil }
        let call = HTTPCall(
            HMSClient.template,
            path: options.sendPath,
            headers: credential.httpHeaders,
            body: HMSClient.probe(token: token)
        )
        guard let answer = try? await pool.send(call) else { return nil }
        switch HMSAnswer(answer, now: now).code {
        case "80000000": return true
        case "80300007", "80300002":
            knownGood.forget(token)
            return false
        default: return nil
        }
    }

    /// Records the facts of an answer about the whole backend: flow, alert, tokens to pause, and the right to urgent
    /// messages.
    private func look(at answer: HMSAnswer, _ batchRequest: HMSBatchRequest, at now: Date) {
        guard let code = answer.code else { return }
        switch code {
        case "80000000":
            flow.accepted()
            alert.withLock { $0 = nil }
            if !batchRequest.isDryRun, case .tokens(let tokens) = batchRequest.target, let first = tokens.first {
                knownGood.add(first, at: now)
            }
        case "80100000":
            flow.accepted()
            pause(answer, at: now)
        case "80300007":
            // If no token was accepted lately, a wrong project explains the answer as well as a token without the
            // right.
            if knownGood.token(at: now) != nil { pause(answer, at: now) }
        case "80300011": demotedUntil.withLock { $0 = now.addingTimeInterval(600) }
        case "80200005" where batchRequest.isReauthorized:
            alert.withLock { $0 = HMSRejections.rule(for: code)?.detail }
        default:
            guard !HMSRejections.isKnown(code) else { return }
            if unknownCodes.add(code) { logger.debug("Huawei gave an unknown code", metadata: ["code": "\(code)"]) }
        }
    }

    /// Pauses the tokens that an answer refuses, where the reason calls for a pause.
    private func pause(_ answer: HMSAnswer, at now: Date) {
        for (token, reason) in answer.partial?.refused ?? [] {
            if let reason { pauses.add(reason, of: token, at: now) }
        }
    }

    private func recordAlert(_ error: PushError) {
        if error.code == .credentialsRefused { alert.withLock { $0 = error.message } }
    }

    // MARK: Checks, sizes and limits

    /// Finds what Huawei would refuse.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        HMSCheck.examine(notification, for: recipient, options: options)
    }

    /// Returns the bytes of the message in the recipient's language, and Huawei's limit.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        HMSCheck.size(of: notification, for: addressee, options: options)
    }

    /// Returns the message in the recipient's language, without tokens or topic.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        HMSCheck.message(notification, for: addressee, options: options)
    }

    /// Whether a second copy does harm: true for messages that show nothing, since a second copy cannot replace the
    /// first.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool { notification.isSilent }

    /// The number of recipients in full requests on all connections; fewer after Huawei has limited the flow.
    public var window: Int? {
        max(1, Int(clamping: Double(options.common.maximumConnections * options.batchSize) * flow.share))
    }

    /// One notification in each request, with at most ``HMSOptions/batchSize`` recipients.
    public var batching: RequestBatching? { RequestBatching(limit: options.batchSize, isMixed: false) }

    /// The state of connections and credential, with Huawei's last complaint.
    public var health: BackendHealth { BackendHealth(pool.status, alert: alert.withLock { $0 }) }

    /// Ends the backend: open requests get until `grace`.
    public func shutdown(grace: Duration) async {
        guard shutdown.begin() else { return }
        await pool.shutdown(grace: grace)
        await tokenPool?.shutdown(grace: grace)
        await auth.shutdown()
    }
}
