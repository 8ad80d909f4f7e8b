internal import Foundation
internal import Logging
public import ChaparCore

/// RuStore's push service (VK): one project, over one of its two APIs.
///
/// A delivery worker, or a caller's own code, sends through it. It handles the credential, the form of messages, limits
/// and the meaning of refusals. It does not queue and does not retry. A request carries one message to one recipient,
/// also in the universal API: its answer to several tokens does not say which of them failed. Recipients are tokens of
/// `android-rustore` (direct) or `android-rustore-universal` (universal), and topics (universal only). The universal
/// API is asked to send through RuStore alone, so that no other platform's credential goes to a third party.
///
/// Source of all rules: RuStore's help, "Send push notifications" and "General push notifications", read 2026-09;
/// what they leave open is in `docs/platforms/RuStore.md`.
public final class RuStoreBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "rustore"

    /// `rustore`.
    public var kind: BackendKind { Self.kind }
    /// Tokens of the service of its mode; topics too in the universal API.
    public let audience: BackendAudience

    let options: RuStoreOptions
    let frame: RuStoreFrame
    let pool: any HTTPPool
    let time: any TimeSource
    let template: HTTPCallTemplate
    private let logger: Logger
    private let strategy: (any AuthStrategy)?
    private let unknownWords = SeenValues()
    private let shutdown = OneTimeStep()

    /// Makes a backend; nothing is opened before the first send.
    ///
    /// - Parameters:
    ///   - options: The project and how to connect.
    ///   - strategy: Authorizes the requests of the direct API in place of the service token.
    ///   - context: Its surroundings.
    /// - Throws: When the trust or the proxy of the options cannot work.
    public init(
        options: RuStoreOptions,
        strategy: (any AuthStrategy)? = nil,
        context: BackendContext
    ) throws(HTTPPoolError) {
        self.options = options
        self.strategy = strategy
        frame = options.frame
        audience = BackendAudience(
            services: [options.service],
            forms: options.mode == .universal ? [.topic] : [],
            broadcast: options.broadcast
        )
        time = context.time
        logger = context.logger
        pool = try context.authorized(by: strategy).http.pool(options.pool)
        let isInHeader = options.mode == .direct && strategy == nil
        template = RuStoreAuth.template(isInHeader ? options.serviceToken : nil)
    }

    /// Sends every message once and reports each answer as it comes.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        guard requests.contains(where: { !$0.recipients.isEmpty }) else { return }
        var batch = RuStoreBatch(
            frame: frame,
            service: options.service,
            broadcast: options.broadcast,
            template: template,
            paths: (token: options.sendPath, topic: RuStoreOptions.topicPath),
            started: time.now,
            room: requests.reduce(0) { $0 + $1.recipients.count }
        )
        for index in requests.indices { batch.add(requests[index], at: index) }
        if !batch.done.isEmpty { report(batch.done) }
        guard !batch.calls.isEmpty else { return }
        let (slots, started) = (batch.slots, batch.started)
        await pool.send(batch.calls) { replies in
            report(
                replies.map { reply in
                    let slot = slots[reply.index]
                    let addressee = requests[Int(slot.request)].recipients[Int(slot.recipient)]
                    return slot.report(self.outcome(of: reply.result, to: addressee.recipient, started: started))
                }
            )
        }
    }

    private func outcome(
        of result: Result<HTTPAnswer, HTTPFailure>,
        to recipient: Recipient,
        started: Date
    ) -> DeliveryOutcome {
        switch result {
        case .failure(let failure): return failure.outcome()
        case .success(let answer):
            let context = RuStoreRejections.Context(
                started: started,
                recipient: recipient,
                isUniversal: frame.isUniversal
            )
            let outcome = RuStoreRejections.outcome(on: answer, context)
            if !outcome.isAccepted { logUnknownWord(answer) }
            return outcome
        }
    }

    /// Logs a word that no table has, once; never the answer's text, which may echo the request.
    private func logUnknownWord(_ answer: HTTPAnswer) {
        guard let word = RuStoreAnswer(answer).word, !RuStoreRejections.known.contains(word) else { return }
        guard unknownWords.add(word) else { return }
        logger.debug(
            "RuStore gave an unknown status word",
            metadata: ["word": "\(word)", "status": .stringConvertible(answer.status)]
        )
    }

    // MARK: Checks, sizes and limits

    /// Finds what RuStore would refuse.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        RuStoreCheck.examine(payload(notification), in: frame)
    }

    /// Returns the bytes that count against RuStore's limit, in the recipient's language.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        let takesTopics = frame.isUniversal
        let target = try? RuStoreTarget(addressee.recipient, service: options.service, takesTopics: takesTopics)
        guard let target else { return nil }
        let body = RuStoreBody(payload(notification).encoded(language: addressee.language), in: frame)
        return PayloadSize(bytes: body.size(with: target), limit: RuStoreFrame.limit)
    }

    /// Returns the message in the recipient's language, without the token or topic.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        guard payloadSize(of: notification, for: addressee) != nil else { return nil }
        return (try? JSONValue(parsing: payload(notification).encoded(language: addressee.language)))?.objectValue
    }

    private func payload(_ notification: PushNotification) -> RuStorePayload {
        let overrides = notification.overrides[Self.kind.rawValue].map { RuStoreOverrides($0) }
        return RuStorePayload(notification: notification, overrides: overrides)
    }

    /// Returns the token as ``RuStoreTokenProvider/validate(_:)`` does: without blanks around it.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        try RuStoreTokenProvider.form(of: token.value, token.service)
    }

    /// Returns what is wrong with a topic's name.
    public func problem(withTopic topic: String) -> String? {
        RuStoreTarget.isTopic(topic) ? nil : RuStoreTarget.malformedTopic
    }

    /// The number of messages that connections take at once.
    public var window: Int? {
        options.version == .http1 ? options.common.maximumConnections : max(100, pool.status.streamLimit)
    }

    /// 50 messages a second at first, since RuStore publishes no rate; the rate rises to 500 over ten minutes of
    /// sending.
    ///
    /// A `rate_limit` in the configuration replaces it.
    public var pacing: Pacing? { Pacing(perSecond: 500, rampUp: .seconds(600), startShare: 0.1) }

    /// The connections.
    public var health: BackendHealth { BackendHealth(pool.status) }

    /// Ends the backend: open streams get until `grace`.
    public func shutdown(grace: Duration) async {
        guard shutdown.begin() else { return }
        await pool.shutdown(grace: grace)
        await strategy?.shutdown()
    }
}
