public import Foundation

/// A kind of backend: the word after `kind:` in a configuration file, such as `apns`.
public struct BackendKind: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The word.
    public let rawValue: String
    /// Makes a kind.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// Makes a kind.
    public init(stringLiteral value: String) { rawValue = value }
    /// The word.
    public var description: String { rawValue }
}

/// A connection to one platform under one account: what carries notifications to recipients.
///
/// The dispatcher, or a caller's own code, calls `send` concurrently and owns queueing, retries and idempotency keys. A
/// backend offers each message once and reports the answer. Whatever else a platform can do is a property that is nil
/// when it cannot, so that a caller finds out by asking and never by failing, and a wrapper can pass it on. Plugin
/// tests run the conformance kit of `PushTesting`.
public protocol PushBackend: Sendable {
    /// The kind, in configuration files, log metadata and metric labels.
    var kind: BackendKind { get }

    /// Which recipients it can address.
    var audience: BackendAudience { get }

    /// Offers every recipient of every request to the platform once, and reports each exactly once, as answers come.
    ///
    /// - Parameters:
    ///   - requests: Notifications with their recipients. A payload is encoded once for all recipients of a request.
    ///   - report: Takes outcomes in groups, from any thread; it must not block.
    ///
    /// Returns when every recipient has been reported. A refusal is an outcome; so is "no usable answer", cancellation
    /// included, which keeps apart what was surely not sent from what may have been.
    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async

    /// Checks what can be checked without the platform: size after encoding, reserved keys, fields it would drop.
    ///
    /// Called before a notification is accepted, so it must be cheap for a small message.
    func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck

    /// Whether a second copy of the notification does harm (a call that rings twice).
    ///
    /// Asked when a gateway starts again and an earlier attempt may have been delivered; the same rule as
    /// ``UnknownOutcome/isRepeatHarmful``.
    func isRepeatHarmful(_ notification: PushNotification) -> Bool

    /// Which of a registered device's tokens the notification goes to; nil when none of them can take it.
    ///
    /// Asked before a notification is accepted and before it is sent, so it must be cheap.
    func tokenUse(of notification: PushNotification) -> TokenUse?

    /// Brings a device token to the form the platform requires, or throws what is wrong with it; called before it is
    /// registered.
    ///
    /// Only for tokens of a service in ``audience``.
    func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken

    /// How many messages may usefully be under way now; it follows the peer's stream limit. Nil when there is no such
    /// limit.
    var window: Int? { get }

    /// How several messages go in one request; nil when each message is a request of its own.
    ///
    /// With it ``window`` is the number of requests that may be under way at once, times the limit of one.
    var batching: RequestBatching? { get }

    /// How fast the platform's quota lets it be used, for the one that paces it; nil when no quota is known.
    ///
    /// A default: an operator's own limit goes before it.
    var pacing: Pacing? { get }

    /// The backend's own state, without a request to the platform.
    var health: BackendHealth { get }

    /// Why the platform would take nothing at a time, for the dates of the backend's credential alone: it has ended, or
    /// not begun.
    ///
    /// Nil while it is good, and where credentials have no dates. Asked without a request to the platform: a gateway
    /// parks such a backend from its start on, and `chapar check` warns. ``send(_:report:)`` refuses by itself what it
    /// is given nevertheless.
    func credentialProblem(at now: Date) -> Refusal?

    /// Looks for what keeps the backend from working: key, certificate dates, clock, topic, reachability.
    func diagnose() async -> [Diagnosis]

    /// Keeps an eye on the platform, where that is wanted; ends when cancelled, or at once.
    ///
    /// A gateway runs it beside the delivery worker, and ends it before ``shutdown(grace:)``.
    func watch() async

    /// Ends the backend after its last send: closes connections within `grace`.
    func shutdown(grace: Duration) async

    /// Adds and edits devices on the platform.
    var devices: (any DeviceRegistrar)? { get }
    /// Keeps subscriptions.
    var subscriptions: (any SubscriptionManager)? { get }
    /// Keeps tags and profile fields.
    var tags: (any TagEditor)? { get }
    /// Takes delivery and open events.
    var events: (any EventReporter)? { get }
    /// Cancels messages that the platform has taken.
    var cancellation: (any MessageCanceller)? { get }
    /// Asks devices to take away messages that they have got.
    var recall: (any MessageRecaller)? { get }
    /// Tells the outcome of messages that the platform has taken.
    var tracking: (any MessageTracker)? { get }
    /// Checks and reads the platform's later reports.
    var receipts: (any ReceiptReader)? { get }
    /// Reads clicks that apps report.
    var clicks: (any ClickReader)? { get }
    /// Joins tokens to topics that the platform keeps.
    var topics: (any TopicManager)? { get }
    /// Keeps broadcast channels.
    var channels: (any ChannelManager)? { get }
    /// Looks tokens up, and imports those of another platform.
    var tokenDirectory: (any TokenDirectory)? { get }

    /// When something about a device that the platform could not take is tried again.
    var operationPolicy: RetrySchedule { get }
    /// Forgets what it keeps about a device, or about all: records, saved tokens, credentials of users. Tells the
    /// platform nothing.
    func forget(device: String?) async throws(PushError)
}

extension PushBackend {
    /// Nothing to say.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        PayloadCheck()
    }
    /// None: the credential has no dates.
    public func credentialProblem(at now: Date) -> Refusal? { nil }
    /// A second copy is a nuisance, no more.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool { false }
    /// The app's own token; none for a Live Activity.
    public func tokenUse(of notification: PushNotification) -> TokenUse? {
        notification.activity == nil ? TokenUse(.device) : nil
    }
    /// Any text is taken.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken { token }
    /// No limit known.
    public var window: Int? { nil }
    /// Each message is a request of its own.
    public var batching: RequestBatching? { nil }
    /// No quota known.
    public var pacing: Pacing? { nil }
    /// Nothing known to be wrong.
    public var health: BackendHealth { BackendHealth() }
    /// Nothing to look at.
    public func diagnose() async -> [Diagnosis] { [] }
    /// Nothing to watch.
    public func watch() async {}
    /// Nothing to close.
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
    public var cancellation: (any MessageCanceller)? { nil }
    /// Not offered.
    public var recall: (any MessageRecaller)? { nil }
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
    /// The usual.
    public var operationPolicy: RetrySchedule { .standard }
    /// Keeps nothing.
    public func forget(device: String?) async throws(PushError) {}

    /// Sends one notification and waits for every outcome, in the order of the recipients.
    public func send(_ notification: PushNotification, to recipients: [Recipient]) async -> [DeliveryOutcome] {
        let request = PushRequest(notification, to: recipients.map { Addressee($0) })
        return await send([request])[0]
    }

    /// Sends one notification to one recipient and waits for the outcome.
    public func send(_ notification: PushNotification, to recipient: Recipient) async -> DeliveryOutcome {
        await send(notification, to: [recipient])[0]
    }

    /// Sends several notifications and waits for every outcome: a row for each request, in the order of its recipients.
    public func send(_ requests: [PushRequest]) async -> [[DeliveryOutcome]] {
        let collector = OutcomeCollector(requests)
        await send(requests) { collector.take($0) }
        return collector.outcomes
    }
}

/// A notification with the recipients that get it, as a backend is asked to send it.
public struct PushRequest: Sendable {
    /// The content, the same for all recipients of the request.
    public var notification: PushNotification
    /// Who gets it.
    public var recipients: [Addressee]
    /// When the platform must give up, computed once at acceptance so that a retry does not live longer.
    ///
    /// Nil when the notification has no ``PushNotification/timeToLive``: the platform's own default holds. Nil with one
    /// only when code without a gateway sends: then the backend counts that span from the send. A time that has passed
    /// is the backend's to refuse (`message`, `expired`, `never`).
    public var expiration: Expiration?

    /// When a platform must give up.
    @nonexhaustive
    public enum Expiration: Sendable, Hashable {
        /// Try once, store nothing.
        case immediately
        /// Seconds since 1970.
        case at(Int64)
    }

    /// Makes a request.
    public init(_ notification: PushNotification, to recipients: [Addressee], expiration: Expiration? = nil) {
        self.notification = notification
        self.recipients = recipients
        self.expiration = expiration
    }
}

/// One recipient of a request, with the id of its delivery.
public struct Addressee: Sendable, Hashable {
    /// Who it is.
    public var recipient: Recipient
    /// The delivery's id, the same with every attempt.
    public var messageID: MessageID
    /// Whether an earlier attempt may have been delivered: then the platform gets what makes a second copy harmless,
    /// where it has such an id (APNs: a collapse id).
    public var isReplay: Bool
    /// The device's language tag, for localized texts.
    public var language: String?
    /// When the app was known to hold its token last; nil when unknown.
    ///
    /// See ``PushQueue/Device/lastSeen(with:)``.
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
    /// What became of it.
    public let outcome: DeliveryOutcome

    /// Makes a report.
    public init(request: Int, recipient: Int, outcome: DeliveryOutcome) {
        self.request = request
        self.recipient = recipient
        self.outcome = outcome
    }
}

/// Which recipients a backend can address.
public struct BackendAudience: Sendable, Hashable {
    /// The token services whose tokens it takes.
    public var services: Set<TokenService>
    /// The other forms it takes, such as topics or ids of its own.
    public var forms: Set<Recipient.Form>
    /// Which installations of the app its tokens are of, where the platform keeps them apart.
    public var environment: TokenEnvironment
    /// Whether one message may go to every user of the platform.
    ///
    /// The backend refuses such a message itself where it is not allowed; a caller that checks the rule first need not
    /// make one.
    public var broadcast: BroadcastRule

    /// Makes an audience; without a rule no message may go to every user.
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

    /// Whether it takes the same tokens as another audience, but of the other environment.
    ///
    /// A message goes from one to the other only after a refusal of its token: trouble of the platform, or of the
    /// account, is none of the token's, and the other environment would surely refuse it.
    public func isOtherEnvironment(of other: BackendAudience) -> Bool {
        environment.conflicts(with: other.environment) && !services.isDisjoint(with: other.services)
    }

    /// Whether the recipient can be addressed.
    public func contains(_ recipient: Recipient) -> Bool {
        if case .token(let token) = recipient { return services.contains(token.service) }
        return forms.contains(recipient.form)
    }
}

/// What a look at a notification found before it is sent.
public struct PayloadCheck: Sendable, Hashable {
    /// Faults that the platform would refuse; the notification must not be accepted.
    public var faults: [Finding]
    /// What the platform would drop or change silently.
    public var warnings: [Finding]

    /// Makes a finding; empty means all is well.
    public init(faults: [Finding] = [], warnings: [Finding] = []) {
        self.faults = faults
        self.warnings = warnings
    }
}
