/// A report of a backend beside outcomes, published on the gateway's event stream.
public struct BackendNotice: Sendable, Hashable {
    /// The severity of a notice.
    @nonexhaustive
    public enum Level: String, Sendable {
        /// All is well.
        case info
        /// It failed, and will be tried again.
        case retry
        /// It failed for good.
        case error
    }

    /// The severity.
    public var level: Level
    /// A stable word of bounded variety for the subject, such as `subscribe`.
    public var name: String
    /// The device it is about.
    public var device: String?
    /// A sentence for people; never a token, key or payload.
    public var message: String
    /// Further details in the platform's words, such as Altcraft's event code.
    public var detail: JSONObject

    /// Makes a notice.
    public init(
        _ level: Level,
        _ name: String,
        device: String? = nil,
        message: String,
        detail: JSONObject = JSONObject()
    ) {
        self.level = level
        self.name = name
        self.device = device
        self.message = message
        self.detail = detail
    }
}
