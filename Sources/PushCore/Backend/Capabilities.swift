/// A device as it is registered at platforms.
///
/// The gateway makes it of the registry's device for abilities that keep devices elsewhere (``DeviceRegistrar``,
/// ``SubscriptionManager``, ``TagEditor``). Ids are those of the app, without its name; a plugin never sees another
/// app's.
public struct DeviceRecord: Sendable, Hashable {
    /// The gateway's id of the device.
    public var id: String
    /// The user it belongs to, when known.
    public var user: String?
    /// Its live tokens, at most one of each service, the preferred one first.
    public var tokens: [DeviceToken]
    /// Its language tag.
    public var language: String?
    /// Its tags.
    public var tags: [String]
    /// What else is known, as the app gave it: `app_version`, `time_zone`, `os_version`, `model`, and whatever a
    /// platform has a use for.
    public var attributes: JSONObject
    /// Whether it has another user since ``user`` was registered.
    ///
    /// An operation goes out as the user it was asked for, also when it is late. A platform that keeps the logged-in
    /// user must not let a late subscription undo the log-out that came after it.
    public var hasNewUser = false

    /// Makes a record.
    public init(
        id: String,
        user: String? = nil,
        tokens: [DeviceToken] = [],
        language: String? = nil,
        tags: [String] = [],
        attributes: JSONObject = JSONObject()
    ) {
        self.id = id
        self.user = user
        self.tokens = tokens
        self.language = language
        self.tags = tags
        self.attributes = attributes
    }

    /// Makes a record of a device with one token at most.
    public init(
        id: String,
        user: String? = nil,
        token: DeviceToken?,
        language: String? = nil,
        attributes: JSONObject = JSONObject()
    ) {
        self.init(id: id, user: user, tokens: token.map { [$0] } ?? [], language: language, attributes: attributes)
    }

    /// The token of a service; nil when it has none.
    public func token(of service: TokenService) -> DeviceToken? { tokens.first { $0.service == service } }

    /// The preferred token.
    ///
    /// Setting it replaces all.
    public var token: DeviceToken? {
        get { tokens.first }
        set { tokens = newValue.map { [$0] } ?? [] }
    }
}

/// Adds and edits devices on a platform that keeps its own list of them.
public protocol DeviceRegistrar: Sendable {
    /// Whether the platform has a use for the device: a gateway does not register others.
    func accepts(_ device: DeviceRecord) -> Bool

    /// Stands for what decides how devices are registered, such as an order of token services.
    ///
    /// When it differs from the one that a gateway kept, every device is registered again.
    var stamp: String { get }

    /// Whether the device is registered at the platform again when the app does so, although nothing has changed.
    ///
    /// So for one that turned messages off at the platform, and may have turned them on. Asked at each registration,
    /// within the store's commit: it must not wait.
    func awaits(_ device: DeviceRecord) -> Bool

    /// Adds the device or brings it up to date; returns the platform's id of it.
    ///
    /// Cheap when nothing has changed since the last time: no request then.
    func register(_ device: DeviceRecord) async throws(PushError) -> String
    /// Removes the device; one that the platform does not know is no error.
    func remove(_ device: DeviceRecord) async throws(PushError)
}

extension DeviceRegistrar {
    /// Any device with a token.
    public func accepts(_ device: DeviceRecord) -> Bool { !device.tokens.isEmpty }
    /// Never.
    public func awaits(_ device: DeviceRecord) -> Bool { false }
    /// Nothing decides but the device.
    public var stamp: String { "" }
}

/// Cancels messages that a platform has taken but not sent.
public protocol MessageCanceller: Sendable {
    /// Cancels; false when it was too late.
    func cancel(platformID: String) async throws(PushError) -> Bool
}

/// Asks a user's devices to take away messages that they have got.
///
/// Best effort: whether an app fulfils it is not reported.
public protocol MessageRecaller: Sendable {
    /// Asks the devices of a user to take messages away.
    ///
    /// - Parameters:
    ///   - ids: The platform's ids of the messages; nil for all that the devices show.
    ///   - user: The user, by the platform's name of it.
    /// - Returns: False when the platform has no device of the user.
    /// - Throws: Why the platform did not take the request.
    func recall(_ ids: [String]?, from user: String) async throws(PushError) -> Bool
}

/// Tells the outcome of messages that a platform has taken.
public protocol MessageTracker: Sendable {
    /// Asks for the state the platform reports; nil when it does not know the message.
    func state(of platformID: String) async throws(PushError) -> DeliveryState?
}
