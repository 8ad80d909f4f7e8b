internal import Foundation
public import ChaparCore

extension AltcraftDevices: EventReporter {
    /// Tells an event.
    public func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError) {
        _ = try await report(event, uid: platformID, of: device, as: OutboxAttempt(at: client.time.now))
    }

    /// Returns the `_uid` of a payload with Altcraft's marker; nil for any other payload.
    ///
    /// - Throws: Reason 451 when it carries no id.
    public func platformID(in payload: JSONObject) throws(PushError) -> String? {
        guard let read = AltcraftReceivedPush(payload) else { return nil }
        guard let uid = read.uid else {
            client.emit(.error, "event", "the payload has no _uid", 451)
            throw PushError(
                .invalidRequest,
                "the payload is Altcraft's and has no _uid: no event can be sent",
                reason: "451"
            )
        }
        return uid
    }

    /// Tells an event.
    public func report(
        _ event: PushEvent,
        platformID: String,
        device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        try await report(event, uid: platformID, of: device, as: attempt).redacted().json
    }
}

extension AltcraftDevices: CustomEventReporter {
    /// Returns the problems of an event, each with its pointer and the fix.
    public func issues(in event: CustomEvent, of device: DeviceRecord) -> [Finding] {
        var issues: [Finding] = []
        _ = AltcraftMobileEvent(event, pixel: client.options.pixel, issues: &issues)
        return issues
    }

    /// Reports an event of the app's own.
    public func report(
        _ event: CustomEvent,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        try await report(custom: event, of: device, as: attempt).redacted().json
    }
}
