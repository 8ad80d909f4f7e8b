package import Foundation
package import PushCore
package import PushComposition
package import PushQueue

/// Writes events and attempts: the one place that knows their shape, for the store, the stream, and the attempt log.
///
/// An event is one JSON object with `type`, `at` and what it is about. Types: `notification.accepted`,
/// `delivery.<state>` for every change of a delivery's state, `device.token_invalidated`, `backend.parked`,
/// `backend.paused`, `backend.resumed`, and those of ``EventJSON`` in further files.
package enum EventJSON {
    /// A notification was accepted.
    package static func accepted(
        _ id: NotificationID,
        at time: Date,
        state: DeliveryState,
        recipients: Int,
        plan: DeliveryPlan,
        title: String?,
        caller: String = ""
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        begin(&writer, "notification.accepted", time)
        writer.name("notification")
        writer.string(id.description)
        writer.name("state")
        writer.string(state.rawValue)
        writer.name("recipients")
        writer.integer(recipients)
        sender(caller, to: &writer)
        writer.name("backend")
        writer.string(plan.backends.first ?? "")
        if let title {
            writer.name("title")
            writer.string(title)
        }
        writer.endObject()
        return writer.bytes
    }

    /// A delivery changed its state.
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
        writer.name("notification")
        writer.string(claim.notificationID.description)
        writer.name("delivery")
        writer.integer(claim.id - claim.notificationID.rawValue)
        writer.name("recipient")
        writer.string(claim.recipient.storedForm)
        sender(claim.caller, to: &writer)
        writer.name("backend")
        writer.string(claim.plan.backends[min(claim.step, claim.plan.backends.count - 1)])
        writer.name("state")
        writer.string(state.rawValue)
        if let reason {
            writer.name("reason")
            writer.string(reason)
        }
        if let attempt {
            writer.name("attempt")
            writer.raw(attempt)
        }
        writer.endObject()
        return writer.bytes
    }

    /// A backend's worker stopped or went on: `backend.parked`, `backend.paused`, `backend.resumed`.
    package static func backend(_ what: String, _ name: String, reason: String?, until: Date?, at time: Date) -> [UInt8]
    {
        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        begin(&writer, "backend." + what, time)
        writer.name("backend")
        writer.string(name)
        if let reason {
            writer.name("reason")
            writer.string(reason)
        }
        if let until {
            writer.name("until")
            RFC3339.write(until, to: &writer)
        }
        writer.endObject()
        return writer.bytes
    }

    /// One attempt, as it stands in the attempt log of a delivery.
    ///
    /// `service` is that of the token which the worker chose for a device. `steady` is the same moment by the clock that nobody
    /// can set, for attempts after which more follows: patience counts from the first of them.
    package static func attempt(
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
        writer.name("backend")
        writer.string(backend)
        if let service {
            writer.name("service")
            writer.string(service.rawValue)
        }
        switch outcome {
        case .accepted(let acceptance): write(acceptance, to: &writer)
        case .refused(let refusal): write(refusal, to: &writer)
        case .unknown(let unknown):
            writer.name("outcome")
            writer.string("unknown")
            writer.name("reason")
            writer.string(unknown.reason)
            if let id = unknown.platformID {
                writer.name("platform_id")
                writer.string(id)
            }
            detail(unknown.detail, to: &writer)
        }
        if let retryAt {
            writer.name("retry_after")
            writer.double(max(0, (retryAt.timeIntervalSince(time) * 1000).rounded() / 1000))
        }
        self.steady(steady, to: &writer)
        writer.endObject()
        return writer.bytes
    }

    /// An end without an attempt, as it stands in the attempt log of a delivery: the time to live ended, the gateway restarted.
    package static func ending(_ reason: String, at time: Date) -> [UInt8] {
        var writer = JSONWriter(capacity: 96)
        writer.beginObject()
        writer.name("at")
        RFC3339.write(time, to: &writer)
        writer.name("outcome")
        writer.string("none")
        writer.name("reason")
        writer.string(reason)
        writer.endObject()
        return writer.bytes
    }

    static func begin(_ writer: inout JSONWriter, _ type: String, _ time: Date) {
        writer.name("type")
        writer.string(type)
        writer.name("at")
        RFC3339.write(time, to: &writer)
    }

    /// Whose notification it is about; only that API key and administrators get to see the event (``EventView``).
    static func sender(_ caller: String, to writer: inout JSONWriter) {
        guard !caller.isEmpty else { return }
        writer.name("caller")
        writer.string(caller)
    }

    static func steady(_ time: Date?, to writer: inout JSONWriter) {
        guard let time else { return }
        writer.name("steady_at")
        RFC3339.write(time, to: &writer)
    }

    private static func write(_ acceptance: Acceptance, to writer: inout JSONWriter) {
        writer.name("outcome")
        writer.string("accepted")
        if let status = acceptance.status {
            writer.name("status")
            writer.integer(status)
        }
        if let id = acceptance.platformID {
            writer.name("platform_id")
            writer.string(id)
        }
        if let id = acceptance.trackingID {
            writer.name("tracking_id")
            writer.string(id)
        }
        if acceptance.isForAudience {
            writer.name("audience")
            writer.bool(true)
        }
        if acceptance.isVerdictPending {
            writer.name("verdict_pending")
            writer.bool(true)
        }
        if acceptance.isDryRun {
            writer.name("dry_run")
            writer.bool(true)
        }
    }

    private static func write(_ refusal: Refusal, to writer: inout JSONWriter) {
        writer.name("outcome")
        writer.string("refused")
        writer.name("kind")
        writer.string(refusal.kind.rawValue)
        writer.name("reason")
        writer.string(refusal.reason)
        if let status = refusal.status {
            writer.name("status")
            writer.integer(status)
        }
        detail(refusal.detail, to: &writer)
    }

    private static func detail(_ text: String?, to writer: inout JSONWriter) {
        guard let text else { return }
        writer.name("detail")
        writer.string(text)
    }
}
