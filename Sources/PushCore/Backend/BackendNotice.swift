/// Something that a backend reports beside outcomes: it is published on the gateway's event stream.
public struct BackendNotice: Sendable, Hashable {
    /// How bad it is.
    @nonexhaustive
    public enum Level: String, Sendable {
        /// All is well.
        case info
        /// It failed, and will be tried again.
        case retry
        /// It failed for good.
        case error
    }

    /// How bad it is.
    public var level: Level
    /// A stable word of bounded variety for what it is about, such as `subscribe`.
    public var name: String
    /// The device it is about.
    public var device: String?
    /// A sentence for people; never a token, key or payload.
    public var message: String
    /// The rest, in the platform's words, such as Altcraft's event code.
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
