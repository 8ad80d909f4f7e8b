internal import Foundation
package import ChaparDelivery
package import ChaparCore
internal import ChaparQueue

/// `POST /v1/notifications`: accepts one notification.
///
/// The steps are those of ``AcceptingAPI``: the body, the reader, the intake, the commit. A notification answered with
/// 202 is on disk.
package struct NotificationsAPI: AcceptingAPI {
    package let state: GatewayState
    package let metrics: GatewayMetrics
    package let admission: Admission

    /// Creates the endpoint; `admission` limits the memory of bodies that are being read.
    package init(state: GatewayState, metrics: GatewayMetrics, admission: Admission) {
        self.state = state
        self.metrics = metrics
        self.admission = admission
    }

    package struct Draft: Sendable {
        var notification = NotificationDraft()
        var issues = RequestIssues()
    }

    package func read(_ body: [UInt8], _ scope: RequestScope) throws(Problem) -> Draft {
        do throws(JSONSyntaxError) {
            var draft = Draft()
            try NotificationReader(scope.snapshot).read(body, into: &draft.notification, &draft.issues)
            draft.notification.resolveApp(scope.apps, &draft.issues)
            return draft
        } catch {
            throw .notJSON(error, body)
        }
    }

    package func treeValues(_ draft: Draft) -> Int { draft.notification.treeValues }

    package func needsRegistry(_ draft: Draft, _ scope: RequestScope) -> Bool {
        draft.notification.audienceRequest != nil || draft.notification.needsRegistry(scope.gateway.routing)
    }

    package func lookUp(_ draft: inout Draft, _ scope: RequestScope) async throws(StoreError) {
        guard draft.notification.audienceRequest != nil else {
            return try await draft.notification.lookUp(in: state.devices, &draft.issues)
        }
        try await AudienceLookup(state, scope).lookUp(&draft.notification, &draft.issues)
        guard let test = draft.notification.campaign.test else { return }
        // A test tells of every mistake that the campaign would have.
        intake(scope).checkTest(draft.notification, &draft.issues)
        if draft.issues.isEmpty { try await draft.notification.become(test, in: state.devices, &draft.issues) }
    }

    /// Returns the answer to a dry run for an audience, which checks everything, counts it and sends nothing.
    package func preview(_ draft: Draft, _ scope: RequestScope) throws(Problem) -> EnqueueReply? {
        let notification = draft.notification
        guard let preview = notification.audiencePreview, let audience = notification.audience else { return nil }
        var issues = draft.issues
        let warnings = intake(scope).warnings(about: notification, to: audience, of: preview.count, &issues)
        guard issues.isEmpty else { throw Problem(issues) }
        return EnqueueReply(body: preview.answer(warnings), isPreview: true)
    }

    private func intake(_ scope: RequestScope) -> NotificationIntake {
        NotificationIntake(snapshot: scope.snapshot, store: state.store, clock: state.clock, caller: scope.caller)
    }

    package func check(
        _ draft: inout Draft,
        _ body: [UInt8],
        _ key: IdempotencyKey?,
        _ scope: RequestScope
    ) throws(Problem) -> CheckedRequest {
        var issues = draft.issues
        var intake = intake(scope)
        intake.trace = state.tracing.context(scope.trace)
        var notifications: [NewNotification] = []
        var campaign: CampaignWrite?
        let accepted: NotificationIntake.Enqueued
        if draft.notification.audienceRequest != nil {
            // A valid test names its devices instead of an audience: one that is still an audience has mistakes.
            guard draft.notification.campaign.test == nil else { throw Problem(issues) }
            guard let (new, answer) = intake.checkCampaign(draft.notification, body, &issues) else {
                throw Problem(issues)
            }
            (campaign, accepted) = (.new(new), answer)
        } else {
            notifications.reserveCapacity(1)
            guard let answer = intake.check(&draft.notification, body, &issues, into: &notifications) else {
                throw Problem(issues)
            }
            accepted = answer
        }

        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        accepted.write(to: &writer, stateName: "status")
        if draft.notification.notification.isDryRun, let new = notifications.first {
            var payloads = SamplePayloads(draft.notification, scope.snapshot.gateway(for: scope.caller))
            payloads.write(for: new, draft.notification.devices, to: &writer)
        }
        writer.endObject()
        let entry = key?.entry(
            caller: scope.caller.name,
            path: String(scope.path),
            body: body,
            answer: writer.bytes,
            keepUntil: intake.acceptedAt + scope.snapshot.queue.idempotencyWindow.inSeconds
        )
        var batch = EnqueueBatch(notifications, idempotency: entry, share: scope.caller.queueShare)
        batch.campaign = campaign
        var reply = PendingReply(body: writer.bytes, id: accepted.id, labels: [accepted.labels])
        reply.traced = TracedAcceptance(
            "accept notification",
            intake.trace,
            [(accepted.id, accepted.recipients ?? 0)],
            state
        )
        return CheckedRequest(batch: batch, reply: reply)
    }

    /// Accepts a body as if it came by a request, for parts of the gateway that send notifications themselves.
    package func accept(_ body: [UInt8], _ key: IdempotencyKey?, _ scope: RequestScope) async throws(Problem)
        -> EnqueueReply
    {
        guard !state.isDraining else { throw .draining }
        return try await enqueue(body, key, scope)
    }
}
