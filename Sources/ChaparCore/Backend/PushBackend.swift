public import Foundation

/// A connection to one platform under one account, which carries notifications to recipients.
///
/// The dispatcher, or a caller's own code, calls `send` concurrently and owns queueing, retries and idempotency keys. A
/// backend offers each message once and reports the answer. Each further ability of a platform is a property that is
/// nil when the platform lacks it, so that callers can test for it and wrappers can pass it on. Plugin tests run the
/// conformance kit of `ChaparTesting`.
public protocol PushBackend: Sendable {
    /// The kind, in configuration files, log metadata and metric labels.
    var kind: BackendKind { get }

    /// The recipients that it can address.
    var audience: BackendAudience { get }

    /// Offers every recipient of every request to the platform once, and reports each exactly once, as answers come.
    ///
    /// - Parameters:
    ///   - requests: Notifications with their recipients. A payload is encoded once for all recipients of a request.
    ///   - report: Takes outcomes in groups, from any thread; it must not block.
    ///
    /// Returns when every recipient has been reported. Refusals and missing answers are outcomes, not errors. After a
    /// cancellation, outcomes still tell messages that were surely not sent from those that may have been.
    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async

    /// Checks a notification without asking the platform: its size after encoding, reserved keys, and fields that the
    /// platform would drop.
    ///
    /// Called before a notification is accepted, so it must be cheap for a small message.
    func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck

    /// Returns the size of the message for one recipient, and the platform's limit.
    ///
    /// Nil where no limit is known, and for a recipient that the backend cannot address. It encodes the message, and
    /// sends no request to the platform. A caller asks for a few recipients, such as the samples of a dry run, and
    /// never before each send.
    func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize?

    /// Returns the message for one recipient as the platform gets it, without the recipient and without credentials.
    ///
    /// Nil where the plugin does not show messages, and for a recipient that the backend cannot address. It is for
    /// previews: a caller asks for a few recipients, such as the samples of a dry run, and never before each send. No
    /// request goes to the platform.
    func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject?

    /// Whether a second copy of the notification does harm (a call that rings twice).
    ///
    /// Called when a gateway restarts and an earlier attempt may have been delivered. It must follow the same rule as
    /// ``UnknownOutcome/isRepeatHarmful``.
    func isRepeatHarmful(_ notification: PushNotification) -> Bool

    /// Returns which of a registered device's tokens the notification goes to; nil when none of them can take it.
    ///
    /// Called before a notification is accepted and before it is sent, so it must be cheap.
    func tokenUse(of notification: PushNotification) -> TokenUse?

    /// Brings a device token to the form the platform requires, or throws why it is invalid; called before
    /// registration and before a notification is accepted, so it must be cheap.
    ///
    /// Only for tokens of a service in ``audience``.
    func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken

    /// Returns nil when a message can be sent to the topic or the condition; else a sentence that says why not and how
    /// to correct it.
    ///
    /// Called before a notification is accepted; it checks only the text.
    func problem(withTopic topic: String) -> String?

    /// The number of messages that can usefully be in flight now, which follows from the peer's stream limit; nil when
    /// there is no such limit.
    var window: Int? { get }

    /// How the backend puts several messages into one request; nil when each message is a request of its own.
    ///
    /// When it is not nil, ``window`` is the number of requests that may be in flight at once, times the limit of
    /// messages in one request.
    var batching: RequestBatching? { get }

    /// The rate that the platform's quota allows; nil when no quota is known.
    ///
    /// It is a default: an operator's own limit overrides it.
    var pacing: Pacing? { get }

    /// Whether the platform keeps a message until its time to send.
    ///
    /// Otherwise the caller must keep the message, as a gateway does: ``send(_:report:)`` sends at once and does not
    /// read ``PushNotification/sendAt``.
    var schedulesMessages: Bool { get }

    /// The backend's own state, without a request to the platform.
    var health: BackendHealth { get }

    /// Returns why the platform would refuse everything at a time because of the credential's dates: it has expired, or
    /// is not valid yet.
    ///
    /// Nil while the credential is valid, and where credentials have no dates. It sends no request to the platform. A
    /// gateway parks a backend that has such a problem, and `chapar check` warns. If ``send(_:report:)`` is called
    /// nevertheless, it refuses the messages.
    func credentialProblem(at now: Date) -> Refusal?

    /// Checks for problems that keep the backend from working: key, certificate dates, clock, topic, reachability.
    func diagnose() async -> [Diagnosis]

    /// Watches the platform, where that is configured, until it is cancelled; returns at once where it is not
    /// configured.
    ///
    /// A gateway runs it beside the delivery worker, and cancels it before ``shutdown(grace:)``.
    func watch() async

    /// Shuts the backend down after its last send: closes connections within `grace`.
    func shutdown(grace: Duration) async

    /// The registration of devices at the platform.
    var devices: (any DeviceRegistrar)? { get }
    /// The subscriptions of devices.
    var subscriptions: (any SubscriptionManager)? { get }
    /// The tags and profile fields of devices.
    var tags: (any TagEditor)? { get }
    /// The reporting of delivery and open events.
    var events: (any EventReporter)? { get }
    /// The reporting of events of the app's own, such as a purchase.
    var customEvents: (any CustomEventReporter)? { get }
    /// The cancellation of messages that the platform has taken.
    var cancellation: (any MessageCanceller)? { get }
    /// The removal of messages that devices have received.
    var recall: (any MessageRecaller)? { get }
    /// The removal of messages from devices, by their tokens.
    var revocation: (any MessageRevoker)? { get }
    /// The lookup of messages that the platform has taken.
    var tracking: (any MessageTracker)? { get }
    /// The reader of the platform's later reports.
    var receipts: (any ReceiptReader)? { get }
    /// The reader of clicks that apps report.
    var clicks: (any ClickReader)? { get }
    /// The membership of tokens in topics of the platform.
    var topics: (any TopicManager)? { get }
    /// The broadcast channels of the platform.
    var channels: (any ChannelManager)? { get }
    /// The lookup of tokens, and the import of those of another platform.
    var tokenDirectory: (any TokenDirectory)? { get }

    /// The retry schedule of device operations that failed.
    var operationPolicy: RetrySchedule { get }
    /// Deletes everything that the backend stores about a device, or with nil about all devices: records, saved tokens,
    /// credentials of users.
    ///
    /// It sends nothing to the platform.
    func forget(device: String?) async throws(PushError)
}

extension PushBackend {
    /// Finds nothing.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        PayloadCheck()
    }
    /// Returns nil: no limit is known.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? { nil }
    /// Returns nil: the message is not shown.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? { nil }
    /// Returns nil: the credential has no dates.
    public func credentialProblem(at now: Date) -> Refusal? { nil }
    /// Returns false: a second copy is only a nuisance.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool { false }
    /// Returns the app's own token; none for a Live Activity.
    public func tokenUse(of notification: PushNotification) -> TokenUse? {
        notification.activity == nil ? TokenUse(.device) : nil
    }
    /// Accepts any text.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken { token }
    /// Returns nil: every topic can be sent to.
    public func problem(withTopic topic: String) -> String? { nil }
    /// No limit known.
    public var window: Int? { nil }
    /// Each message is a request of its own.
    public var batching: RequestBatching? { nil }
    /// No quota known.
    public var pacing: Pacing? { nil }
    /// The platform keeps no message.
    public var schedulesMessages: Bool { false }
    /// Nothing known to be wrong.
    public var health: BackendHealth { BackendHealth() }
    /// Checks nothing.
    public func diagnose() async -> [Diagnosis] { [] }
    /// Watches nothing.
    public func watch() async {}
    /// Closes nothing.
    public func shutdown(grace: Duration) async {}
    /// Not offered.
    public var devices: (any DeviceRegistrar)? { nil }
    /// Not offered.
    public var subscriptions: (any SubscriptionManager)? { nil }
    /// Not offered.
    public var tags: (any TagEditor)? { nil }
    /// Not offered.
    public var events: (any EventReporter)? { nil }
    /// Not offered.
    public var customEvents: (any CustomEventReporter)? { nil }
    /// Not offered.
    public var cancellation: (any MessageCanceller)? { nil }
    /// Not offered.
    public var recall: (any MessageRecaller)? { nil }
    /// Not offered.
    public var revocation: (any MessageRevoker)? { nil }
    /// Not offered.
    public var tracking: (any MessageTracker)? { nil }
    /// Not offered.
    public var receipts: (any ReceiptReader)? { nil }
    /// Not offered.
    public var clicks: (any ClickReader)? { nil }
    /// Not offered.
    public var topics: (any TopicManager)? { nil }
    /// Not offered.
    public var channels: (any ChannelManager)? { nil }
    /// Not offered.
    public var tokenDirectory: (any TokenDirectory)? { nil }
    /// The standard schedule.
    public var operationPolicy: RetrySchedule { .standard }
    /// Deletes nothing.
    public func forget(device: String?) async throws(PushError) {}

    /// Checks a notification before it is sent from code.
    ///
    /// Does the same as ``check(_:for:)``, and reports a fault for a ``PushNotification/sendAt`` when neither a gateway
    /// nor the platform would keep the message until then.
    public func check(_ notification: PushNotification, to recipient: Recipient) -> PayloadCheck {
        var result = check(notification, for: recipient.form)
        if let finding = schedulingFault(of: notification) { result.faults.append(finding) }
        return result
    }

    /// Sends one notification and waits for every outcome, in the order of the recipients.
    ///
    /// A message with a ``PushNotification/sendAt`` that is not over is refused (`scheduling_needs_a_gateway`) unless
    /// the platform keeps it until then.
    ///
    /// - Parameters:
    ///   - notification: The message.
    ///   - recipients: The recipients.
    ///   - language: The language tag of all of them, such as `fa` or `pt-BR`, by which localized texts are chosen.
    ///     With nil a composition takes the language of each device that its resolver knows, and all others get the
    ///     default text.
    /// - Returns: The outcomes, in the order of the recipients.
    public func send(
        _ notification: PushNotification,
        to recipients: [Recipient],
        language: String? = nil
    ) async -> [DeliveryOutcome] {
        let request = PushRequest(notification, to: recipients.map { Addressee($0, language: language) })
        return await send([request])[0]
    }

    /// Sends one notification to one recipient and waits for the outcome.
    ///
    /// A message with a ``PushNotification/sendAt`` that is not over is refused (`scheduling_needs_a_gateway`) unless
    /// the platform keeps it until then.
    ///
    /// - Parameters:
    ///   - notification: The message.
    ///   - recipient: The recipient.
    ///   - language: The recipient's language tag, such as `fa` or `pt-BR`, by which localized texts are chosen. With
    ///     nil a composition takes the language of a device that its resolver knows, and any other gets the default
    ///     text.
    /// - Returns: The outcome.
    public func send(
        _ notification: PushNotification,
        to recipient: Recipient,
        language: String? = nil
    ) async -> DeliveryOutcome {
        await send(notification, to: [recipient], language: language)[0]
    }

    /// Sends several notifications and waits for every outcome: a row for each request, in the order of its recipients.
    ///
    /// A message with a ``PushNotification/sendAt`` that is not over is refused (`scheduling_needs_a_gateway`) unless
    /// the platform keeps it until then.
    public func send(_ requests: [PushRequest]) async -> [[DeliveryOutcome]] {
        guard requests.contains(where: { $0.notification.sendAt != nil }) else { return await collect(requests) }
        let faults = requests.map { schedulingFault(of: $0.notification) }
        var sent = await collect(zip(requests, faults).filter { $1 == nil }.map(\.0))[...]
        return zip(requests, faults).map { request, fault in
            guard let fault else { return sent.popFirst() ?? [] }
            return request.recipients.map { _ in .refused(Refusal(fault)) }
        }
    }

    private func collect(_ requests: [PushRequest]) async -> [[DeliveryOutcome]] {
        guard !requests.isEmpty else { return [] }
        let collector = OutcomeCollector(requests)
        await send(requests) { collector.take($0) }
        return collector.outcomes
    }

    /// Returns the finding about a time to send that neither the platform nor this code keeps.
    private func schedulingFault(of notification: PushNotification) -> Finding? {
        guard let time = notification.sendAt, time > Date(), !schedulesMessages else { return nil }
        return Finding(
            pointer: "#/options/send_at",
            code: "scheduling_needs_a_gateway",
            detail: "Nothing keeps it until its time to send. Give it to an embedded gateway (Gateway.accept of the "
                + "product ChaparGateway), or send it at that time."
        )
    }
}

/// A notification and the recipients that a backend sends it to.
public struct PushRequest: Sendable {
    /// The content, the same for all recipients of the request.
    public var notification: PushNotification
    /// The recipients.
    public var recipients: [Addressee]
    /// The time when the platform must give up, computed once at acceptance so that a retry does not live longer.
    ///
    /// Nil when the notification has no ``PushNotification/timeToLive``: then the platform's own default applies. It is
    /// also nil when code without a gateway sends through a single backend: then the backend counts the time to live
    /// from the send. A composition of backends computes the expiry before a message waits. The backend refuses a
    /// message whose expiry has passed (`message`, `expired`, `never`).
    public var expiration: Expiration?

    /// The time when a platform must give up.
    @nonexhaustive
    public enum Expiration: Sendable, Hashable {
        /// Try once, store nothing.
        case immediately
        /// A time in seconds since 1970.
        case at(Int64)
    }

    /// Makes a request.
    public init(_ notification: PushNotification, to recipients: [Addressee], expiration: Expiration? = nil) {
        self.notification = notification
        self.recipients = recipients
        self.expiration = expiration
    }
}

extension [PushRequest] {
    /// Returns the requests with an expiry for each time to live.
    ///
    /// The time to live counts from `now`; the expiry is rounded up to a whole second. Code that may hold a message or
    /// send it again calls this first: otherwise each attempt would begin the time to live anew.
    package func fixingExpiry(at now: @autoclosure () -> Date) -> [PushRequest] {
        guard contains(where: { $0.expiration == nil && $0.notification.timeToLive != nil }) else { return self }
        let start = now().timeIntervalSince1970
        return map { request in
            guard request.expiration == nil, let span = request.notification.timeToLive else { return request }
            var fixed = request
            fixed.expiration = span > .zero ? .at(Int64(clamping: (start + span.inSeconds).rounded(.up))) : .immediately
            return fixed
        }
    }
}

/// One recipient of a request, with the id of its delivery.
public struct Addressee: Sendable, Hashable {
    /// The recipient.
    public var recipient: Recipient
    /// The delivery's id, the same for every attempt.
    public var messageID: MessageID
    /// Whether an earlier attempt may have been delivered.
    ///
    /// Then the backend sends an id that makes a second copy harmless, where the platform has such an id (APNs: a
    /// collapse id).
    public var isReplay: Bool
    /// The device's language tag, for localized texts.
    public var language: String?
    /// The last time at which the app is known to have had this token; nil when unknown.
    ///
    /// See ``ChaparQueue/Device/lastSeen(with:)``.
    public var lastSeen: Date?

    /// Makes an addressee; the id is random unless given.
    public init(
        _ recipient: Recipient,
        messageID: MessageID = .random(),
        isReplay: Bool = false,
        language: String? = nil,
        lastSeen: Date? = nil
    ) {
        self.recipient = recipient
        self.messageID = messageID
        self.isReplay = isReplay
        self.language = language
        self.lastSeen = lastSeen
    }
}

/// The outcome of one recipient of one request.
public struct DeliveryReport: Sendable {
    /// The request's place in the batch.
    public let request: Int
    /// The recipient's place in the request.
    public let recipient: Int
    /// The outcome.
    public let outcome: DeliveryOutcome

    /// Makes a report.
    public init(request: Int, recipient: Int, outcome: DeliveryOutcome) {
        self.request = request
        self.recipient = recipient
        self.outcome = outcome
    }
}

/// The recipients that a backend can address.
public struct BackendAudience: Sendable, Hashable {
    /// The token services whose tokens it takes.
    public var services: Set<TokenService>
    /// The other forms it takes, such as topics or ids of its own.
    public var forms: Set<Recipient.Form>
    /// The environment of its tokens, where the platform separates environments.
    public var environment: TokenEnvironment
    /// Whether one message may go to every user of the platform.
    ///
    /// The backend itself refuses such a message where the rule does not allow it; a caller that checks the rule first
    /// does not have to build the request.
    public var broadcast: BroadcastRule

    /// Makes an audience; without a rule, no message may go to every user.
    public init(
        services: Set<TokenService> = [],
        forms: Set<Recipient.Form> = [],
        environment: TokenEnvironment = .unknown,
        broadcast: BroadcastRule = BroadcastRule()
    ) {
        self.services = services
        self.forms = forms
        self.environment = environment
        self.broadcast = broadcast
    }

    /// Whether this audience takes tokens of the same service as another audience, but of the other environment.
    ///
    /// A message goes from one environment to the other only after its token was refused. After a failure of the
    /// platform or the account it does not, since the token may be valid here, and then the other environment would
    /// refuse it.
    public func isOtherEnvironment(of other: BackendAudience) -> Bool {
        environment.conflicts(with: other.environment) && !services.isDisjoint(with: other.services)
    }

    /// Whether the recipient can be addressed.
    public func contains(_ recipient: Recipient) -> Bool {
        if case .token(let token) = recipient { return services.contains(token.service) }
        return forms.contains(recipient.form)
    }
}

/// The result of checking a notification before it is sent.
public struct PayloadCheck: Sendable, Hashable {
    /// Faults that the platform would refuse; the notification must not be accepted.
    public var faults: [Finding]
    /// Warnings of fields that the platform would drop or change silently.
    public var warnings: [Finding]

    /// Makes a result; an empty one means all is well.
    public init(faults: [Finding] = [], warnings: [Finding] = []) {
        self.faults = faults
        self.warnings = warnings
    }
}

/// The size of an encoded message beside the most that its platform takes.
public struct PayloadSize: Sendable, Hashable {
    /// The bytes that count against ``limit``.
    public var bytes: Int
    /// The most bytes of a message, by the platform's documents or, where these are silent, the plugin's own bound.
    public var limit: Int

    /// Makes a size.
    public init(bytes: Int, limit: Int) {
        self.bytes = bytes
        self.limit = limit
    }

    /// The bytes that are left; negative for a message that is too large.
    package var room: Int { limit.subtracting(clamping: bytes) }
}
