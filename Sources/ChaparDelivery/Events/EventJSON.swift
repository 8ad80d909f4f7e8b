package import Foundation
internal import ChaparComposition
package import ChaparCore
package import ChaparQueue

/// The writer of events and attempts for the store, the stream and the attempt log; no other code defines their form.
///
/// An event is one JSON object with `type`, `at` and its subject. Types: `notification.accepted`, `delivery.<state>`
/// for every change of a delivery's state, `device.token_invalidated`, `backend.parked`, `backend.paused`,
/// `backend.resumed`, and those of ``EventJSON`` in further files.
package enum EventJSON {
    /// Returns the event of an accepted notification.
    package static func accepted(
        _ id: NotificationID,
        at time: Date,
        state: DeliveryState,
        recipients: Int,
        record: NotificationRecord,
        title: String?,
        caller: String = ""
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        begin(&writer, "notification.accepted", time)
        writer.field("notification", id.description)
        writer.field("state", state.rawValue)
        writer.field("recipients", recipients)
        sender(caller, record, to: &writer)
        writer.field("backend", record.plan(at: 0).backends.first ?? "")
        writer.field("title", title)
        writer.endObject()
        return writer.bytes
    }

    /// Returns the event of a delivery's change of state.
    package static func delivery(
        _ claim: ClaimedDelivery,
        state: DeliveryState,
        at time: Date,
        attempt: [UInt8]? = nil,
        reason: String? = nil
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 384)
        writer.beginObject()
        begin(&writer, "delivery." + state.rawValue, time)
        writer.field("notification", claim.shownID.description)
        writer.field("delivery", claim.shownPlace)
        writer.field("recipient", claim.recipient.storedForm)
        sender(claim.caller, claim.head.record, to: &writer)
        writer.field("backend", claim.plan.backend(at: step(of: claim, in: state, after: attempt)))
        writer.field("state", state.rawValue)
        writer.field("reason", reason)
        if let attempt {
            writer.name("attempt")
            writer.raw(attempt)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Returns the step whose backend has a delivery: an earlier one where another backend was to take over.
    private static func step(of claim: ClaimedDelivery, in state: DeliveryState, after attempt: [UInt8]?) -> Int {
        guard state == .acceptedByPlatform, let reached = claim.acceptingStep,
            !(attempt.map { AttemptLog.isAccepted($0) } ?? false)
        else { return claim.step }
        return reached
    }

    /// Returns the event of a backend's worker that stopped or went on: `backend.parked`, `backend.paused`,
    /// `backend.resumed`.
    static func backend(_ what: String, _ name: String, reason: String?, until: Date?, at time: Date) -> [UInt8] {
        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        begin(&writer, "backend." + what, time)
        writer.field("backend", name)
        writer.field("reason", reason)
        if let until {
            writer.name("until")
            RFC3339.write(until, to: &writer)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Returns the entry of an attempt in a delivery's attempt log.
    ///
    /// `service` is the service of the token that the worker chose for a device. `steady` is the same moment on the
    /// monotonic clock, for attempts that are followed by another; the fallback delay counts from the first.
    static func attempt(
        _ outcome: DeliveryOutcome,
        backend: String,
        at time: Date,
        retryAt: Date?,
        service: TokenService? = nil,
        steady: Date? = nil
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 224)
        writer.beginObject()
        writer.name("at")
        RFC3339.write(time, to: &writer)
        writer.field("backend", backend)
        writer.field("service", service?.rawValue)
        switch outcome {
        case .accepted(let acceptance): write(acceptance, to: &writer)
        case .refused(let refusal): write(refusal, to: &writer)
        case .unknown(let unknown):
            writer.field("outcome", "unknown")
            writer.field("reason", unknown.reason)
            writer.field("platform_id", unknown.platformID)
            detail(unknown.detail, to: &writer)
        }
        if let retryAt {
            writer.field("retry_after", max(0, (retryAt.timeIntervalSince(time) * 1000).rounded() / 1000))
        }
        self.steady(steady, to: &writer)
        writer.endObject()
        return writer.bytes
    }

    /// Returns the entry of an end without an attempt in a delivery's attempt log: the time to live ended, or the
    /// gateway restarted.
    static func ending(_ reason: String, at time: Date) -> [UInt8] {
        var writer = JSONWriter(capacity: 96)
        writer.beginObject()
        writer.name("at")
        RFC3339.write(time, to: &writer)
        writer.field("outcome", "none")
        writer.field("reason", reason)
        writer.endObject()
        return writer.bytes
    }

    static func begin(_ writer: inout JSONWriter, _ type: String, _ time: Date) {
        writer.field("type", type)
        writer.name("at")
        RFC3339.write(time, to: &writer)
    }

    /// Writes the sender of the notification, and the fields of its record that the sender gets back.
    ///
    /// Only that API key and administrators may see the event (``EventView``).
    static func sender(_ caller: String, _ record: NotificationRecord?, to writer: inout JSONWriter) {
        if !caller.isEmpty { writer.field("caller", caller) }
        record?.write(to: &writer)
    }

    static func steady(_ time: Date?, to writer: inout JSONWriter) {
        guard let time else { return }
        writer.name("steady_at")
        RFC3339.write(time, to: &writer)
    }

    private static func write(_ acceptance: Acceptance, to writer: inout JSONWriter) {
        writer.field("outcome", "accepted")
        writer.field("status", acceptance.status)
        writer.field("platform_id", acceptance.platformID)
        writer.field("tracking_id", acceptance.trackingID)
        if acceptance.isForAudience {
            writer.field("audience", true)
        }
        if acceptance.isVerdictPending {
            writer.field("verdict_pending", true)
        }
        if acceptance.isDryRun {
            writer.field("dry_run", true)
        }
    }

    private static func write(_ refusal: Refusal, to writer: inout JSONWriter) {
        writer.field("outcome", "refused")
        writer.field("kind", refusal.kind.rawValue)
        writer.field("reason", refusal.reason)
        writer.field("status", refusal.status)
        detail(refusal.detail, to: &writer)
        if case .retry(let span?) = refusal.advice { writer.field(AttemptLog.platformWait, span.inSeconds) }
    }

    private static func detail(_ text: String?, to writer: inout JSONWriter) {
        guard let text else { return }
        writer.field("detail", text)
    }
}
