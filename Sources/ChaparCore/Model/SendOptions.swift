/// The wishes of a caller about one ``PushSender/post(_:to:via:options:)``, besides the message itself.
public struct SendOptions: Sendable, Hashable {
    /// The longest time for which the platforms may try to deliver.
    ///
    /// It replaces the message's own ``PushNotification/timeToLive``.
    public var timeToLive: Duration?
    /// The key by which a repeated call is recognised: 1 to 255 printable ASCII characters.
    ///
    /// A call with a repeated key sends nothing and gets the first answer. Only a sender that has a store remembers
    /// keys; another sender refuses the call.
    public var idempotencyKey: String?

    /// Makes options.
    public init(timeToLive: Duration? = nil, idempotencyKey: String? = nil) {
        self.timeToLive = timeToLive
        self.idempotencyKey = idempotencyKey
    }
}
