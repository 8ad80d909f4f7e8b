/// Where a subscription stands.
@nonexhaustive
public enum SubscriptionStatus: String, Sendable, CaseIterable {
    /// Gets messages.
    case subscribed
    /// Gets none for now, for instance while no user is logged in.
    case suspended
    /// Gets none, because the user opted out.
    case unsubscribed
}

/// A change of a device's subscription, with what a platform may need besides.
public struct SubscriptionChange: Sendable, Hashable {
    /// Where it is to stand.
    public var status: SubscriptionStatus
    /// The platform's own parameters, such as Altcraft's `profile_fields`; see the plugin's page.
    public var options: JSONObject

    /// Makes a change.
    public init(_ status: SubscriptionStatus, options: JSONObject = JSONObject()) {
        self.status = status
        self.options = options
    }
}

/// What is asked about a subscription.
@nonexhaustive
public enum SubscriptionQuery: Sendable, Hashable {
    /// How the device stands with its present token.
    case current
    /// How the user's newest subscription stands.
    case latest
    /// How the user's newest subscription of a token service stands; nil for the device's present one.
    case latestOf(TokenService?)
}

/// What a platform says about a subscription.
public struct SubscriptionReport: Sendable, Hashable {
    /// Where it stands; nil when the platform has none.
    public var status: SubscriptionStatus?
    /// The platform's answer as it was given.
    public var detail: JSONObject

    /// Makes a report.
    public init(_ status: SubscriptionStatus?, detail: JSONObject = JSONObject()) {
        self.status = status
        self.detail = detail
    }
}

/// Keeps subscriptions on a platform that has them.
public protocol SubscriptionManager: Sendable {
    /// Brings the device's subscription to `status`.
    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError)
    /// Asks how the device's subscription stands; nil when the platform has none.
    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus?

    /// What is wrong with a change, before it is accepted: pointers lead into the change (`#/options/cats/0`).
    func issues(in change: SubscriptionChange, of device: DeviceRecord) -> [Finding]
    /// Brings the device's subscription where `change` says; returns the platform's answer as it was given.
    ///
    /// The same attempt may come again with the same id when its answer was lost.
    func change(_ change: SubscriptionChange, of device: DeviceRecord, as attempt: OutboxAttempt)
        async throws(PushError) -> JSONObject
    /// Asks about a subscription.
    func report(_ query: SubscriptionQuery, of device: DeviceRecord) async throws(PushError) -> SubscriptionReport
    /// After a log-in or log-out, with the new user in `device`: suspends what others have with the device's token, and
    /// resumes what this user has.
    ///
    /// Asked once, never repeated by itself. A report without a status says that the user has no subscription yet: the
    /// caller subscribes. Nil when the platform has no such call, and an ordinary registration says it all.
    func resume(_ device: DeviceRecord) async throws(PushError) -> SubscriptionReport?
}

extension SubscriptionManager {
    /// Nothing is wrong but options, of which there are none.
    public func issues(in change: SubscriptionChange, of device: DeviceRecord) -> [Finding] {
        change.options.members.map { name, _ in
            Finding(pointer: "#/options/\(name)", code: "unknown_field", detail: "This platform takes no options.")
        }
    }
    /// Sets the status.
    public func change(
        _ change: SubscriptionChange,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        try await setStatus(change.status, of: device)
        return JSONObject()
    }
    /// Answers about the device itself, whatever is asked.
    public func report(_ query: SubscriptionQuery, of device: DeviceRecord) async throws(PushError)
        -> SubscriptionReport
    {
        SubscriptionReport(try await status(of: device))
    }
    /// Not known here.
    public func resume(_ device: DeviceRecord) async throws(PushError) -> SubscriptionReport? { nil }
}
