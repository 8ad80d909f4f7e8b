internal import HTTPTypes
internal import Hummingbird
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparCore

/// The endpoints that answer requests, by group.
struct Handlers: Sendable {
    let notifications: NotificationsAPI
    let batches: BatchAPI
    let statuses: StatusAPI
    let searches: SearchAPI
    let deadLetters: DeadLetterAPI
    let campaigns: CampaignsAPI
    let devices: DevicesAPI
    let deviceBatches: DeviceBatchAPI
    let subscriptions: SubscriptionAPI
    let deviceEvents: DeviceEventsAPI
    let switches: UserSwitchAPI
    let events: EventsAPI
    let operators: OperatorAPI
    let receipts: ReceiptsAPI
    let appReceipts: AppReceiptsAPI
    let clicks: ClicksAPI
    let topics: TopicsAPI
    let channels: ChannelsAPI
    let tokens: TokensAPI
    let messages: MessagesAPI
    let invalidations: InvalidationsAPI
    let goneBackends: GoneBackendsAPI
    let retries: RetryAPI
    let diagnoses: DiagnosisAPI
    let keys: KeysAPI
    let series: SeriesAPI
    let dashboard: DashboardAPI
    let segments: SegmentsAPI
    let audiences: AudiencesAPI
    let erasures: UserErasureAPI
    let webhooks: WebhooksAPI
}

extension RouteTable {
    /// Makes the table of all routes, except those of modules.
    init(_ handlers: Handlers, build: BuildInfo) {
        let routes =
            Self.notifications(handlers) + Self.searches(handlers) + Self.devices(handlers) + Self.audiences(handlers)
            + Self.backends(handlers)
            + Self.platforms(handlers) + Self.webhooks(handlers) + Self.administration(handlers)
        // These two describe the other routes.
        let documents = StaticDocuments(build: build, routes: routes)
        self.init(
            routes + [
                Route(.get, "/openapi.json", .anyKey) { _, _, _ in documents.describe() },
                Route(.get, "/", .open) { request, _, _ in documents.page(request) },
            ]
        )
    }

    private static func notifications(_ own: Handlers) -> [Route] {
        [
            Route(.post, "/v1/notifications", .scope(.send)) { request, _, scope throws(Problem) in
                try await own.notifications.accept(request, scope)
            },
            // Recorded like an erasure: one request ends every waiting delivery of a key.
            Route(.delete, "/v1/notifications", .scope(.send), erases: true) { _, _, scope throws(Problem) in
                try await own.statuses.cancelAll(scope)
            },
            Route(.post, "/v1/notifications/batch", .scope(.send)) { request, _, scope throws(Problem) in
                try await own.batches.accept(request, scope)
            },
            Route(.get, "/v1/notifications/{id}", .scope(.read)) { _, values, scope throws(Problem) in
                try await own.statuses.show(values[0], scope)
            },
            Route(.delete, "/v1/notifications/{id}", .scope(.send)) { _, values, scope throws(Problem) in
                try await own.statuses.cancel(values[0], scope)
            },
            Route(.get, "/v1/notifications/{id}/deliveries", .scope(.read)) { _, values, scope throws(Problem) in
                try await own.statuses.deliveries(values[0], scope)
            },
            Route(.patch, "/v1/notifications/{id}", .scope(.send)) { request, values, scope throws(Problem) in
                try await own.campaigns.patch(request, values[0], scope)
            },
            Route(.post, "/v1/notifications/{id}/pause", .scope(.send)) { request, values, scope throws(Problem) in
                try await own.campaigns.pause(request, values[0], true, scope)
            },
            Route(.post, "/v1/notifications/{id}/resume", .scope(.send)) { request, values, scope throws(Problem) in
                try await own.campaigns.pause(request, values[0], false, scope)
            },
            // Only a list: each campaign is a notification, and is read as one.
            Route(.get, "/v1/campaigns", .scope(.read)) { _, _, scope throws(Problem) in
                try await own.campaigns.list(scope)
            },
            Route(.get, "/v1/events", .scope(.read)) { _, _, scope throws(Problem) in
                try await own.events.open(scope)
            },
        ]
    }

    /// Returns the routes that find messages, and handle those that failed; each request is recorded.
    private static func searches(_ own: Handlers) -> [Route] {
        [
            Route(.get, "/v1/notifications", .scope(.read), isOnRecord: true) { _, _, scope throws(Problem) in
                try await own.searches.notifications(scope)
            },
            Route(.get, "/v1/notifications/counts", .scope(.read), isOnRecord: true) { _, _, scope throws(Problem) in
                try await own.searches.countNotifications(scope)
            },
            Route(.get, "/v1/deliveries", .scope(.read), isOnRecord: true) { _, _, scope throws(Problem) in
                try await own.searches.deliveries(scope)
            },
            Route(.get, "/v1/deliveries/counts", .scope(.read), isOnRecord: true) { _, _, scope throws(Problem) in
                try await own.searches.counts(scope)
            },
            Route(.post, "/v1/deliveries/resend", .scope(.send), isOnRecord: true) {
                request,
                _,
                scope throws(Problem) in
                try await own.deadLetters.resend(request, scope)
            },
            Route(.post, "/v1/deliveries/acknowledge", .scope(.send), isOnRecord: true) {
                request,
                _,
                scope throws(Problem) in
                try await own.deadLetters.acknowledge(request, scope)
            },
            Route(.get, "/v1/devices/{id}/deliveries", .scope(.read), isOnRecord: true) {
                _,
                values,
                scope throws(Problem) in
                try await own.searches.deliveries(toDevice: values[0], scope)
            },
            Route(.get, "/v1/users/{id}", .scope(.devices), isOnRecord: true) { _, values, scope throws(Problem) in
                try await own.searches.user(values[0], scope)
            },
        ]
    }

    private static func devices(_ own: Handlers) -> [Route] {
        let oneDevice = [HTTPRequest.Method.get, .put, .patch, .delete].map { method in
            Route(method, "/v1/devices/{id}", .scope(.devices), erases: method == .delete) {
                request,
                values,
                scope throws(Problem) in
                try await own.devices.answer(request, method, values[0], scope)
            }
        }
        let subscription = [HTTPRequest.Method.get, .put].map { method in
            Route(method, "/v1/devices/{id}/subscription", .scope(.devices)) { request, values, scope throws(Problem) in
                try await own.subscriptions.answer(request, method, values[0], scope)
            }
        }
        return oneDevice + subscription + [
            Route(.get, "/v1/devices", .scope(.devices)) { _, _, scope throws(Problem) in
                try await own.devices.list(scope)
            },
            Route(.post, "/v1/devices/batch", .scope(.devices)) { request, _, scope throws(Problem) in
                try await own.deviceBatches.put(request, scope, Problem.newRequestID())
            },
            Route(.patch, "/v1/devices/{id}/tags", .scope(.devices)) { request, values, scope throws(Problem) in
                try await own.subscriptions.edit(request, values[0], scope)
            },
            Route(.post, "/v1/devices/{id}/events", .scope(.devices)) { request, values, scope throws(Problem) in
                try await own.deviceEvents.receive(request, values[0], scope)
            },
            // Support sees what waits for a device, and changes nothing of it.
            Route(.get, "/v1/devices/{id}/operations", .either(.devices, .readAll)) {
                _,
                values,
                scope throws(Problem) in
                try await own.subscriptions.list(values[0], scope)
            },
            Route(.post, "/v1/users/{id}/switch", .scope(.devices)) { request, values, scope throws(Problem) in
                try await own.switches.change(request, values[0], scope)
            },
        ]
    }

    private static func audiences(_ own: Handlers) -> [Route] {
        let oneSegment = [HTTPRequest.Method.get, .put, .delete].map { method in
            Route(method, "/v1/segments/{name}", .scope(.devices), erases: method == .delete) {
                request,
                values,
                scope throws(Problem) in
                try await own.segments.answer(request, method, values[0], scope)
            }
        }
        let ofUsers = [HTTPRequest.Method.get, .put].flatMap { method in
            [
                Route(method, "/v1/users/{id}/lists", .scope(.devices)) { request, values, scope throws(Problem) in
                    try await own.audiences.lists(request, method, values[0], scope)
                },
                Route(method, "/v1/users/{id}/tags", .scope(.devices)) { request, values, scope throws(Problem) in
                    try await own.audiences.userTags(request, method, values[0], scope)
                },
            ]
        }
        return oneSegment + ofUsers + [
            Route(.get, "/v1/segments", .scope(.devices)) { _, _, scope throws(Problem) in
                try await own.segments.list(scope)
            },
            Route(.get, "/v1/segments/{name}/members", .scope(.devices)) { _, values, scope throws(Problem) in
                try await own.segments.members(values[0], scope)
            },
            Route(.post, "/v1/segments/{name}/members", .scope(.devices)) { request, values, scope throws(Problem) in
                try await own.segments.change(request, values[0], scope)
            },
            Route(.get, "/v1/segments/{name}/count", .scope(.devices)) { _, values, scope throws(Problem) in
                try await own.audiences.count(segment: values[0], scope)
            },
            Route(.post, "/v1/audiences/count", .scope(.devices)) { request, _, scope throws(Problem) in
                try await own.audiences.count(request, scope)
            },
            Route(.get, "/v1/tags", .scope(.devices)) { _, _, scope throws(Problem) in
                try await own.audiences.tags(scope)
            },
        ]
    }

    private static func backends(_ own: Handlers) -> [Route] {
        [
            Route(.get, "/v1/backends", .scope(.read)) { _, _, scope throws(Problem) in
                try await own.operators.backends(scope)
            },
            Route(.get, "/v1/series", .scope(.read)) { _, _, scope throws(Problem) in
                try await own.series.show(scope)
            },
            // The credential of these two is the platform's signature or secret.
            Route(.post, "/v1/backends/{name}/receipts", .open) { request, values, scope throws(Problem) in
                try await own.receipts.receive(request, values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/webhook/{secret}", .open) { request, values, scope throws(Problem) in
                let secret = Secret(SyncEndpoint.decoded(values[1]))
                return try await own.receipts.receive(request, values[0], secret: secret, scope)
            },
            // The credential is the id itself, which only this installation can have made.
            Route(.post, "/v1/receipts/{id}", .open) { request, values, scope throws(Problem) in
                try await own.appReceipts.receive(request, values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/clicks", .scope(.devices)) { request, values, scope throws(Problem) in
                try await own.clicks.receive(request, values[0], scope)
            },
            // One device is cleared by the app that owns it, all devices by an operator only.
            Route(.post, "/v1/backends/{name}/clear", .scope(.devices), erases: true) {
                request,
                values,
                scope throws(Problem) in
                try await own.switches.clear(request, values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/invalidations", .scope(.admin)) {
                request,
                values,
                scope throws(Problem) in
                try await own.invalidations.resolve(request, values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/move", .scope(.admin)) { request, values, scope throws(Problem) in
                try await own.goneBackends.move(request, values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/drop", .scope(.admin)) { request, values, scope throws(Problem) in
                try await own.goneBackends.drop(request, values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/retry", .scope(.admin)) { request, values, scope throws(Problem) in
                try await own.retries.retry(request, values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/diagnose", .scope(.admin)) { request, values, scope throws(Problem) in
                try await own.diagnoses.diagnose(request, values[0], scope)
            },
            Route(.get, "/v1/invalidations", .scope(.read)) { _, _, scope throws(Problem) in
                try await own.invalidations.show(scope)
            },
        ]
    }

    /// Returns the routes of abilities that only some platforms have.
    private static func platforms(_ own: Handlers) -> [Route] {
        let topics = [("subscribe", true), ("unsubscribe", false)].map { verb, joins in
            Route(.post, "/v1/backends/{name}/topics/{topic}/\(verb)", .scope(.devices)) {
                request,
                values,
                scope throws(Problem) in
                try await own.topics.change(request, values, joins: joins, scope)
            }
        }
        return topics + [
            Route(.get, "/v1/backends/{name}/topics", .scope(.devices)) { _, values, scope throws(Problem) in
                try await own.topics.show(values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/topics/lookup", .scope(.devices)) {
                request,
                values,
                scope throws(Problem) in
                try await own.topics.lookUp(request, values[0], scope)
            },
            // A caller that sends to a channel must find it; creating and deleting one affects every such caller.
            Route(.get, "/v1/backends/{name}/channels", .scope(.send)) { _, values, scope throws(Problem) in
                try await own.channels.list(values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/channels", .scope(.admin)) { request, values, scope throws(Problem) in
                try await own.channels.create(request, values[0], scope)
            },
            Route(.get, "/v1/backends/{name}/channels/{channel}", .scope(.send)) { _, values, scope throws(Problem) in
                try await own.channels.show(values, scope)
            },
            Route(.delete, "/v1/backends/{name}/channels/{channel}", .scope(.admin)) {
                _,
                values,
                scope throws(Problem) in
                try await own.channels.delete(values, scope)
            },
            Route(.post, "/v1/backends/{name}/tokens/lookup", .scope(.admin)) {
                request,
                values,
                scope throws(Problem) in
                try await own.tokens.lookUp(request, values[0], scope)
            },
            Route(.post, "/v1/backends/{name}/tokens/import", .scope(.admin)) {
                request,
                values,
                scope throws(Problem) in
                try await own.tokens.importTokens(request, values[0], scope)
            },
            // A platform's id may belong to a message of any sender; a sender cancels its own messages by DELETE
            // /v1/notifications/{id}.
            Route(.post, "/v1/backends/{name}/messages/cancel", .scope(.admin)) {
                request,
                values,
                scope throws(Problem) in
                try await own.messages.cancel(request, values[0], scope)
            },
        ]
    }

    private static func webhooks(_ own: Handlers) -> [Route] {
        [
            Route(.get, "/v1/webhooks", .scope(.webhooks)) { _, _, scope throws(Problem) in
                try await own.webhooks.list(scope)
            },
            Route(.get, "/v1/webhooks/{name}", .scope(.webhooks)) { _, values, scope throws(Problem) in
                try await own.webhooks.show(values[0], scope)
            },
            // Recorded like an erasure: these decide where the events of all senders go.
            Route(.put, "/v1/webhooks/{name}", .scope(.webhooks), erases: true) {
                request,
                values,
                scope throws(Problem) in
                try await own.webhooks.put(request, values[0], scope)
            },
            Route(.patch, "/v1/webhooks/{name}", .scope(.webhooks), erases: true) {
                request,
                values,
                scope throws(Problem) in
                try await own.webhooks.patch(request, values[0], scope)
            },
            Route(.delete, "/v1/webhooks/{name}", .scope(.webhooks), erases: true) {
                _,
                values,
                scope throws(Problem) in
                try await own.webhooks.delete(values[0], scope)
            },
            Route(.get, "/v1/webhooks/{name}/attempts", .scope(.webhooks)) { _, values, scope throws(Problem) in
                try await own.webhooks.attempts(values[0], scope)
            },
            Route(.post, "/v1/webhooks/{name}/test", .scope(.webhooks)) { request, values, scope throws(Problem) in
                try await own.webhooks.test(request, values[0], scope)
            },
            Route(.post, "/v1/webhooks/{name}/rotate", .scope(.webhooks), erases: true) {
                request,
                values,
                scope throws(Problem) in
                try await own.webhooks.rotate(request, values[0], scope)
            },
            Route(.post, "/v1/webhooks/{name}/recover", .scope(.webhooks)) { request, values, scope throws(Problem) in
                try await own.webhooks.recover(request, values[0], scope)
            },
        ]
    }

    private static func administration(_ own: Handlers) -> [Route] {
        [
            Route(.get, "/v1/keys", .scope(.admin)) { _, _, scope throws(Problem) in
                try await own.keys.list(scope)
            },
            Route(.get, "/v1/key", .anyKey) { _, _, scope throws(Problem) in try own.keys.show(scope) },
            // The code is the credential.
            Route(.post, "/v1/dashboard/session", .open) { request, _, scope throws(Problem) in
                try await own.dashboard.exchange(request, scope)
            },
            // Recorded like an erasure: without an old key the reports of messages on their way are lost.
            Route(.post, "/v1/receipt-keys/rotate", .scope(.admin), erases: true) {
                request,
                _,
                scope throws(Problem) in
                try await own.appReceipts.rotate(request, scope)
            },
            Route(.delete, "/v1/users/{id}", .scope(.admin)) { _, values, scope throws(Problem) in
                try await own.erasures.erase(values[0], scope)
            },
            Route(.get, "/metrics", .scope(.metrics)) { _, _, scope in await own.operators.scrape(scope) },
            Route(.get, "/healthz", .open, isProbe: true, tellsKeysMore: true) { _, _, scope in
                own.operators.health(scope)
            },
            Route(.get, "/readyz", .open, isProbe: true) { _, _, _ in await own.operators.readiness() },
        ]
    }
}
