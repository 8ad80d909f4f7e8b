/// A device as platforms are told about it.
public struct DeviceRecord: Sendable, Hashable {
    /// The gateway's id of the device.
    public var id: String
    /// The user it belongs to, when known.
    public var user: String?
    /// Its token, when it has one.
    public var token: DeviceToken?
    /// Its language tag.
    public var language: String?
    /// What else is known: app version, time zone, model.
    public var attributes: JSONObject

    /// Makes a record.
    public init(
        id: String,
        user: String? = nil,
        token: DeviceToken? = nil,
        language: String? = nil,
        attributes: JSONObject = JSONObject()
    ) {
        self.id = id
        self.user = user
        self.token = token
        self.language = language
        self.attributes = attributes
    }
}

/// Adds and edits devices on a platform that keeps its own list of them.
public protocol DeviceRegistrar: Sendable {
    /// Adds the device or brings it up to date; returns the platform's id of it.
    func register(_ device: DeviceRecord) async throws(PushError) -> String
    /// Removes the device; one that the platform does not know is no error.
    func remove(_ device: DeviceRecord) async throws(PushError)
}

/// Where a subscription stands.
public enum SubscriptionStatus: String, Sendable, CaseIterable {
    /// Gets messages.
    case subscribed
    /// Gets none for now, for instance while nobody is logged in.
    case suspended
    /// Gets none, by the user's wish.
    case unsubscribed
}

/// Keeps subscriptions on a platform that has them.
public protocol SubscriptionManager: Sendable {
    /// Brings the device's subscription to `status`.
    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError)
    /// Asks how the device's subscription stands; nil when the platform knows none.
    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus?
}

/// Keeps tags and profile fields on a platform that has them.
public protocol TagEditor: Sendable {
    /// Sets tags; a null value removes one.
    func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError)
}

/// What an app tells about a message.
public enum PushEvent: String, Sendable, CaseIterable {
    /// It reached the device.
    case delivered
    /// The user opened it.
    case opened
}

/// Takes delivery and open events to a platform that wants them.
public protocol EventReporter: Sendable {
    /// Reports an event of the message that the platform knows as `platformID`.
    func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError)
}

/// Cancels messages that a platform has taken but not sent.
public protocol MessageCanceller: Sendable {
    /// Cancels; false when it was too late.
    func cancel(platformID: String) async throws(PushError) -> Bool
}

/// Tells the outcome of messages that a platform has taken.
public protocol MessageTracker: Sendable {
    /// Asks for the state the platform reports; nil when it does not know the message.
    func state(of platformID: String) async throws(PushError) -> DeliveryState?
}
