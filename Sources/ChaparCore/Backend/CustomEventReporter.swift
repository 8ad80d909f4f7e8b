/// A deed of a user in an app, such as a purchase.
public struct CustomEvent: Sendable, Hashable {
    /// The name of the event, such as `purchase`.
    public var name: String
    /// The values of the event.
    public var data: JSONObject
    /// The values that only the platform knows, such as the message that led to the event.
    public var options: JSONObject

    /// Makes an event.
    public init(_ name: String, data: JSONObject = JSONObject(), options: JSONObject = JSONObject()) {
        self.name = name
        self.data = data
        self.options = options
    }
}

/// Reports events of an app's users to a platform that takes them.
public protocol CustomEventReporter: Sendable {
    /// Checks an event before it is accepted; pointers lead into it (`#/data/price`, `#/options/pixel`).
    func issues(in event: CustomEvent, of device: DeviceRecord) -> [Finding]

    /// Reports an event; returns the platform's answer as it was given.
    ///
    /// When the answer of an attempt was lost, the gateway may make the same attempt again, with the same id.
    func report(_ event: CustomEvent, of device: DeviceRecord, as attempt: OutboxAttempt)
        async throws(PushError) -> JSONObject
}

extension CustomEventReporter {
    /// Finds nothing.
    public func issues(in event: CustomEvent, of device: DeviceRecord) -> [Finding] { [] }
}
