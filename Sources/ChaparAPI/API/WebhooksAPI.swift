internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `/v1/webhooks`: the endpoints that get events, their keys, their attempts, and sending events again.
///
/// The store keeps endpoints; ``ChaparDelivery/WebhookRelay`` sends to them. A key of an app can see and change that
/// app's endpoints, an administrator all endpoints, also those that get the events of every app.
package struct WebhooksAPI: Sendable {
    /// The most endpoints of an app, and of the operator.
    static let maximumOfApp = 16
    /// The time, in seconds, for which a replaced key signs: the default and the most.
    private static let keptKey = 86_400
    private static let longestKeptKey = 7 * 86_400
    /// The most patterns of a filter.
    private static let maximumTypes = 32
    /// The most bytes of a test's answer that are shown.
    private static let shownBytes = 1_024

    let endpoint: SyncEndpoint
    let relay: WebhookRelay?

    /// Creates the endpoints; without a relay, or a store that keeps endpoints, every call is refused.
    package init(endpoint: SyncEndpoint, relay: WebhookRelay?) {
        self.endpoint = endpoint
        self.relay = relay
    }

    private enum Field: Int, RequestField {
        case url, app, types, ordered, batch, rate, enabled
        static let names = ["url", "app", "types", "ordered", "batch", "rate", "enabled"]
    }

    private enum RotateField: Int, RequestField {
        case keepOld
        static let names = ["keep_old"]
    }

    private enum RecoverField: Int, RequestField {
        case since, id
        static let names = ["since", "id"]
    }

    /// The members of a body, those that it has.
    private struct Change {
        var url: (text: String, address: WebhookURL)?
        var app: String?
        var types: [String]?
        var isOrdered: Bool?
        var isBatched: Bool?
        var rate: Int?
        var isEnabled: Bool?

        func apply(to settings: inout WebhookSettings, isWhole: Bool) {
            if let url { settings.url = url.text }
            settings.types = types ?? (isWhole ? WebhookType.byDefault : settings.types)
            settings.isOrdered = isOrdered ?? (isWhole ? false : settings.isOrdered)
            settings.isBatched = isBatched ?? (isWhole ? false : settings.isBatched)
            settings.rate = rate ?? (isWhole ? 0 : settings.rate)
            // Enabling ends a reason of the gateway's own as well; a body without the member changes neither.
            if isEnabled == true { settings.generation = settings.generation.adding(clamping: 1) }
            settings.isEnabled = isEnabled ?? settings.isEnabled
        }
    }

    // MARK: The endpoints

    /// Answers with the endpoints that the caller may see.
    package func list(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        let store = try store()
        let found = try await kept { () throws(StoreError) in try await store.webhooks() }
        var shown: [Shown] = []
        for webhook in found where mayUse(webhook.app, scope) { shown.append(try await show(webhook)) }
        return Response.json(capacity: 512 * shown.count + 64) { writer in
            writer.name("webhooks")
            writer.beginArray()
            for one in shown {
                writer.beginObject()
                write(one, to: &writer)
                writer.endObject()
            }
            writer.endArray()
        }
    }

    /// Answers with an endpoint.
    package func show(_ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        let shown = try await show(try await find(name, scope))
        return Response.json { write(shown, to: &$0) }
    }

    /// Adds an endpoint, whose key only this answer shows, or replaces its settings.
    package func put(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        let store = try store()
        let name = try Self.checked(name)
        let change = try await read(request, scope, needsURL: true)
        let all = try await kept { () throws(StoreError) in try await store.webhooks() }
        if let found = all.first(where: { $0.name == name }) {
            guard mayUse(found.app, scope) else { throw .webhookExists(name) }
            return try await save(change, over: found, isWhole: true, scope)
        }
        let app = try app(change.app, scope)
        guard all.count(where: { $0.app == app }) < Self.maximumOfApp else {
            var issues = RequestIssues()
            issues.add("#", "too_many", "There are \(Self.maximumOfApp) webhooks already: delete one first.")
            throw Problem(issues)
        }
        var settings = WebhookSettings(url: "", createdAt: endpoint.state.time.now)
        change.apply(to: &settings, isWhole: true)
        let secret = WebhookSecret.make()
        let new = StoredWebhook(name: name, app: app, settings: settings.encoded)
        let (relay, secrets) = (relay, WebhookSecrets([secret]))
        // The endpoint first: of two requests that add one, the other one must not replace its key. Without a key
        // nothing is sent.
        let revision = try await kept { () throws(StoreError) in try await store.saveWebhook(new, replacing: nil) }
        guard revision != nil else { throw .webhookChanged(name) }
        try await kept { () throws(StoreError) in try await relay?.save(secrets, of: name) }
        relay?.changed()
        let shown = try await show(try await find(Substring(name), scope))
        var response = Response.json(.created) { writer in
            write(shown, to: &writer)
            writer.field("secret", secret.text.reveal())
        }
        response.headers[.location] = "/v1/webhooks/\(name)"
        return response
    }

    /// Changes some settings of an endpoint.
    package func patch(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        let found = try await find(name, scope)
        let change = try await read(request, scope, needsURL: false)
        return try await save(change, over: found, isWhole: false, scope)
    }

    /// Removes an endpoint with its keys and what waits for it.
    package func delete(_ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        let found = try await find(name, scope)
        let (store, relay) = (try store(), relay)
        _ = try await kept { () throws(StoreError) in
            let isRemoved = try await store.removeWebhook(found.name)
            try await relay?.save(nil, of: found.name)
            return isRemoved
        }
        relay?.changed()
        return Response(status: .noContent)
    }

    private func save(
        _ change: Change,
        over found: StoredWebhook,
        isWhole: Bool,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        guard var settings = WebhookSettings(encoded: found.settings) else { throw .webhookChanged(found.name) }
        if let app = change.app, try self.app(app, scope) != found.app {
            var issues = RequestIssues()
            issues.add("#/app", "unchangeable", "The app of a webhook cannot be changed: add another webhook.")
            throw Problem(issues)
        }
        change.apply(to: &settings, isWhole: isWhole)
        var new = found
        new.settings = settings.encoded
        let (store, webhook) = (try store(), new)
        let revision = try await kept { () throws(StoreError) in
            try await store.saveWebhook(webhook, replacing: found.revision)
        }
        guard let revision else { throw .webhookChanged(found.name) }
        new.revision = revision
        relay?.changed()
        let shown = try await show(new)
        return Response.json { write(shown, to: &$0) }
    }

    // MARK: Keys, attempts, sending again

    /// Sends a test, and answers with what the receiver answered.
    package func test(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try await requireNothing(request, scope)
        let (found, relay) = (try await find(name, scope), relay)
        guard try await kept({ () throws(StoreError) in try await keys(of: found) }) != nil else {
            throw .webhookKeyMissing(found.name)
        }
        let result = try await kept { () throws(StoreError) in try await relay?.test(found) }
        guard let (id, answer) = result else { throw .webhookChanged(found.name) }
        return Response.json { writer in
            writer.field("id", id)
            writer.field("delivered", answer.isSuccess)
            writer.field("outcome", answer.outcome)
            writer.field("status", answer.status)
            writer.field("detail", answer.detail)
            writer.field("redirect_host", answer.redirectHost)
            writer.field("duration_ms", answer.duration.boundedMilliseconds)
            if answer.status != nil {
                writer.field("body", String(decoding: answer.body.prefix(Self.shownBytes), as: UTF8.self))
            }
        }
    }

    /// Makes a new key, which only this answer shows; the others sign for a while.
    package func rotate(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        try scope.allowParameters([])
        let found = try await find(name, scope)
        var keepOld = Self.keptKey
        try await endpoint.body(of: request, scope, RotateField.self) { (scanner, issues, _) throws(JSONSyntaxError) in
            keepOld =
                try scanner.integer(in: 0...Self.longestKeptKey, &issues, "#/keep_old", unit: " seconds") ?? keepOld
        }
        let (store, relay) = (try store(), relay)
        let now = endpoint.state.time.now
        let end = now.addingTimeInterval(Double(keepOld))
        // Where the old keys cannot be read the new one signs alone. Their value is kept aside.
        let known = try await kept { () throws(StoreError) in try await keys(of: found) }
        var secrets = known ?? WebhookSecrets([])
        let live = secrets.all.count { $0.until.map { $0 > now } ?? true }
        guard keepOld == 0 || live < WebhookSecrets.maximumCount else {
            var issues = RequestIssues()
            issues.add(
                "#/keep_old",
                "too_many",
                "\(live) keys sign already: wait until an old one has ended, or write 0, which ends all of them."
            )
            throw Problem(issues)
        }
        let secret = WebhookSecret.make()
        secrets.rotate(to: secret, keepingOthersUntil: end, now: now)
        let new = secrets
        let oldEnd = new.all.compactMap(\.until).max() ?? now
        let revision = try await kept { () throws(StoreError) in
            try await store.saveWebhook(found, replacing: found.revision)
        }
        guard let revision else { throw .webhookChanged(found.name) }
        try await kept { () throws(StoreError) in
            try await relay?.save(new, of: found.name)
            // Another revision, since a sender may have read the keys in between.
            _ = try await store.saveWebhook(found, replacing: revision)
        }
        relay?.changed()
        return Response.json { writer in
            writer.field("webhook", found.name)
            writer.field("secret", secret.text.reveal())
            writer.name("old_secrets_until")
            RFC3339.write(oldEnd, to: &writer)
        }
    }

    /// Returns the keys of an endpoint.
    ///
    /// Nil when it has none: their key of `store.encryption` is lost, or the request that added it was cut short.
    private func keys(of webhook: StoredWebhook) async throws(StoreError) -> WebhookSecrets? {
        do throws(StoreError) {
            return try await relay?.secrets(of: webhook.name)
        } catch {
            guard case .sealed = error else { throw error }
            return nil
        }
    }

    /// Sends again what was given up since a time, or one message.
    package func recover(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        try scope.allowParameters([])
        let (found, relay) = (try await find(name, scope), relay)
        let now = endpoint.state.time.now
        var since: Date?
        var id: String?
        try await endpoint.body(of: request, scope, RecoverField.self) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .since: since = try scanner.pastTime(&issues, "#/since", now: now)
            case .id: id = try scanner.identifier(&issues, "#/id", limit: 256)
            }
        } check: { issues in
            guard issues.isEmpty, (since == nil) == (id == nil) else { return }
            issues.add("#", "one_of", "Write \"since\", a time, or \"id\", that of one message.")
        }
        if let id {
            let isKnown = try await kept { () throws(StoreError) in try await relay?.replay(id, of: found) }
            guard isKnown == true else {
                throw .notFound(
                    "The webhook has no such message. A batch or an end of a notification that was taken, and events that are removed, cannot be sent again."
                )
            }
            return Response.json(.accepted) { $0.field("messages", 1) }
        }
        let start = since ?? now
        let recovery = try await kept { () throws(StoreError) in try await relay?.recover(found, since: start) }
        return Response.json(.accepted) { writer in
            writer.field("messages", recovery?.messages ?? 0)
            writer.field("spans", recovery?.spans ?? 0)
        }
    }

    /// Answers with the last attempts, the newest first.
    package func attempts(_ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        let shown = try await show(try await find(name, scope))
        return Response.json(capacity: 8_192) { writer in
            writer.field("webhook", shown.webhook.name)
            writer.name("attempts")
            writer.beginArray()
            for attempt in shown.memory.attempts {
                writer.beginObject()
                writer.name("at")
                RFC3339.write(attempt.at, to: &writer)
                writer.field("id", attempt.id)
                writer.field("type", attempt.type)
                writer.field("attempt", attempt.attempt)
                writer.field("outcome", attempt.outcome)
                writer.field("status", attempt.status)
                writer.field("detail", attempt.detail)
                writer.field("redirect_host", attempt.redirectHost)
                writer.field("duration_ms", attempt.milliseconds)
                writer.endObject()
            }
            writer.endArray()
        }
    }

    // MARK: Reading bodies

    private func requireNothing(_ request: Request, _ scope: RequestScope) async throws(Problem) {
        guard !endpoint.state.isDraining else { throw .draining }
        try scope.allowParameters([])
        try RequestBodyReader.requireJSON(scope.fields)
        try await RequestBodyReader(admission: endpoint.admission, scope, limit: 4096).requireEmptyObject(of: request)
    }

    private func read(
        _ request: Request,
        _ scope: RequestScope,
        needsURL: Bool
    ) async throws(Problem) -> Change {
        var change = Change()
        var hasURL = false
        try await endpoint.body(of: request, scope, Field.self) { (scanner, issues, field) throws(JSONSyntaxError) in
            let pointer = "#/\(Field.names[field.rawValue])"
            switch field {
            case .url:
                hasURL = true
                guard let text = try scanner.text(&issues, pointer, limit: WebhookURL.maximumBytes) else { return }
                do throws(WebhookURL.Mistake) {
                    change.url = (text, try WebhookURL(text))
                } catch {
                    issues.add(pointer, error.code, error.detail)
                }
            case .app: change.app = try scanner.identifier(&issues, pointer, limit: 64)
            case .types: change.types = try Self.types(&scanner, &issues, pointer)
            case .ordered: change.isOrdered = try scanner.flag(&issues, pointer)
            case .batch: change.isBatched = try scanner.flag(&issues, pointer)
            case .rate:
                change.rate = try scanner.integer(
                    in: 0...WebhookSettings.maximumRate,
                    &issues,
                    pointer,
                    unit: " requests a second"
                )
            case .enabled: change.isEnabled = try scanner.flag(&issues, pointer)
            }
        } check: { issues in
            if needsURL, !hasURL {
                issues.add("#/url", "missing", "Write the address, such as https://example.com/hooks.")
            }
        }
        if let address = change.url?.address, let mistake = await relay?.mistake(in: address) {
            var issues = RequestIssues()
            issues.add("#/url", mistake.code, mistake.detail)
            throw Problem(issues)
        }
        return change
    }

    private static func types(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> [String] {
        var patterns: [String] = []
        var count = 0
        try scanner.elements(&issues, pointer) { (scanner, issues, index) throws(JSONSyntaxError) in
            count += 1
            guard index < maximumTypes else { return try scanner.skip() }
            guard let text = try scanner.text(&issues, "\(pointer)/\(index)", limit: 64) else { return }
            if WebhookFilter.types(of: text).isEmpty {
                let known = WebhookType.allCases.map(\.rawValue).joined(separator: ", ")
                issues.add(
                    "\(pointer)/\(index)",
                    "unknown_type",
                    "The types are \(known); delivery.* stands for all that begin so."
                )
            } else {
                patterns.append(text)
            }
        }
        if count == 0 { issues.add(pointer, "empty", "Name at least one type, or leave it out for the default.") }
        if count > maximumTypes { issues.add(pointer, "too_many", "At most \(maximumTypes) types.") }
        return patterns
    }

    /// Returns the app of a new endpoint: the one that the body names, that of the key, or none for an administrator.
    private func app(_ name: String?, _ scope: RequestScope) throws(Problem) -> String {
        if name == nil, scope.caller.seesAll { return "" }
        let app = try scope.app(name)
        guard mayUse(app.rawValue, scope) else {
            throw .notFound(
                "A webhook gets the events of every backend of its app, and this key may not use all of them."
            )
        }
        return app.rawValue
    }

    /// Whether a caller may see and change the endpoints of an app; those of every app are an administrator's.
    private func mayUse(_ app: String, _ scope: RequestScope) -> Bool {
        guard !app.isEmpty else { return scope.caller.seesAll }
        let name = AppName(rawValue: app)
        return scope.caller.mayUse(app: name) && scope.snapshot.mayUseWhole(name, scope.caller)
    }

    private static func checked(_ step: Substring) throws(Problem) -> String {
        let name = SyncEndpoint.decoded(step)
        guard BackendRegistry.isName(name) else {
            throw .badParameter("name", "use letters, digits, - and _, at most 64.")
        }
        return name
    }

    private func find(_ step: Substring, _ scope: RequestScope) async throws(Problem) -> StoredWebhook {
        let name = SyncEndpoint.decoded(step)
        let store = try store()
        let all = try await kept { () throws(StoreError) in try await store.webhooks() }
        guard let found = all.first(where: { $0.name == name }), mayUse(found.app, scope) else {
            throw .notFound("There is no webhook \(name.prefix(64)).")
        }
        return found
    }

    private func store() throws(Problem) -> any WebhookStore {
        guard let store = relay?.store else { throw .notFound("The store of this gateway keeps no webhooks.") }
        return store
    }

    private func kept<Value>(_ body: () async throws(StoreError) -> Value) async throws(Problem) -> Value {
        do throws(StoreError) {
            return try await body()
        } catch {
            throw Problem(error)
        }
    }

    // MARK: Answers

    /// An endpoint with what is known of it.
    private struct Shown {
        var webhook: StoredWebhook
        var settings: WebhookSettings
        var memory: WebhookMemory
        var cursor: Int64
        var lastEvent: Int64
        var counts: WebhookCounts
        /// The times at which the keys end, but for the newest.
        var oldKeys: [Date]
        /// Whether nothing is sent since no key can be read.
        var isKeyMissing: Bool
        /// The translation of the times in ``memory``.
        var reading: TimeReading
    }

    private func show(_ webhook: StoredWebhook) async throws(Problem) -> Shown {
        let (store, state) = (try store(), endpoint.state)
        guard let settings = WebhookSettings(encoded: webhook.settings) else { throw .webhookChanged(webhook.name) }
        return try await kept { () throws(StoreError) in
            let progress = try await store.webhookProgress(webhook.name)
            let now = state.time.now
            let keys = try await keys(of: webhook)
            return Shown(
                webhook: webhook,
                settings: settings,
                memory: WebhookMemory(encoded: progress?.memory ?? []),
                cursor: progress?.cursor ?? 0,
                lastEvent: try await state.store.lastEvent(),
                counts: try await store.webhookCounts(of: webhook.name),
                oldKeys: (keys?.all ?? []).compactMap(\.until).filter { $0 > now },
                isKeyMissing: keys == nil,
                reading: state.clock.reading
            )
        }
    }

    private func write(_ shown: Shown, to writer: inout JSONWriter) {
        let (settings, memory) = (shown.settings, shown.memory)
        func time(_ name: StaticString, _ time: Date?) {
            guard let time else { return }
            writer.name(name)
            RFC3339.write(shown.reading.wall(time), to: &writer)
        }
        let disabled = memory.disabled.flatMap { $0.generation == settings.generation ? $0 : nil }
        let isDisabled = !settings.isEnabled || disabled != nil
        writer.field("name", shown.webhook.name)
        if !shown.webhook.app.isEmpty { writer.field("app", shown.webhook.app) }
        writer.field("url", settings.url)
        writer.name("types")
        writer.beginArray()
        for type in settings.types { writer.string(type) }
        writer.endArray()
        writer.field("ordered", settings.isOrdered)
        writer.field("batch", settings.isBatched)
        writer.field("rate", settings.rate)
        writer.field("status", isDisabled ? "disabled" : memory.failingSince != nil ? "failing" : "active")
        if isDisabled {
            writer.field("reason", settings.isEnabled ? disabled?.reason.rawValue : "operator")
            time("disabled_at", disabled?.at)
        }
        time("failing_since", memory.failingSince)
        if !isDisabled {
            time("will_be_disabled_at", memory.disabledFrom)
            time("paused_until", memory.notBefore.flatMap { $0 > shown.reading.steady ? $0 : nil })
        }
        time("succeeded_at", memory.succeededAt)
        writer.field("cursor", shown.cursor)
        writer.field("lag", max(0, shown.lastEvent.subtracting(clamping: shown.cursor)))
        writer.field("open", shown.counts.open)
        writer.field("failed", shown.counts.failed)
        writer.name("created_at")
        RFC3339.write(settings.createdAt, to: &writer)
        if shown.isKeyMissing { writer.field("key_missing", true) }
        guard let end = shown.oldKeys.max() else { return }
        writer.name("old_secrets_until")
        RFC3339.write(end, to: &writer)
    }
}

extension Problem {
    /// Returns the problem of a name that another endpoint has.
    fileprivate static func webhookExists(_ name: String) -> Problem {
        Problem(
            .conflict,
            "webhook_exists",
            "The name is in use",
            detail: "Another webhook has it: choose another name."
        )
    }

    /// Returns the problem of an endpoint whose keys cannot be read, with the two ways to mend it.
    fileprivate static func webhookKeyMissing(_ name: String) -> Problem {
        Problem(
            .conflict,
            "webhook_key_missing",
            "The webhook's key cannot be read",
            detail: "Nothing is sent, and its events wait. Where the key of store.encryption was replaced, give the "
                + "old one in store.encryption.old_keys; else make a new key: POST /v1/webhooks/\(name)/rotate."
        )
    }

    /// Returns the problem of an endpoint that another request changed meanwhile.
    fileprivate static func webhookChanged(_ name: String) -> Problem {
        Problem(
            .conflict,
            "webhook_changed",
            "The webhook was changed meanwhile",
            detail: "Read it again, and repeat the change."
        )
    }
}
