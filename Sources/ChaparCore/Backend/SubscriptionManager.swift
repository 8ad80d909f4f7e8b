/// The state of a subscription.
@nonexhaustive
public enum SubscriptionStatus: String, Sendable, CaseIterable {
    /// The device receives messages.
    case subscribed
    /// The device receives none for now, for instance while no user is logged in.
    case suspended
    /// The device receives none, because the user opted out.
    case unsubscribed
}

/// A change of a device's subscription, with further parameters of the platform.
public struct SubscriptionChange: Sendable, Hashable {
    /// The new state.
    public var status: SubscriptionStatus
    /// The platform's own parameters, such as Altcraft's `profile_fields`; see the plugin's page.
    public var options: JSONObject

    /// Makes a change.
    public init(_ status: SubscriptionStatus, options: JSONObject = JSONObject()) {
        self.status = status
        self.options = options
    }
}

/// The subscription that a query is about.
@nonexhaustive
public enum SubscriptionQuery: Sendable, Hashable {
    /// The subscription of the device's present token.
    case current
    /// The user's newest subscription.
    case latest
    /// The user's newest subscription with a token service; nil for the device's present one.
    case latestOf(TokenService?)
}

/// A platform's report about a subscription.
public struct SubscriptionReport: Sendable, Hashable {
    /// The state; nil when the platform has no subscription.
    public var status: SubscriptionStatus?
    /// The platform's answer as it was given.
    public var detail: JSONObject

    /// Makes a report.
    public init(_ status: SubscriptionStatus?, detail: JSONObject = JSONObject()) {
        self.status = status
        self.detail = detail
    }
}

/// Manages subscriptions on a platform that has them.
public protocol SubscriptionManager: Sendable {
    /// Sets the status of the device's subscription.
    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError)
    /// Reads the status of the device's subscription; nil when the platform has none.
    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus?

    /// Checks a change before it is accepted; pointers lead into the change (`#/options/cats/0`).
    func issues(in change: SubscriptionChange, of device: DeviceRecord) -> [Finding]
    /// Applies `change` to the device's subscription; returns the platform's answer as it was given.
    ///
    /// When the answer of an attempt was lost, the gateway may make the same attempt again, with the same id.
    func change(_ change: SubscriptionChange, of device: DeviceRecord, as attempt: OutboxAttempt)
        async throws(PushError) -> JSONObject
    /// Reads a subscription.
    func report(_ query: SubscriptionQuery, of device: DeviceRecord) async throws(PushError) -> SubscriptionReport
    /// After a log-in or log-out, suspends other users' subscriptions with the device's token, and resumes those of the
    /// new user in `device`.
    ///
    /// It is called once, and the gateway does not retry it. A report without a status says that the user has no
    /// subscription yet: then the caller subscribes. Nil when the platform has no such call; then an ordinary
    /// registration is enough.
    func resume(_ device: DeviceRecord) async throws(PushError) -> SubscriptionReport?
}

extension SubscriptionManager {
    /// Rejects options, of which there are none.
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
    /// Reports the device's own subscription for any query.
    public func report(_ query: SubscriptionQuery, of device: DeviceRecord) async throws(PushError)
        -> SubscriptionReport
    {
        SubscriptionReport(try await status(of: device))
    }
    /// Returns nil: there is no such call.
    public func resume(_ device: DeviceRecord) async throws(PushError) -> SubscriptionReport? { nil }
}
