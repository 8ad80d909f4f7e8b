internal import ChaparComposition
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// Writes deliveries into answers: state, attempts, and what the last reason means.
struct DeliveryWriter {
    private let now: TimeReading
    private let showsTokens: Bool
    private let reasons: ReasonBook
    /// The kind of each configured backend, by its name.
    private let kinds: [String: String]

    init(_ state: GatewayState, _ caller: Caller) {
        now = state.clock.reading
        showsTokens = caller.isAdministrator
        reasons = state.reasons
        kinds = Dictionary(state.snapshot.backends.map { ($0.name, $0.backend.kind.rawValue) }) { first, _ in first }
    }

    /// Writes a delivery with its place in the notification; `more` writes further members.
    func write(
        _ delivery: StoredDelivery,
        place: Int64,
        to writer: inout JSONWriter,
        _ more: (inout JSONWriter) -> Void = { _ in }
    ) {
        writer.beginObject()
        more(&writer)
        writer.field("delivery", place)
        writer.field("recipient", showsTokens ? delivery.recipient.storedForm : delivery.recipient.shownForm)
        writer.field("state", delivery.state.rawValue)
        writer.field("backend", delivery.backend)
        writer.field("platform_id", StatusAPI.platformID(in: delivery.attemptLog))
        if !delivery.state.isFinal, let dueAt = delivery.dueAt {
            writer.name("next_attempt_at")
            RFC3339.write(now.wall(dueAt), to: &writer)
        }
        writer.name("expires_at")
        RFC3339.write(now.wall(delivery.expiresAt), to: &writer)
        if let endedAt = delivery.endedAt {
            writer.name("state_at")
            RFC3339.write(now.wall(endedAt), to: &writer)
        }
        writer.name("attempts")
        writer.beginArray()
        if !delivery.attemptLog.isEmpty { writer.raw(delivery.attemptLog) }
        writer.endArray()
        if let guide = guide(to: delivery) {
            writer.name("explanation")
            write(guide, to: &writer)
        }
        writer.endObject()
    }

    /// Writes a delivery with what identifies it outside of its notification; `campaign` is the name of its campaign.
    func write(_ found: FoundDelivery, campaign: String?, for caller: Caller, to writer: inout JSONWriter) {
        write(found.delivery, place: found.shownPlace, to: &writer) { writer in
            writer.field("notification", found.shownID.description)
            writer.field("campaign_name", campaign)
            writer.name("created_at")
            RFC3339.write(now.wall(found.record.acceptedAt), to: &writer)
            if !found.caller.isEmpty { writer.field("caller", found.caller) }
            writer.field("collapse_id", found.collapseID)
            Self.write(found.record, showsContent: caller.mayRead(contentsOf: found.caller), to: &writer)
            if found.delivery.state.isDead {
                writer.field("acknowledged", found.isAcknowledged)
                writer.field("resent", found.isResent)
            }
        }
    }

    /// Writes what a sender gets back of a record; metadata only for a caller who may read contents.
    static func write(_ record: NotificationRecord, showsContent: Bool, to writer: inout JSONWriter) {
        var shown = record
        if !showsContent { shown.metadata = nil }
        shown.write(to: &writer)
    }

    /// Returns the guide to the reason of the last attempt; nil when nothing has gone wrong.
    func guide(to delivery: StoredDelivery) -> ReasonGuide? {
        switch delivery.state {
        case .acceptedByPlatform, .delivered, .opened, .scheduled, .sending: return nil
        case .retrying where AttemptLog.awaitsReport(delivery.attemptLog):
            return reasons.guide(to: GatewayReason.awaitsReport, of: nil)
        case .queued, .retrying, .failed, .expired, .cancelled, .unknown: break
        }
        return guide(to: DeliveryEnd(delivery))
    }

    func guide(to end: DeliveryEnd) -> ReasonGuide? {
        end.reason.flatMap { reasons.guide(to: $0, of: end.backend.flatMap { kinds[$0] }) }
    }

    /// Writes what a reason means, what the gateway does about it, and what to do now.
    func write(_ guide: ReasonGuide, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("reason", guide.reason)
        writer.field("meaning", guide.meaning)
        writer.field("gateway", guide.gateway)
        writer.field("action", guide.action)
        writer.endObject()
    }
}
