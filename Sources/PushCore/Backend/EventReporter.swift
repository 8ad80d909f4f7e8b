/// What an app reports about a message.
@nonexhaustive
public enum PushEvent: String, Sendable, CaseIterable {
    /// It reached the device.
    case delivered
    /// The user opened it.
    case opened
}

/// Takes delivery and open events to a platform that takes them.
public protocol EventReporter: Sendable {
    /// Reports an event of the message with the platform's id `platformID`.
    func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError)

    /// The platform's id of the message whose payload an app received; nil when the message is not this platform's.
    ///
    /// - Throws: When it is, and carries no id.
    func platformID(in payload: JSONObject) throws(PushError) -> String?
    /// Reports an event; returns the platform's answer as it was given.
    func report(_ event: PushEvent, platformID: String, device: DeviceRecord, as attempt: OutboxAttempt)
        async throws(PushError) -> JSONObject
}

extension EventReporter {
    /// Payloads are not distinguished.
    public func platformID(in payload: JSONObject) throws(PushError) -> String? { nil }
    /// Reports it.
    public func report(
        _ event: PushEvent,
        platformID: String,
        device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        try await report(event, platformID: platformID, device: device)
        return JSONObject()
    }
}
