package import Foundation
internal import ChaparCore
package import ChaparQueue

/// Events about dead tokens and the quarantine of refusals: `device.token_invalidated`, `backend.invalidations_held`,
/// `backend.invalidations_released`, `backend.invalidations_discarded`.
extension EventJSON {
    /// Returns the event of a token that a platform called dead.
    ///
    /// `device` is the id of the device in the registry, if the delivery went to a device.
    package static func tokenInvalidated(
        _ refusal: TokenRefusal,
        device: String?,
        at time: Date
    ) -> [UInt8] {
        invalidated(
            refusal.token,
            refusal.kind,
            device: device,
            backend: refusal.backend,
            reason: refusal.reason,
            asOf: refusal.asOf,
            isCertain: refusal.isCertain,
            at: time
        )
    }

    /// Returns the event of a quarantined refusal that was released.
    static func tokenInvalidated(_ buried: InvalidatedToken, at time: Date) -> [UInt8] {
        invalidated(
            buried.token,
            buried.kind,
            device: buried.device,
            backend: buried.tombstone.backend,
            reason: buried.tombstone.reason,
            asOf: buried.tombstone.asOf,
            isCertain: true,
            at: time
        )
    }

    private static func invalidated(
        _ token: DeviceToken,
        _ kind: TokenKind,
        device: String?,
        backend: String,
        reason: String,
        asOf: Date,
        isCertain: Bool,
        at time: Date
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.beginObject()
        begin(&writer, "device.token_invalidated", time)
        writer.field("recipient", Recipient.token(token).storedForm)
        if kind != .device {
            writer.field("kind", kind.typeName)
        }
        writer.field("device", device)
        writer.field("backend", backend)
        writer.field("reason", reason)
        writer.name("as_of")
        RFC3339.write(asOf, to: &writer)
        writer.field("certain", isCertain)
        writer.endObject()
        return writer.bytes
    }

    /// Returns the event of too many dead-token answers, which are quarantined until an operator decides.
    static func invalidationsQuarantined(_ backend: String, _ trip: InvalidationGuard.Trip, reason: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.beginObject()
        begin(&writer, "backend.invalidations_held", trip.at)
        writer.field("backend", backend)
        writer.field("reason", reason)
        writer.field("answers", trip.answers)
        writer.field("dead", trip.dead)
        writer.field("certain", trip.certain)
        writer.endObject()
        return writer.bytes
    }

    /// Returns the event of an operator's decision about quarantined answers.
    static func invalidationsSettled(
        _ backend: String,
        isConfirmed: Bool,
        tokens: Int,
        at time: Date
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        begin(&writer, isConfirmed ? "backend.invalidations_released" : "backend.invalidations_discarded", time)
        writer.field("backend", backend)
        writer.field("tokens", tokens)
        writer.endObject()
        return writer.bytes
    }

    /// Returns the entry in a delivery's attempt log about a backend of the plan that was skipped.
    static func skipped(_ backend: String, reason: String, at time: Date, steady: Date? = nil) -> [UInt8] {
        var writer = JSONWriter(capacity: 128)
        writer.beginObject()
        writer.name("at")
        RFC3339.write(time, to: &writer)
        writer.field("backend", backend)
        writer.field("outcome", "skipped")
        writer.field("reason", reason)
        self.steady(steady, to: &writer)
        writer.endObject()
        return writer.bytes
    }
}
