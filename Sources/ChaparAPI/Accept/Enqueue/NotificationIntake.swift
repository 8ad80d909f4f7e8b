internal import Foundation
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparComposition
internal import ChaparQueue

/// The check of whether notifications can be accepted, which makes the rows for the store.
///
/// Made for one request: all its notifications are checked against the same configuration at the same moment.
struct NotificationIntake {
    /// The furthest time ahead that a notification can be scheduled for.
    static let furthestSendAt: TimeInterval = 365 * 86400
    /// The most deliveries of one request: they share a commit, which must not keep others waiting.
    static let maximumDeliveries = 100_000

    let snapshot: APISnapshot
    let store: any NotificationStore
    let caller: Caller
    /// The moment of acceptance on the steady clock, in whole milliseconds, as the store returns it.
    let acceptedAt: Date
    private let now: TimeReading
    /// The trace of the notifications.
    var trace: TraceContext?
    /// The number of deliveries that the request may still have.
    private var deliveriesLeft = Self.maximumDeliveries
    private var template: NotificationTemplate

    init(snapshot: APISnapshot, store: any NotificationStore, clock: WallClock, caller: Caller) {
        self.snapshot = snapshot
        self.store = store
        self.caller = caller
        let now = clock.reading
        self.now = now
        acceptedAt = Date(millisecondsSince1970: now.steady.millisecondsSince1970)
        template = NotificationTemplate(at: now.wall(acceptedAt), caller: caller.name)
    }

    /// The part of the answer about one accepted notification.
    struct Enqueued {
        var id: NotificationID
        /// The state that it starts in.
        var state: DeliveryState
        /// The number of its recipients; nil when only the platform knows.
        var recipients: Int?
        var warnings: [Finding]
        var labels: AcceptanceLabels
    }

    /// Checks a notification, and adds it to the batch for the store when it can be accepted.
    ///
    /// Returns nil when something is wrong; the issues say what. The draft is inout only to avoid a copy; it stays as
    /// it is.
    mutating func check(
        _ draft: inout NotificationDraft,
        _ body: [UInt8],
        _ issues: inout RequestIssues,
        into accepted: inout [NewNotification]
    ) -> Enqueued? {
        if let field = draft.campaign.field, draft.audienceRequest == nil, issues.isEmpty {
            let detail = "Only a notification to an audience has a name, a pace, keep and a test."
            issues.add("#/\(field)", "audience_only", detail)
        }
        if draft.audienceRequest != nil, issues.isEmpty {
            let detail = "An audience is a request of its own: POST /v1/notifications."
            issues.add("#/to/\(draft.audienceField)", "audience_not_supported", detail)
        }
        let times = times(of: draft.notification, &issues)
        let gateway = snapshot.gateway(for: caller)
        let assignment = PlanAssignment(draft, gateway.routing(of: draft.appName), caller, &issues)
        var warnings: [Finding] = []
        if draft.isContentSound, let form = draft.payloadForm {
            warnings =
                PayloadInspection(
                    draft.notification,
                    for: form,
                    plans: assignment.plans,
                    gateway: gateway,
                    issues: &issues
                ).warnings
        }
        let recipients = assignment.recipients ?? draft.recipients
        if recipients.count > Self.maximumDeliveries {
            issues.add(
                "#/to",
                "too_many_deliveries",
                "At most \(Self.maximumDeliveries) deliveries, one for each recipient and each backend of a route that fans "
                    + "out; these are \(recipients.count). Use several requests."
            )
        } else if recipients.count > deliveriesLeft {
            issues.addBatchTooLarge()
        }
        guard issues.isEmpty, !assignment.plans.isEmpty else { return nil }
        deliveriesLeft -= recipients.count
        for warning in draft.warnings + assignment.warnings { warnings.append(issues.whole(warning)) }

        let id = store.makeID(recipients: recipients.count)
        var record = draft.record
        record.content = draft.stored(from: body)
        record.plans = assignment.plans
        record.acceptedAt = acceptedAt
        if let trace { record.trace = trace }
        let state: DeliveryState = times.dueAt == nil ? .queued : .scheduled
        // Before the record is moved into the notification.
        let event = template.event(
            id,
            state: state,
            recipients: recipients.count,
            record: record,
            title: draft.notification.title?.resolved(for: nil)
        )
        let collapseID = draft.notification.collapseID
        accepted.append(
            NewNotification(
                id: id,
                notification: draft.notification,
                record: record,
                recipients: recipients,
                planOf: assignment.plans.count > 1 ? assignment.planOf : [],
                users: draft.devices.isEmpty ? [] : draft.users(of: recipients),
                caller: caller.name,
                dueAt: times.dueAt,
                expiresAt: times.expiresAt,
                collapseID: collapseID,
                event: event,
                replacementEvent: collapseID == nil ? nil : replacementEvent
            )
        )
        let isCounted: Bool
        switch recipients.first?.form {
        case .topic, .tags, .everyone: isCounted = false
        default: isCounted = true
        }
        return Enqueued(
            id: id,
            state: state,
            recipients: isCounted ? recipients.count : nil,
            warnings: warnings,
            labels: AcceptanceLabels(route: draft.routeLabel, app: draft.appName)
        )
    }

    /// Returns the send time and the expiry, on the steady clock.
    ///
    /// The TTL counts from acceptance; the default TTL counts from the send time.
    func times(
        of notification: PushNotification,
        _ issues: inout RequestIssues
    ) -> (dueAt: Date?, expiresAt: Date) {
        let now = acceptedAt
        let dueAt = notification.sendAt.map(self.now.steady).flatMap { $0 > now ? $0 : nil }
        if let dueAt, dueAt.timeIntervalSince(now) > Self.furthestSendAt {
            issues.add("#/options/send_at", "send_at_too_far", "At most 365 days ahead.")
        }
        guard let timeToLive = notification.timeToLive else {
            return (dueAt, (dueAt ?? now) + snapshot.queue.defaultTimeToLive.inSeconds)
        }
        let seconds = timeToLive.inSeconds
        if let dueAt, dueAt >= now + seconds {
            issues.add(
                "#/options/send_at",
                "send_at_after_ttl",
                "The TTL counts from acceptance and ends before this time."
            )
        }
        return (dueAt, now + (seconds > 0 ? seconds : ClaimedDelivery.graceForNowOrNever))
    }

    /// The function that makes the event of a waiting delivery that this notification replaces.
    private var replacementEvent: @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8] {
        { [time = now.wall(acceptedAt)] claim, state in
            EventJSON.delivery(claim, state: state, at: time, reason: EndReason.replaced.rawValue)
        }
    }
}

extension NotificationIntake.Enqueued {
    /// Writes the members of the answer into an object that the caller has begun.
    func write(to writer: inout JSONWriter, stateName: StaticString) {
        writer.field("id", id.description)
        writer.name(stateName)
        writer.string(state.rawValue)
        writer.name("recipients")
        writer.beginObject()
        writer.name("count")
        if let recipients { writer.integer(recipients) } else { writer.null() }
        writer.field("exact", recipients != nil)
        writer.endObject()
        writer.name("warnings")
        writer.findings(warnings)
    }
}

extension RequestIssues {
    /// Adds the issue that the notifications before this one reached the limit of deliveries.
    mutating func addBatchTooLarge() {
        add(
            "#/to",
            "batch_too_large",
            "A batch has at most \(NotificationIntake.maximumDeliveries) deliveries; send this notification with the next."
        )
    }
}
