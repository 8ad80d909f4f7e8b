public import ChaparCore
public import Foundation

extension BackendConformance {
    /// A backend, with the facts that the checks need about it and its platform.
    ///
    /// Leave out the abilities that the platform does not have. Give all that the backend declares: an ability without
    /// the means to observe it fails its check.
    public struct Subject: Sendable {
        /// The backend, ready to send.
        public var backend: any PushBackend
        /// Returns the recipient with a number, from 0 to ``largeBatch``: all different, and all accepted by the
        /// platform.
        public var recipient: @Sendable (Int) -> Recipient
        /// One recipient for each further form and token service of the audience.
        public var others: [Recipient]
        /// The message for recipients of a form, where the platform requires a special kind of message.
        public var messages: [Recipient.Form: PushNotification] = [:]
        /// A recipient whose token the platform declares dead.
        public var deadRecipient: Recipient?
        /// A recipient of a form or service that the backend cannot address.
        public var foreignRecipient: Recipient?
        /// Returns the number of messages that the platform has accepted so far, without those that it only checked.
        public var taken: (@Sendable () async -> Int)?
        /// Returns the number of requests of any kind that have reached the platform so far.
        public var requests: (@Sendable () async -> Int)?
        /// The largest payload in bytes of UTF-8, which `PushBackend.check(_:for:)` must know; nil when the platform
        /// has no such limit.
        ///
        /// The kit's texts are ASCII, so a limit in characters can be given as it is.
        public var payloadLimit: Int?
        /// Whether an acceptance carries a platform id that no other message has.
        ///
        /// False also where the platform gives one id to a whole request: the backend reports it with each message,
        /// receipts are matched by id and token together, and tracking by id cannot tell the messages apart.
        public var givesPlatformIDs: Bool
        /// Whether the platform accepts a message only once, no matter how often its id comes: then the kit checks that
        /// the backend sends the same id with every attempt.
        ///
        /// Nil means not stated, which is shown as a skipped check.
        public var takesRepeatsOnce: Bool?
        /// The number of recipients in a large batch: more than the platform takes in one request.
        public var largeBatch = 1_001
        /// The values that must never be shown: keys, secrets, credentials.
        public var secrets: [Secret] = []
        /// The log of the backend.
        public var log: RecordedLog?
        /// Makes the platform fail from now on; nil when the test cannot do that.
        public var disturb: (@Sendable (Disturbance) async throws -> Void)?
        /// Returns the requests that the backend has made so far, as ``RecordedTransport/requests`` has them.
        public var sent: (@Sendable () async -> [SentRequest])?
        /// Whether a request is about a credential and not about a message: by default a form with a `grant_type`.
        public var isCredentialRequest: @Sendable (SentRequest) -> Bool = { $0.text.contains("grant_type=") }
        /// Takes out of a request what differs with each attempt of a message because the platform asks for that: a
        /// time, a signature, a mark of a replay.
        public var stripped: @Sendable (SentRequest) -> SentRequest = { $0 }
        /// The traits that the platform does not have: the checks about them are shown as not declared.
        public var lacks: Set<Trait> = []
        /// Makes the platform refuse the backend's credential from now on, such as a wrong key.
        public var refuseCredential: (@Sendable () async throws -> Void)?
        /// Makes the platform refuse every access token that it has given out, and take new ones.
        public var expireCredential: (@Sendable () async throws -> Void)?
        /// Makes the platform ask for a pause of this length from now on, as with 429 and `Retry-After`.
        public var throttle: (@Sendable (Duration) async throws -> Void)?
        /// A recipient whose message the platform refuses in an answer that looks like a success.
        public var refusedUnderSuccess: Recipient?
        /// Recipients in the form of the platform's own that lead elsewhere, where a recipient is an address.
        public var hostileRecipients: [Recipient]?
        /// The backend's clock.
        public var now: @Sendable () -> Date = { Date() }
        /// The longest time of a send to a platform that never answers: the backend's own deadline.
        public var deadline = Duration.seconds(60)
        /// The extra time on a slow machine after which a call counts as never ending.
        public var waitLimit = Duration.seconds(20)
        /// The means to try the abilities.
        public var means = Means()

        /// Makes a subject.
        public init(
            backend: any PushBackend,
            recipient: @escaping @Sendable (Int) -> Recipient,
            others: [Recipient] = [],
            deadRecipient: Recipient? = nil,
            foreignRecipient: Recipient? = nil,
            taken: (@Sendable () async -> Int)? = nil,
            requests: (@Sendable () async -> Int)? = nil,
            payloadLimit: Int? = nil,
            givesPlatformIDs: Bool = true,
            disturb: (@Sendable (Disturbance) async throws -> Void)? = nil
        ) {
            self.backend = backend
            self.recipient = recipient
            self.others = others
            self.deadRecipient = deadRecipient
            self.foreignRecipient = foreignRecipient
            self.taken = taken
            self.requests = requests
            self.payloadLimit = payloadLimit
            self.givesPlatformIDs = givesPlatformIDs
            self.disturb = disturb
        }
    }

    /// A trait that most platforms have.
    @nonexhaustive
    public enum Trait: Sendable, CaseIterable {
        /// A request says how long the platform may try, and the backend refuses what has ended.
        case timeToLive
        /// A request carries the texts, in the language of its device.
        case languages
        /// Credentials end, and are fetched anew.
        case expiringCredentials
        /// The platform names the pause that it asks for.
        case retryAfter
        /// The platform refuses single messages in an answer that looks like a success.
        case refusalsUnderSuccess
        /// A recipient is an address to connect to.
        case addresses
    }

    /// The failure of a platform.
    @nonexhaustive
    public enum Disturbance: String, Sendable, CaseIterable {
        /// It takes messages and never answers.
        case silence
        /// It takes a message, and the connection ends before the answer.
        case lostAnswer = "lost_answer"
        /// It answers with a body that cannot be parsed.
        case unreadable
        /// Nothing answers at its address.
        case unreachable
    }

    /// The means to try a backend's abilities; each is needed only where the backend declares the ability.
    public struct Means: Sendable {
        /// A device that the platform keeps or may keep, for `PushBackend.devices`, subscriptions, tags and events.
        public var device: DeviceRecord?
        /// Subscription statuses that the platform distinguishes and that a device can be brought to.
        public var statuses: [SubscriptionStatus] = [.unsubscribed, .subscribed]
        /// Tags that the platform accepts.
        public var tags: JSONObject = ["conformance": "yes"]
        /// Returns the id of a message whose events the platform accepts.
        public var reported: (@Sendable () async throws -> String)?
        /// An event of an app's own that the platform takes, for `PushBackend.customEvents`.
        public var customEvent: CustomEvent?
        /// Returns the id of a message that the platform has accepted and that can still be cancelled.
        public var cancellable: (@Sendable () async throws -> String)?
        /// A user with a device that the platform knows, for `PushBackend.recall`.
        public var recallUser: String?
        /// The token of a device that the platform takes messages back from, for `PushBackend.revocation`.
        public var revocable: DeviceToken?
        /// A token that the platform knows, for `PushBackend.topics` and `PushBackend.tokenDirectory`.
        public var member: DeviceToken?
        /// A token that the platform imports, for `PushBackend.tokenDirectory`.
        public var imported: DeviceToken?
        /// Returns the id of a message whose state the platform reports.
        public var tracked: (@Sendable () async throws -> String)?
        /// An id in the platform's form that belongs to no message.
        public var unknownID = "00000000-0000-4000-8000-000000000000"
        /// Returns a callback in the platform's form, with at least one receipt in it.
        public var callback: (@Sendable () async throws -> ReceiptCallback)?
        /// A notification as an app of the platform received it, and the action of its user.
        public var click: ReportedClick?

        /// Makes the defaults.
        public init() {}
    }
}

extension ConformanceNeed<BackendConformance.Subject> {
    static let deadRecipient = Self("deadRecipient: one whose token the platform declares dead") {
        $0.deadRecipient != nil
    }
    static let foreignRecipient = Self("foreignRecipient: one of another platform") { $0.foreignRecipient != nil }
    static let taken = Self("taken: how many messages the platform has taken") { $0.taken != nil }
    static let payloadLimit = Self("payloadLimit: the most bytes of a message, if the platform has a limit") {
        $0.payloadLimit != nil
    }
    static let givesPlatformIDs = Self("givesPlatformIDs: true, if each acceptance carries an id of its own") {
        $0.givesPlatformIDs
    }
    static let takesRepeatsOnce = Self("takesRepeatsOnce: whether the platform takes an id once, and taken") {
        $0.takesRepeatsOnce != nil
    }
    static let disturb = Self(
        "disturb: makes the platform silent, lose an answer, answer nonsense, or be unreachable"
    ) { $0.disturb != nil }
    static let sent = Self("sent: the requests of a RecordedTransport that the backend uses") { $0.sent != nil }
    static let refuseCredential = Self("refuseCredential: makes the platform refuse the key") {
        $0.refuseCredential != nil
    }
    static let expireCredential = Self(
        "expireCredential: ends all access tokens; if none ever end, lacks .expiringCredentials"
    ) { $0.expireCredential != nil }
    static let throttle = Self("throttle: makes the platform ask for a pause; if it names none, lacks .retryAfter") {
        $0.throttle != nil
    }
    static let refusedUnderSuccess = Self(
        "refusedUnderSuccess: one that is refused under 200; if there is none, lacks .refusalsUnderSuccess"
    ) { $0.refusedUnderSuccess != nil }
    static let hostileRecipients = Self(
        "hostileRecipients: addresses elsewhere; if a recipient is no address, lacks .addresses"
    ) { $0.hostileRecipients != nil }
    static let timeToLive = has(.timeToLive)
    static let languages = has(.languages)
    static let expiringCredentials = has(.expiringCredentials)
    static let retryAfter = has(.retryAfter)
    static let refusalsUnderSuccess = has(.refusalsUnderSuccess)
    static let addresses = has(.addresses)

    private static func has(_ trait: BackendConformance.Trait) -> Self {
        Self("\(trait)") { !$0.lacks.contains(trait) }
    }

    static let secrets = Self("secrets: the keys that must never be shown") { !$0.secrets.isEmpty }
    static let log = Self("log: the RecordedLog that the backend logs to") { $0.log != nil }
}

extension BackendConformance.Subject {
    /// The text in every message of the checks, which must appear nowhere else.
    static let marker = "kit-5d1f0c"

    func request(_ numbers: Range<Int>, title: String = "Conformance") -> PushRequest {
        PushRequest(
            PushNotification(title: .plain(title), body: .plain("A message that any platform takes: \(Self.marker).")),
            to: numbers.map { Addressee(recipient($0)) }
        )
    }

    /// Sends within the deadline, and returns the outcomes; throws unless each was reported exactly once.
    @discardableResult
    func send(_ requests: [PushRequest]) async throws -> [DeliveryOutcome] {
        let tally = SendTally(requests)
        let backend = backend
        try await within(deadline + waitLimit, "a send was still under way \(waitLimit) after its deadline") {
            await backend.send(requests) { tally.take($0) }
        }
        return try tally.check()
    }

    func send(_ request: PushRequest) async throws -> [DeliveryOutcome] { try await send([request]) }

    /// Returns the rise of `count` while `body` ran; nil where the subject has no count.
    func rise(
        _ count: (@Sendable () async -> Int)?,
        while body: () async throws -> Void
    ) async throws -> Int? {
        guard let count else {
            try await body()
            return nil
        }
        let before = await count()
        try await body()
        return await count() - before
    }
}

/// Returns the acceptance of a message to a good recipient; throws for another outcome.
@discardableResult
func expectAccepted(_ outcome: DeliveryOutcome) throws(ConformanceFailure) -> Acceptance {
    guard case .accepted(let acceptance) = outcome else {
        throw ConformanceFailure("a message to a good recipient was not accepted: \(outcome)")
    }
    return acceptance
}
