internal import Foundation
package import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `/v1/devices/{id}/subscription`, `/tags` and `/operations`: reads and changes a device's subscriptions and tags at
/// platforms, and lists the operations for the device that still wait.
package struct SubscriptionAPI: Sendable {
    private static let largestPage = 1_000
    /// The most tags of one call.
    private static let maximumTags = 100

    let endpoint: SyncEndpoint

    /// Creates the endpoints, which call platforms and store operations through `endpoint`.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private enum Field: Int, RequestField {
        case status, backend, options
        static let names = ["status", "backend", "options"]
    }

    private enum TagField: Int, RequestField {
        case tags, backend
        static let names = ["tags", "backend"]
    }

    /// Asks a platform for the state of a subscription, or enqueues a change of it for platforms.
    package func answer(
        _ request: Request,
        _ method: HTTPRequest.Method,
        _ id: Substring,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        if method == .put { return try await set(scope.device(id), request, scope) }
        return try await show(scope.device(id), scope)
    }

    private func set(_ id: String, _ request: Request, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "wait"])
        var status: SubscriptionStatus?
        var hasStatus = false
        var backend: String?
        var options: JSONObject?
        try await endpoint.body(of: request, scope, Field.self) { (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .status:
                hasStatus = true
                guard let value = try scanner.identifier(&issues, "#/status", limit: 32) else { return }
                status = SubscriptionStatus(rawValue: value)
                if status == nil { issues.add("#/status", "unknown_status", Self.statusHint) }
            case .backend: backend = try scanner.identifier(&issues, "#/backend", limit: 64)
            case .options: options = try scanner.members(&issues, "#/options")
            }
        } check: { issues in
            if !hasStatus { issues.add("#/status", "missing", Self.statusHint) }
            if options != nil, backend == nil {
                issues.add("#/options", "needs_backend", "Options are a platform's own: name the backend.")
            }
        }
        let device = try await endpoint.device(id)
        let record = endpoint.record(device, scope)
        // The audiences of the registry keep the status themselves, with any platforms.
        let isKept = endpoint.state.audiences != nil
        let backends = try endpoint.backends(backend, for: record, scope, "subscriptions", mayBeNone: isKept) {
            $0.subscriptions
        }
        let change = SubscriptionChange(status ?? .subscribed, options: options ?? JSONObject())
        var issues = RequestIssues()
        for (_, manager) in backends { for issue in manager.issues(in: change, of: record) { issues.add(issue) } }
        guard issues.isEmpty else { throw Problem(issues) }
        // A change at one platform says nothing about the others.
        if backend == nil { try await note(change.status, of: device) }
        guard !backends.isEmpty else {
            return Response.json { writer in
                writer.name("operations")
                writer.beginArray()
                writer.endArray()
            }
        }
        return try await enqueue(backends.map(\.0), of: device, .subscription, change.stored, scope)
    }

    /// Keeps the status for the audiences of the registry, which leave out the device unless it is subscribed.
    private func note(_ status: SubscriptionStatus, of device: Device) async throws(Problem) {
        guard let audiences = endpoint.state.audiences else { return }
        let standing: AudienceStanding =
            switch status {
            case .suspended: .suspended
            case .unsubscribed: .unsubscribed
            default: .subscribed
            }
        let label = standing == .subscribed ? nil : AudienceLabel.standing(standing)
        let change = LabelChange(
            .device(device.id),
            added: label.map { [$0] } ?? [],
            removed: AudienceLabel.standings.filter { $0 != label }
        )
        do throws(StoreError) {
            _ = try await audiences.relabel([change])
        } catch {
            throw Problem(ofDevices: error)
        }
    }

    private static let statusHint = "Write subscribed, suspended or unsubscribed."

    private func show(_ id: String, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "backend", "query", "service"])
        let query = try query(scope)
        let device = try await endpoint.device(id)
        let record = endpoint.record(device, scope)
        let able = scope.gateway.backends(of: device.app).filter { $0.backend.subscriptions != nil }
        guard let name = scope.parameter("backend") ?? (able.count == 1 ? able.first?.name : nil) else {
            throw .badParameter("backend", "say which: \(able.map(\.name).joined(separator: ", ")).")
        }
        guard let manager = able.first(where: { $0.name == name })?.backend.subscriptions else {
            throw .badParameter("backend", didYouMean(name, able.map(\.name)) ?? "keeps no subscriptions.")
        }
        let report = try await endpoint.call { () throws(PushError) in try await manager.report(query, of: record) }
        return Response.json { writer in
            writer.field("device", device.name)
            writer.field("backend", name)
            writer.write(report)
        }
    }

    private func query(_ scope: RequestScope) throws(Problem) -> SubscriptionQuery {
        let service = scope.parameter("service")
        switch scope.parameter("query") ?? "current" {
        case "current":
            guard service == nil else { throw .badParameter("service", "goes with query=latest only.") }
            return .current
        case "latest":
            guard let service else { return .latest }
            if service == "current" { return .latestOf(nil) }
            guard let known = TokenService.named(service) else {
                throw .badParameter("service", DeviceFieldRules.unknownService(service))
            }
            return .latestOf(known)
        default: throw .badParameter("query", "must be current or latest.")
        }
    }

    // MARK: Tags

    /// Enqueues tags and profile fields for platforms; the registry's own tags stay as they are.
    package func edit(_ request: Request, _ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "wait"])
        var backend: String?
        var tags: JSONObject?
        var hasTags = false
        try await endpoint.body(of: request, scope, TagField.self) { (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .tags:
                hasTags = true
                tags = try scanner.members(&issues, "#/tags")
            case .backend: backend = try scanner.identifier(&issues, "#/backend", limit: 64)
            }
        } check: { issues in
            if !hasTags { issues.add("#/tags", "missing", "Send an object of tags; null removes one.") }
            if let tags, tags.isEmpty { issues.add("#/tags", "empty", "Send at least one tag.") }
            if let tags, tags.count > Self.maximumTags {
                issues.add("#/tags", "too_many_tags", "At most \(Self.maximumTags) tags; there are \(tags.count).")
            }
        }
        let changes = tags ?? JSONObject()
        let device = try await endpoint.device(scope.device(id))
        let record = endpoint.record(device, scope)
        let backends = try endpoint.backends(backend, for: record, scope, "tags") { $0.tags }
        var issues = RequestIssues()
        for (_, editor) in backends {
            for issue in editor.issues(in: changes, of: record) {
                issues.add("#/tags" + issue.pointer.dropFirst(), issue.code, issue.detail)
            }
        }
        guard issues.isEmpty else { throw Problem(issues) }
        return try await enqueue(backends.map(\.0), of: device, .tags, ["tags": .object(changes)], scope)
    }

    /// Stores one operation for each backend, and answers.
    private func enqueue(
        _ backends: [String],
        of device: Device,
        _ kind: OutboxEntry.Kind,
        _ body: JSONObject,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        let now = endpoint.state.time.now
        let operations = backends.map {
            OutboxEntry(backend: $0, device: device.id, user: device.user, kind: kind, body: body, at: now)
        }
        return try await endpoint.answer(operations, scope)
    }

    // MARK: Waiting entries

    /// Answers with the outbox entries of a device, oldest first.
    package func list(_ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "limit"])
        let limit = try scope.number("limit", in: 1...Self.largestPage, default: 100)
        // A deleted device may still have waiting entries; a text that is no id never has.
        let name = SyncEndpoint.decoded(id)
        guard Device.isID(name) else { throw .badDeviceID }
        let device = try scope.app().key(name)
        let waiting: [WaitingEntry]
        let unplanned: Int
        do throws(StoreError) {
            unplanned = try await unplannedSoon(of: device)
            // A key that names backends sees only their entries.
            let isPart = scope.caller.view != nil
            let all = try await endpoint.state.devices.entries(
                ofDevice: device,
                limit: isPart ? Self.largestPage : limit
            )
            waiting = Array(all.filter { scope.caller.mayUse(backend: $0.operation.backend) }.prefix(limit))
        } catch {
            throw Problem(error)
        }
        return Response.json(capacity: 192 * waiting.count + 64) { writer in
            writer.field("unplanned", unplanned)
            writer.name("items")
            writer.beginArray()
            let troubles = endpoint.state.outcomes.troubles
            for one in waiting {
                Self.write(one, endpoint.state.time, troubles.reason(of: one.operation), to: &writer)
            }
            writer.endArray()
        }
    }

    /// Returns the number of a device's unplanned changes, after the planner had up to a second to plan them.
    ///
    /// A request right after a change therefore sees its operations.
    private func unplannedSoon(of device: String) async throws(StoreError) -> Int {
        let (store, time) = (endpoint.state.devices, endpoint.state.time)
        for _ in 0..<50 where try await store.unplannedCount(ofDevice: device) > 0 {
            try? await time.sleep(for: .milliseconds(20))
        }
        return try await store.unplannedCount(ofDevice: device)
    }

    /// Writes a waiting operation; `error` is the reason why it waits, as far as this gateway knows.
    private static func write(
        _ waiting: WaitingEntry,
        _ time: any TimeSource,
        _ error: PushError?,
        to writer: inout JSONWriter
    ) {
        let operation = waiting.operation
        writer.beginObject()
        writer.field("id", operation.id.uuidString.lowercased())
        writer.field("backend", operation.backend)
        writer.field("kind", operation.kind.rawValue)
        writer.field("user", operation.user)
        writer.name("at")
        RFC3339.write(operation.at, to: &writer)
        writer.field("attempts", waiting.attempts)
        writer.name("due")
        if let due = waiting.due { RFC3339.write(time.wall(due), to: &writer) } else { writer.null() }
        writer.field("reason", error.map { $0.reason ?? $0.code.rawValue })
        writer.field("message", error?.message)
        writer.endObject()
    }
}

extension SubscriptionChange {
    /// The form that an operation keeps.
    var stored: JSONObject {
        var object: JSONObject = ["status": .string(status.rawValue)]
        if !options.isEmpty { object["options"] = .object(options) }
        return object
    }
}

extension JSONWriter {
    /// Writes a platform's report about a subscription.
    mutating func write(_ report: SubscriptionReport) {
        name("status")
        if let status = report.status { string(status.rawValue) } else { null() }
        if !report.detail.isEmpty {
            name("detail")
            object(report.detail)
        }
    }
}

extension JSONScanner {
    /// Reads an object whose members only a platform knows.
    mutating func members(
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String
    ) throws(JSONSyntaxError) -> JSONObject? {
        guard try expect(.object, "an object", &issues, pointer()) else { return nil }
        return try value().objectValue
    }
}

extension SyncEndpoint {
    /// Asks a platform while the caller waits.
    func call<Value: Sendable>(
        _ body: @escaping @Sendable () async throws(PushError) -> Value
    ) async throws(Problem) -> Value {
        do throws(PushError) {
            return try await answer(of: body)
        } catch {
            throw Problem(error)
        }
    }

    /// Returns a platform's answer within the deadline.
    func answer<Value: Sendable>(
        of body: @escaping @Sendable () async throws(PushError) -> Value
    ) async throws(PushError) -> Value {
        do {
            return try await Deadline.run(Self.deadline, time: state.time) { try await body() }
        } catch let error as PushError {
            throw error
        } catch {
            throw PushError(.unavailable, "The platform did not answer in time.", reason: "timeout")
        }
    }
}
