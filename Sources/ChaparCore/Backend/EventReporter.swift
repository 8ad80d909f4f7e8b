/// An event of a message that an app reports.
@nonexhaustive
public enum PushEvent: String, Sendable, CaseIterable {
    /// It reached the device.
    case delivered
    /// The user opened it.
    case opened
}

/// Reports delivery and open events to a platform that takes them.
public protocol EventReporter: Sendable {
    /// Reports an event of the message with the platform's id `platformID`.
    func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError)

    /// Returns the platform's id of the message with this payload; nil when the message is not this platform's.
    ///
    /// - Throws: When the message is the platform's but carries no id.
    func platformID(in payload: JSONObject) throws(PushError) -> String?
    /// Reports an event; returns the platform's answer as it was given.
    func report(_ event: PushEvent, platformID: String, device: DeviceRecord, as attempt: OutboxAttempt)
        async throws(PushError) -> JSONObject
}

extension EventReporter {
    /// Returns nil: payloads are not read.
    public func platformID(in payload: JSONObject) throws(PushError) -> String? { nil }
    /// Reports the event; returns an empty answer.
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
