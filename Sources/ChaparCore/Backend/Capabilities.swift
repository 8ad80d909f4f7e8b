/// A device as it is registered at platforms.
///
/// The gateway makes it from a device of the registry, for platforms that keep devices themselves (``DeviceRegistrar``,
/// ``SubscriptionManager``, ``TagEditor``). Ids are the app's own, without the app's name; a plugin never sees ids of
/// another app.
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
    /// Other attributes, as the app gave them: `app_version`, `time_zone`, `os_version`, `model`, and any that a
    /// platform uses.
    public var attributes: JSONObject
    /// Whether the device has got another user since ``user`` was registered.
    ///
    /// An operation is sent for the user it was requested for, even when it is late. A platform that keeps the
    /// logged-in user must not let a late subscription undo the log-out that followed it.
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

    /// Returns the token of a service; nil when it has none.
    public func token(of service: TokenService) -> DeviceToken? { tokens.first { $0.service == service } }

    /// The preferred token; setting it replaces all tokens.
    public var token: DeviceToken? {
        get { tokens.first }
        set { tokens = newValue.map { [$0] } ?? [] }
    }
}

/// Adds and edits devices on a platform that keeps its own list of them.
public protocol DeviceRegistrar: Sendable {
    /// Whether the platform can use the device: a gateway does not register others.
    func accepts(_ device: DeviceRecord) -> Bool

    /// A text that changes with the rules of registration, such as an order of token services.
    ///
    /// When it differs from the text that the gateway stored, every device is registered again.
    var stamp: String { get }

    /// Whether to register the device at the platform again when the app registers it, although nothing has changed.
    ///
    /// For example, a user who turned messages off at the platform may have turned them on again. Called at each
    /// registration, within the store's commit: it must not wait.
    func awaits(_ device: DeviceRecord) -> Bool

    /// Adds the device at the platform or updates it; returns the platform's id of the device.
    ///
    /// Sends no request when nothing has changed since the last call.
    func register(_ device: DeviceRecord) async throws(PushError) -> String
    /// Removes the device; one that the platform does not know is no error.
    func remove(_ device: DeviceRecord) async throws(PushError)
}

extension DeviceRegistrar {
    /// Accepts any device with a token.
    public func accepts(_ device: DeviceRecord) -> Bool { !device.tokens.isEmpty }
    /// Returns false: an unchanged device is not registered again.
    public func awaits(_ device: DeviceRecord) -> Bool { false }
    /// Empty: registration depends on the device only.
    public var stamp: String { "" }
}

/// Cancels messages that a platform has taken but not sent.
public protocol MessageCanceller: Sendable {
    /// Cancels a message; returns false when it was too late.
    func cancel(platformID: String) async throws(PushError) -> Bool
}

/// Asks a user's devices to remove messages that they have received.
///
/// The platform does not report whether an app removes them.
public protocol MessageRecaller: Sendable {
    /// Asks the devices of a user to remove messages.
    ///
    /// - Parameters:
    ///   - ids: The platform's ids of the messages; nil for all messages that the devices show.
    ///   - user: The platform's name of the user.
    /// - Returns: False when the platform has no device of the user.
    /// - Throws: The reason why the platform did not take the request.
    func recall(_ ids: [String]?, from user: String) async throws(PushError) -> Bool
}

/// Asks a platform to take messages back from devices, by the devices' tokens.
///
/// The platform drops messages that have not reached a device, and removes messages that the device shows and its user
/// has not opened.
public protocol MessageRevoker: Sendable {
    /// The services of the tokens that it takes.
    var services: [TokenService] { get }

    /// The most tokens in one call.
    var revocationLimit: Int { get }

    /// Asks the platform to take a message back.
    ///
    /// Repeating it is harmless.
    ///
    /// - Parameters:
    ///   - trackingID: The ``Acceptance/trackingID`` that the backend gave the message when it was accepted.
    ///   - tokens: Tokens of devices that got the message, from 1 to ``revocationLimit``.
    /// - Returns: False when the platform knows none of the tokens any more.
    /// - Throws: The reason why the platform did not take the request.
    func revoke(_ trackingID: String, from tokens: [DeviceToken]) async throws(PushError) -> Bool
}

/// Looks up the state of messages that a platform has taken.
public protocol MessageTracker: Sendable {
    /// Returns the state that the platform reports; nil when it does not know the message.
    func state(of platformID: String) async throws(PushError) -> DeliveryState?
}
