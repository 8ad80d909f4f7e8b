internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import ChaparComposition
internal import ChaparCore
package import ChaparDelivery
internal import ChaparQueue

/// `POST /v1/receipts/{id}`: an app reports that a message arrived or was opened, without an API key.
///
/// The message's data has the id (``ChaparCore/PushNotification/receiptKey``). The id ends with an authentication code
/// of this installation; ``ReceiptKeys`` checks it before the store is read. The answer to a well-formed report is the
/// same for forged, unknown and repeated ids, so that a caller learns nothing from it. ``RecentReceipts`` limits the
/// reports of an id and of an app.
package final class AppReceiptsAPI: Sendable {
    /// The largest report, in bytes.
    static let maximumBody = 4 << 10
    /// The pause before a delivery that was not found is looked up a second and last time, since a phone can report
    /// before the platform's answer is committed.
    static let earlyDelay = Duration.milliseconds(500)
    /// The most deliveries of a notification that are searched for a token.
    private static let largestSearch = 1_000

    let endpoint: SyncEndpoint
    private let metrics: GatewayMetrics
    private let recent = RecentReceipts()

    private var state: GatewayState { endpoint.state }

    /// Makes the endpoint; `metrics` count the reports.
    package init(endpoint: SyncEndpoint, metrics: GatewayMetrics) {
        self.endpoint = endpoint
        self.metrics = metrics
    }

    private enum Field: Int, RequestField {
        case event, at, token
        static let names = ["event", "at", "token"]
    }

    private enum RotationField: Int, RequestField {
        case keepOld
        static let names = ["keep_old"]
    }

    private struct Report: Sendable {
        var event: PushEvent?
        var at: Date?
        /// The recipient, where the id is that of a notification.
        var token: String?
    }

    /// Answers a report.
    package func receive(_ request: Request, _ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        let report = try await read(request, scope)
        try await take(report, id)
        return Response(status: .noContent, headers: [.cacheControl: "no-store"])
    }

    private func take(_ report: Report, _ text: Substring) async throws(Problem) {
        guard let event = report.event else { return }
        let time = state.time
        let apps = state.snapshot.configuration.receipts
        // Without an app that takes receipts, the key of the codes is not read either.
        guard !apps.isEmpty, let id = try await read(text, of: apps.keys), let settings = apps[id.app] else {
            return metrics.forgedReceipt()
        }
        let key = RecentReceipts.key(id, event, report.token)
        guard !recent.has(key, at: time.steady) else {
            return metrics.appReceipt(of: id.app, event: event.rawValue, .repeated)
        }
        if let wait = recent.take(id, perSecond: settings.perSecond, at: time.steady) {
            metrics.appReceipt(of: id.app, event: event.rawValue, .limited)
            throw .rateLimited(.receiptsPerApp, perSecond: settings.perSecond, wait: wait)
        }
        let result = try await record(report, event, id)
        // The same report comes again, and counts then.
        if result != .early { recent.note(key, isUnknown: result == .unknown, at: time.steady) }
        metrics.appReceipt(of: id.app, event: event.rawValue, result)
        if result == .early { throw .reportedEarly }
    }

    /// Decodes an id; returns nil for one that is forged or past its end.
    private func read(
        _ text: Substring,
        of apps: some Sequence<AppName> & Sendable
    ) async throws(Problem) -> ReceiptID? {
        do throws(StoreError) {
            return try await state.receiptKeys.read(text, of: apps, at: state.time.now)
        } catch {
            throw Problem(error)
        }
    }

    // MARK: The key

    /// `POST /v1/receipt-keys/rotate`: makes another key of the ids; ids of the old one are taken for a while.
    package func rotate(_ request: Request, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        // The ids of all apps have one key.
        guard state.snapshot.backends.allSatisfy({ scope.caller.mayUse(backend: $0.name) }) else {
            throw .reachesFurther("A new key of receipts")
        }
        var keepOld = ReceiptKeys.longestKept
        let most = ReceiptKeys.longestKept
        try await endpoint.body(of: request, scope, RotationField.self) {
            (scanner, issues, _) throws(JSONSyntaxError) in
            keepOld = try scanner.integer(in: 0...most, &issues, "#/keep_old", unit: " seconds") ?? keepOld
        }
        let exchange: ReceiptRootExchange?
        do throws(StoreError) {
            exchange = try await state.receiptKeys.replaceRoot(keepingOldFor: keepOld, at: state.time.now)
        } catch {
            throw Problem(error)
        }
        guard let exchange else {
            var issues = RequestIssues()
            issues.add(
                "#/keep_old",
                "too_many",
                "Ids of \(ReceiptKeys.maximumRoots) keys are taken already: wait until an old one has ended, or write 0, "
                    + "which ends all of them."
            )
            throw Problem(issues)
        }
        return Response.json { writer in
            writer.field("keys", exchange.roots)
            writer.name("used_from")
            RFC3339.write(exchange.begin, to: &writer)
            writer.name("old_keys_until")
            RFC3339.write(exchange.oldEnd, to: &writer)
        }
    }

    // MARK: Reading

    /// Reads the body as JSON whatever its content type is, since a service worker of another origin cannot set
    /// `application/json`.
    private func read(_ request: Request, _ scope: RequestScope) async throws(Problem) -> Report {
        try scope.allowParameters([])
        guard !state.isDraining else { throw .draining }
        let reader = RequestBodyReader(admission: endpoint.admission, scope, limit: Self.maximumBody)
        return try await reader.withBody(of: request) { (bytes) throws(Problem) in
            var report = Report()
            var issues = RequestIssues()
            do throws(JSONSyntaxError) {
                try JSONScanner.scan(bytes) { (scanner) throws(JSONSyntaxError) in
                    let isObject = try scanner.fields(Field.self, &issues, "#") {
                        (scanner, issues, field) throws(JSONSyntaxError) in
                        try Self.read(field, &scanner, &issues, into: &report)
                    }
                    if isObject, report.event == nil, issues.isEmpty {
                        issues.add("#/event", "missing", "Write delivered or opened.")
                    }
                }
            } catch {
                throw .notJSON(error, bytes)
            }
            guard issues.isEmpty else { throw Problem(issues) }
            return report
        }
    }

    private static func read(
        _ field: Field,
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        into report: inout Report
    ) throws(JSONSyntaxError) {
        switch field {
        case .event:
            guard let word = try scanner.identifier(&issues, "#/event", limit: 32) else { return }
            report.event = PushEvent(rawValue: word)
            if report.event == nil { issues.add("#/event", "unknown_event", "Write delivered or opened.") }
        case .at:
            guard let text = try scanner.identifier(&issues, "#/at", limit: 64) else { return }
            report.at = RFC3339.parse(text)
            if report.at == nil {
                issues.add("#/at", "bad_time", "Must be an RFC 3339 time, such as 2026-11-21T08:15:30Z.")
            }
        case .token: report.token = try scanner.identifier(&issues, "#/token", limit: 2048)
        }
    }

    // MARK: Recording

    private func record(_ report: Report, _ event: PushEvent, _ id: ReceiptID) async throws(Problem) -> AppReceiptResult
    {
        do throws(StoreError) {
            let delivery: Int64
            switch id.subject {
            case .delivery(let number): delivery = number
            case .notification(let number):
                guard let token = report.token else { return .unattributed }
                guard let found = try await find(token, NotificationID(rawValue: number), id.app) else {
                    return .unknown
                }
                delivery = found
            }
            var result = try await record(report, event, delivery)
            if result == .unknown || result == .early, (try? await state.time.sleep(for: Self.earlyDelay)) != nil {
                result = try await record(report, event, delivery)
            }
            switch result {
            case .unknown: return .unknown
            case .early: return .early
            case .repeated: return .repeated
            case .recorded: return .recorded
            }
        } catch {
            throw Problem(error)
        }
    }

    private func record(
        _ report: Report,
        _ event: PushEvent,
        _ delivery: Int64
    ) async throws(StoreError) -> ReceiptResult {
        let now = state.time.now
        // A phone's clock may be ahead, or before the message (1970 after an empty battery): the report counts as made
        // now. The number of a delivery has the time of its notification.
        let sent = NotificationID(rawValue: delivery).time
        let at = report.at.map { $0 < sent || $0 > now ? now : $0 } ?? now
        let receipt = DeliveryReceipt(
            event == .opened ? .opened : .delivered,
            reason: event.rawValue,
            detail: "reported by the app",
            at: at
        )
        let logEntry = EventJSON.receipt(receipt, backend: EventJSON.appReporter)
        let entry = ReceiptEntry(
            ReceiptAddress(delivery: delivery),
            state: receipt.deliveryState,
            logEntry: logEntry
        ) { delivery in
            // Webhooks find the app of an event by its backend.
            let backend = delivery.backend.isEmpty ? EventJSON.appReporter : delivery.backend
            return EventJSON.received(delivery, changesState: true, backend: backend, logEntry: logEntry, at: now)
        }
        return try await state.record([entry]).first ?? .unknown
    }

    /// Returns the delivery of a notification that went to a token, to the device that has it, or to the platform's own
    /// id; nil when there is none.
    private func find(
        _ token: String,
        _ notification: NotificationID,
        _ app: AppName
    ) async throws(StoreError) -> Int64? {
        if let search = state.search, let device = try await device(having: token, app) {
            let keys = [SearchKey.device(device.id)] + (device.user.map { [SearchKey.user($0)] } ?? [])
            let look = SearchLook(
                .keys(keys),
                from: notification.rawValue,
                before: notification.delivery(at: NotificationIntake.maximumDeliveries),
                limit: 1,
                rows: Self.largestSearch
            )
            let page = try await search.search(look) { found in
                found.notification == notification && DeviceEventsAPI.canBe(device, found.delivery.recipient)
            }
            if let found = page.found.first { return found.delivery.id }
        }
        return try await state.store.deliveries(of: notification, after: nil, limit: Self.largestSearch).first { one in
            switch one.recipient {
            case .token(let own): own.value == token
            case .platformID(let own): own == token
            case .device, .user, .topic, .tags, .everyone: false
            }
        }?.id
    }

    private func device(having token: String, _ app: AppName) async throws(StoreError) -> Device? {
        for service in state.snapshot.services(of: app) {
            let token = DeviceToken(token, service: TokenService(rawValue: service))
            if let device = try await state.devices.device(having: token, in: app) { return device }
        }
        return nil
    }
}
