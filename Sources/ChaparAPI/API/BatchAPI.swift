internal import Foundation
internal import HTTPTypes
package import ChaparDelivery
package import ChaparCore
internal import ChaparQueue

/// `POST /v1/notifications/batch`: accepts up to 1,000 different notifications in one request and one commit.
///
/// Each notification gets its own answer. An invalid notification does not stop the others, nor does one with a
/// malformed text, such as half an emoji. If no notification is valid, the answer to the whole request is 422, and its
/// idempotency key is not used up.
package struct BatchAPI: AcceptingAPI {
    /// The most notifications of one request.
    static let maximumNotifications = 1000

    package let state: GatewayState
    package let metrics: GatewayMetrics
    package let admission: Admission

    /// Creates the endpoint; `admission` limits the memory of bodies that are being read.
    package init(state: GatewayState, metrics: GatewayMetrics, admission: Admission) {
        self.state = state
        self.metrics = metrics
        self.admission = admission
    }

    private enum Field: Int, RequestField {
        case notifications
        static let names = ["notifications"]
    }

    package struct Item: Sendable {
        var draft = NotificationDraft()
        var issues = RequestIssues()

        mutating func lookUp(in devices: any DeviceStore) async throws(StoreError) {
            try await draft.lookUp(in: devices, &issues)
        }

        /// Refuses this notification without asking the registry: the ones before it reached the limit of deliveries.
        mutating func leaveForNext() {
            issues.addBatchTooLarge()
            (draft.recipients, draft.isLookedUp) = ([], true)
        }
    }

    package func treeValues(_ items: [Item]) -> Int { items.indices.reduce(0) { $0 + items[$1].draft.treeValues } }

    package func needsRegistry(_ items: [Item], _ scope: RequestScope) -> Bool {
        let routing = scope.gateway.routing
        return items.indices.contains { items[$0].draft.needsRegistry(routing) }
    }

    package func lookUp(_ items: inout [Item], _ scope: RequestScope) async throws(StoreError) {
        var recipients = 0
        for position in items.indices {
            if items[position].draft.needsRegistry(scope.gateway.routing) {
                if recipients < NotificationIntake.maximumDeliveries {
                    try await items[position].lookUp(in: state.devices)
                } else {
                    items[position].leaveForNext()
                }
            }
            recipients += items[position].draft.recipients.count
        }
    }

    package func check(
        _ items: inout [Item],
        _ body: [UInt8],
        _ key: IdempotencyKey?,
        _ scope: RequestScope
    ) throws(Problem) -> CheckedRequest {
        var intake = NotificationIntake(
            snapshot: scope.snapshot,
            store: state.store,
            clock: state.clock,
            caller: scope.caller
        )
        intake.trace = state.tracing.context(scope.trace)
        var accepted: [NotificationIntake.Enqueued?] = []
        accepted.reserveCapacity(items.count)
        var notifications: [NewNotification] = []
        notifications.reserveCapacity(items.count)
        for position in items.indices {
            var issues = items[position].issues
            accepted.append(intake.check(&items[position].draft, body, &issues, into: &notifications))
            if issues.count != items[position].issues.count { items[position].issues = issues }
        }
        guard !notifications.isEmpty else { throw Self.nothingAccepted(items) }

        let answer = write(items, accepted, scope)
        let entry = key?.entry(
            caller: scope.caller.name,
            path: String(scope.path),
            body: body,
            answer: answer,
            keepUntil: intake.acceptedAt + scope.snapshot.queue.idempotencyWindow.inSeconds
        )
        var reply = PendingReply(body: answer, labels: accepted.compactMap { $0?.labels })
        reply.traced = TracedAcceptance(
            "accept notification",
            intake.trace,
            accepted.compactMap { $0.map { ($0.id, $0.recipients ?? 0) } },
            state
        )
        return CheckedRequest(
            batch: EnqueueBatch(notifications, idempotency: entry, share: scope.caller.queueShare),
            reply: reply
        )
    }

    package func read(_ body: [UInt8], _ scope: RequestScope) throws(Problem) -> [Item] {
        let reader = NotificationReader(scope.snapshot)
        var whole = RequestIssues()
        var items: [Item] = []
        var listed = 0
        var count: Int?
        do throws(JSONSyntaxError) {
            try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
                _ = try scanner.fields(Field.self, &whole, "#") { (scanner, issues, _) throws(JSONSyntaxError) in
                    count = 0
                    try scanner.elements(&issues, "#/notifications") {
                        (scanner, _, index) throws(JSONSyntaxError) in
                        count = index + 1
                        guard index < Self.maximumNotifications else { return try scanner.skip() }
                        var own = RequestIssues(in: "notifications", at: index, after: listed)
                        items.append(Item())  // Read where it stays: a draft is large.
                        let mark = scanner.mark
                        do throws(JSONSyntaxError) {
                            try reader.read(&scanner, into: &items[index].draft, &own)
                            items[index].draft.resolveApp(scope.apps, &own)
                        } catch {
                            own = RequestIssues(in: "notifications", at: index, after: listed)
                            items[index].draft = NotificationDraft()
                            try scanner.leave(error, from: mark, &own)
                        }
                        items[index].issues = own
                        listed += own.list.count
                    }
                }
            }
        } catch {
            throw .notJSON(error, body)
        }
        if count == nil, whole.isEmpty { whole.add("#/notifications", "missing", "The notifications are missing.") }
        if count == 0, whole.isEmpty { whole.add("#/notifications", "empty", "Send at least one notification.") }
        if let count, count > Self.maximumNotifications {
            whole.add(
                "#/notifications",
                "too_many_notifications",
                "At most \(Self.maximumNotifications) notifications; there are \(count)."
            )
        }
        guard whole.isEmpty else { throw Problem(whole) }
        return items
    }

    private func write(
        _ items: [Item],
        _ accepted: [NotificationIntake.Enqueued?],
        _ scope: RequestScope
    ) -> [UInt8] {
        let requestID = Problem.newRequestID()
        let count = accepted.count { $0 != nil }
        var writer = JSONWriter(capacity: 160 * items.count + 64)
        writer.beginObject()
        writer.field("accepted", count)
        writer.field("refused", items.count - count)
        writer.name("notifications")
        writer.beginArray()
        for position in items.indices {
            if let accepted = accepted[position] {
                NotificationTemplate.write(accepted, to: &writer)
                continue
            }
            let problem = Problem(items[position].issues)
            writer.beginObject()
            writer.field("status", problem.status.code)
            writer.name("problem")
            writer.beginObject()
            problem.write(to: &writer, instance: String(scope.path), requestID: requestID)
            writer.endObject()
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    /// Builds the problem for a batch without a valid notification; `notifications` has the problem of each.
    private static func nothingAccepted(_ items: [Item]) -> Problem {
        var whole = Problem.nothingAccepted
        whole.notifications = items.map { Problem($0.issues) }
        return whole
    }
}
