internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// A device in the FCM simulator.
public struct FCMDevice: Sendable, Hashable {
    /// The state of its token.
    @nonexhaustive
    public enum State: Sendable, Hashable {
        /// It gets messages.
        case alive
        /// The token is dead: 404 `UNREGISTERED`.
        case unregistered
        /// It belongs to another project: 403 `SENDER_ID_MISMATCH`.
        case otherSender
        /// It is no token at all: 400 `INVALID_ARGUMENT` that names it.
        case malformed
        /// Apple refuses the project's key: 401 `THIRD_PARTY_AUTH_ERROR`.
        case brokenAppleKey
    }

    /// The state of its token.
    public var state: State
    /// `ANDROID`, `IOS` or `CHROME`.
    public var platform: String
    /// The app.
    public var application: String

    /// Makes a device.
    public init(state: State = .alive, platform: String = "ANDROID", application: String = "com.example.chapar") {
        self.state = state
        self.platform = platform
        self.application = application
    }
}

/// The state of the FCM simulator.
///
/// A value, changed behind a lock.
struct FCMState: Sendable {
    /// An access token that was issued.
    struct AccessToken: Sendable {
        var projectID: String
        var expires: Date
        var isRevoked = false
    }

    var accounts: [String: FCMServiceAccountKey] = [:]
    var disabledAccounts: Set<String> = []
    var refreshTokens: [String: String] = [:]
    var accessTokens: [String: AccessToken] = [:]
    var devices: [String: FCMDevice] = [:]
    var topics: [String: [String: Date]] = [:]
    var itemErrors: [String: (word: String, times: Int)] = [:]
    var missingResults = 0
    var tokenLifetime: Int
    var omitsLifetime = false
    var inbox: FCMInbox
    var counters = FCMCounters()
    var quotas: FCMQuotaMeter
    var magicSeen = BoundedSet<String>(limit: 100_000)
    var random: SeededGenerator

    init(_ configuration: FCMSimulatorConfiguration, seed: UInt64) {
        tokenLifetime = configuration.tokenLifetime
        inbox = FCMInbox(limit: configuration.inboxLimit)
        quotas = FCMQuotaMeter(configuration.quotas)
        random = SeededGenerator(seed: seed)
    }

    /// Clears the inbox, the counters, the quotas in use, planned errors and the memory of magic tokens; accounts,
    /// tokens and topics stay.
    mutating func reset() {
        inbox = FCMInbox(limit: inbox.limit)
        counters = FCMCounters()
        magicSeen = BoundedSet(limit: 100_000)
        quotas.reset()
        itemErrors = [:]
        missingResults = 0
    }

    /// Issues a new access token; expired ones are removed from time to time.
    mutating func issueToken(projectID: String, now: Date) -> String {
        if accessTokens.count > 10_000 { accessTokens = accessTokens.filter { $0.value.expires > now } }
        let value = "ya29.sandbox-" + String(random.next(), radix: 36) + String(random.next(), radix: 36)
        accessTokens[value] = AccessToken(
            projectID: projectID,
            expires: now.addingTimeInterval(TimeInterval(tokenLifetime))
        )
        return value
    }
}

/// Counts messages against quotas, in each minute.
struct FCMQuotaMeter: Sendable {
    /// A quota that is used up.
    enum Exceeded: String, Sendable {
        case project
        case device
        case topic
    }

    var limits: FCMSimulatorConfiguration.Quotas
    private var minute = Int64.min
    private var project = 0
    private var topics = 0
    private var devices: [String: Int] = [:]

    init(_ limits: FCMSimulatorConfiguration.Quotas) { self.limits = limits }

    mutating func reset() { minute = .min }

    /// Counts a message; returns the quota that it exceeds, if any.
    mutating func reserve(token: String?, now: Date) -> Exceeded? {
        let current = Int64(clamping: now.timeIntervalSince1970 / 60)
        if current != minute { (minute, project, topics, devices) = (current, 0, 0, [:]) }
        project += 1
        if let limit = limits.project, project > limit { return .project }
        guard let token else {
            topics += 1
            return limits.topics.map { topics > $0 } ?? false ? .topic : nil
        }
        guard let limit = limits.device else { return nil }
        devices[token, default: 0] += 1
        return devices[token, default: 0] > limit ? .device : nil
    }
}

/// The counts of events since the FCM simulator started or was reset.
public struct FCMCounters: Sendable, Hashable {
    /// Sends that arrived.
    public var sends = 0
    /// Messages that were accepted, without dry runs.
    public var accepted = 0
    /// Accepted messages to topics and conditions.
    public var acceptedForAudience = 0
    /// Dry runs that passed.
    public var validated = 0
    /// Refused sends, by error code, or by status when there is no code.
    public var refused: [String: Int] = [:]
    /// Requests to the token endpoint that got an access token.
    public var tokensIssued = 0
    /// Requests to the token endpoint that were refused, by error.
    public var tokensRefused: [String: Int] = [:]
    /// Calls of the Instance ID service.
    public var instanceIDCalls = 0
    /// Accepted messages that repeat, for the same target, a notification id, a tag or collapse ID, or else the whole
    /// message.
    public var duplicates = 0
    /// The ``duplicates`` that show something and have no tag, collapse key or collapse ID: a person would have seen
    /// them twice.
    public var doubledOnDevice = 0

    /// Makes counters at zero.
    public init() {}

    /// The sum of all refused sends.
    public var refusedTotal: Int { refused.values.reduce(0, +) }
}
