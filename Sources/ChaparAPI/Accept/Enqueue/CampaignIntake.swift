internal import ChaparComposition
internal import ChaparCore
internal import ChaparDelivery
internal import ChaparQueue
internal import Foundation

/// The check of a notification whose recipients are an audience: it becomes a campaign, one small row for any size of
/// the audience.
extension NotificationIntake {
    /// Returns the campaign and the answer about it; nil when something is wrong, which the issues say.
    func checkCampaign(
        _ draft: NotificationDraft,
        _ body: [UInt8],
        _ issues: inout RequestIssues
    ) -> (campaign: Campaign, answer: Enqueued)? {
        guard let audience = draft.audience else { return nil }
        let (times, warnings) = inspect(draft, audience, &issues)
        guard issues.isEmpty else { return nil }
        var record = draft.record
        record.content = draft.stored(from: body)
        record.plans = [DeliveryPlan([""])]  // The windows find those of their devices.
        record.acceptedAt = acceptedAt
        record.trace = trace
        let target = CampaignTarget(
            audience,
            choice: draft.choice,
            backends: caller.view?.backends(of: draft.appName).map(\.name),
            segments: draft.audienceRequest.flatMap { AudienceRule(json: $0.rule) }?.segments ?? []
        )
        var campaign = Campaign(
            id: store.makeID(recipients: 1),
            caller: caller.name,
            app: draft.appName,
            record: record,
            audience: target.stored,
            name: draft.campaign.name,
            dueAt: times.dueAt,
            expiresAt: times.expiresAt,
            pace: draft.campaign.pace ?? CampaignPace()
        )
        campaign.keepsAll = draft.campaign.keepsAll
        campaign.share = caller.queueShare
        campaign.collapseID = draft.notification.collapseID
        let answer = Enqueued(
            id: campaign.id,
            state: times.dueAt == nil ? .queued : .scheduled,
            recipients: nil,
            warnings: warnings,
            labels: AcceptanceLabels(route: draft.routeLabel, app: draft.appName)
        )
        return (campaign, answer)
    }

    /// Checks a notification of which only a test is sent as its campaign would be checked.
    func checkTest(_ draft: NotificationDraft, _ issues: inout RequestIssues) {
        if let audience = draft.audience { _ = inspect(draft, audience, &issues) }
    }

    /// Checks the notification that was dry run as if it were accepted, and returns the warnings about it.
    func warnings(
        about draft: NotificationDraft,
        to audience: Audience,
        of count: AudienceCount,
        _ issues: inout RequestIssues
    ) -> [Finding] {
        let (times, warnings) = inspect(draft, audience, &issues)
        guard let perMinute = draft.campaign.pace?.perMinute else { return warnings }
        let end = (times.dueAt ?? acceptedAt).addingTimeInterval(Double(count.reached) / perMinute * 60)
        guard end > times.expiresAt else { return warnings }
        let detail = "At this pace the time to live ends before each device has it: raise options.ttl, or the pace."
        return warnings + [Finding(pointer: "#/pace/per_minute", code: "pace_beyond_ttl", detail: detail)]
    }

    /// Checks what does not depend on the devices: times, route, payload and pace.
    private func inspect(
        _ draft: NotificationDraft,
        _ audience: Audience,
        _ issues: inout RequestIssues
    ) -> (times: (dueAt: Date?, expiresAt: Date), warnings: [Finding]) {
        let times = times(of: draft.notification, &issues)
        let gateway = snapshot.gateway(for: caller)
        let routing = gateway.routing(of: draft.appName)
        if !draft.isChoiceFaulty { PlanAssignment.checkName(draft.choice, routing, &issues) }
        let plans = Self.plans(for: audience, draft.choice, routing)
        if plans.isEmpty, issues.isEmpty {
            let services = audience.services.map { " of \($0)" }.joined(separator: ", ")
            issues.add(
                "#/to/\(draft.audienceField)",
                "audience_not_supported",
                "No configured backend takes tokens\(services) of registered devices."
            )
        }
        var warnings = draft.warnings
        if draft.isContentSound {
            warnings +=
                PayloadInspection(
                    draft.notification,
                    for: .token,
                    plans: plans,
                    gateway: gateway,
                    isAudience: true,
                    issues: &issues
                ).warnings
        }
        draft.campaign.pace?.check(from: times.dueAt ?? acceptedAt, until: times.expiresAt, &issues)
        return (times, warnings.map(issues.whole))
    }

    /// Returns a plan for each backend that could get the notification, to check its payload.
    ///
    /// The devices are known only later. With a route only the backends of the route are returned.
    private static func plans(
        for audience: Audience,
        _ choice: RoutingTable.Choice,
        _ routing: RoutingTable
    ) -> [DeliveryPlan] {
        let services = Set(audience.services)
        let able = routing.order.filter { _, backend in
            backend.audience.services.contains { services.contains($0.rawValue) }
        }.map(\.name)
        let named = routing.backends(of: choice)
        let chosen = named.map { named in able.filter { named.contains($0) } } ?? able
        if case .backend = choice { return chosen.map { DeliveryPlan([$0]) } }
        // A route may have nothing but backends that take devices as such, which the windows find.
        return (chosen.isEmpty ? able : chosen).map { DeliveryPlan([$0]) }
    }
}

extension CampaignPace {
    /// Reports a pace by which a campaign that begins at one time cannot be over at another.
    func check(from begin: Date, until end: Date, _ issues: inout RequestIssues) {
        if let over, begin.addingTimeInterval(TimeInterval(over)) > end {
            let detail = "The time to live ends before the span does: raise options.ttl, or shorten it."
            issues.add("#/pace/over", "over_beyond_ttl", detail)
        }
        let waits = waves.reduce(Int64(0)) { $0.adding(clamping: $1.pause) }
        if waits > 0, begin.addingTimeInterval(TimeInterval(waits)) >= end {
            let detail = "The time to live ends before the waits of the waves do: raise options.ttl, or shorten them."
            issues.add("#/pace/waves", "waves_beyond_ttl", detail)
        }
    }
}
