internal import Foundation
package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `POST /v1/users/{id}/switch` and `POST /v1/backends/{name}/clear`: sets the user of a device, and cancels operations
/// that wait for a backend.
package struct UserSwitchAPI: Sendable {
    /// The user id of a log-out: the device then has no user.
    static let nobody = "anonymous"

    let endpoint: SyncEndpoint

    /// Creates the endpoints, which call platforms and store operations through `endpoint`.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private enum Field: Int, RequestField {
        case device, options
        static let names = ["device", "options"]
    }

    private enum ClearField: Int, RequestField {
        case device
        static let names = ["device"]
    }

    /// The answer of a backend to the new user.
    private struct Resumption: Sendable {
        var backend: String
        var result: Result<SubscriptionReport?, PushError>

        /// Whether the platform has no subscription of the user, so that one is requested.
        var isSubscribing: Bool {
            if case .success(let report?) = result { return report.status == nil }
            return false
        }
    }

    /// Gives a device to a user, and lets the platforms suspend and resume their subscriptions.
    package func change(_ request: Request, _ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app"])
        let app = try scope.app()
        let user = try Self.user(SyncEndpoint.decoded(id))
        var name: String?
        var hasDevice = false
        var options = JSONObject()
        try await endpoint.body(of: request, scope, Field.self) { (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .device:
                hasDevice = true
                name = try scanner.identifier(&issues, "#/device", limit: Device.maximumIDBytes)
            case .options: options = try scanner.members(&issues, "#/options") ?? JSONObject()
            }
        } check: { issues in
            if !hasDevice { issues.add("#/device", "missing", "The device's id is missing.") }
        }
        let (state, now, chosen) = (endpoint.state, endpoint.state.time.now, options)
        var changed: Device?
        do throws(StoreError) {
            changed = try await state.devices.patch(app.key(name ?? ""), outbox: state.outbox) { device in
                device.user = user.map(app.key)
                device.updatedAt = now
            }
        } catch {
            throw Problem(ofDevices: error)
        }
        guard let device = changed else {
            var issues = RequestIssues()
            issues.add("#/device", "unknown_device", "The registry has no such device.")
            throw Problem(issues)
        }
        let record = endpoint.record(device, scope)
        let backends = scope.gateway.backends(of: app)
        let resumptions = await resume(record, backends)
        let managers = Dictionary(
            backends.compactMap { one in one.backend.subscriptions.map { (one.name, $0) } }
        ) { first, _ in first }
        let operations = resumptions.filter(\.isSubscribing).map { resumption in
            var change = SubscriptionChange(.subscribed, options: chosen)
            // Options belong to one platform; another one is asked without them.
            if !(managers[resumption.backend]?.issues(in: change, of: record).isEmpty ?? true) {
                change.options = JSONObject()
            }
            return OutboxEntry(
                backend: resumption.backend,
                device: device.id,
                user: device.user,
                kind: .subscription,
                body: change.stored,
                at: now
            )
        }
        do throws(StoreError) {
            try await state.devices.enqueue(operations)
        } catch {
            throw Problem(ofDevices: error)
        }
        return Response.json { writer in
            writer.name("user")
            if let user { writer.string(user) } else { writer.null() }
            writer.field("device", device.name)
            writer.name("backends")
            writer.beginArray()
            for resumption in resumptions { Self.write(resumption, to: &writer) }
            writer.endArray()
        }
    }

    /// Returns the user that a device is given to; nil for a log-out.
    private static func user(_ id: String) throws(Problem) -> String? { id == nobody ? nil : try checked(id) }

    /// Checks a user's id from a path; every text that a device may name as its user is valid.
    static func checked(_ id: String) throws(Problem) -> String {
        let isName =
            (1...Device.maximumNameBytes).contains(id.utf8.count) && id.utf8.allSatisfy { $0 >= 32 && $0 != 127 }
        guard isName else {
            throw .badUserID
        }
        return id
    }

    /// Asks every platform with subscriptions, all at the same time; returns the answers in the order of the
    /// configuration.
    private func resume(
        _ record: DeviceRecord,
        _ backends: [BackendRegistry.ConfiguredBackend]
    ) async -> [Resumption] {
        let able = backends.filter { one in
            one.backend.subscriptions != nil && one.backend.devices?.accepts(record) ?? true
        }
        return await withTaskGroup(of: (Int, Resumption).self) { group in
            for (position, one) in able.enumerated() {
                guard let manager = one.backend.subscriptions else { continue }
                group.addTask { [endpoint] in
                    let result: Result<SubscriptionReport?, PushError>
                    do throws(PushError) {
                        result = .success(
                            try await endpoint.answer { () throws(PushError) in try await manager.resume(record) }
                        )
                    } catch {
                        result = .failure(error)
                    }
                    return (position, Resumption(backend: one.name, result: result))
                }
            }
            var found: [(Int, Resumption)] = []
            for await one in group { found.append(one) }
            return found.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }

    private static func write(_ resumption: Resumption, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("backend", resumption.backend)
        switch resumption.result {
        case .success(let report):
            writer.write(report ?? SubscriptionReport(nil))
        case .failure(let error):
            writer.name("status")
            writer.null()
            writer.name("error")
            writer.pushError(error)
        }
        writer.field("subscribing", resumption.isSubscribing)
        writer.endObject()
    }

    // MARK: Clearing

    /// Cancels the operations that wait for a backend, of one device or of all, and makes the backend forget its cached
    /// data.
    ///
    /// It makes no call to the platform.
    package func clear(_ request: Request, _ step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        let name = SyncEndpoint.decoded(step)
        var device: String?
        try await endpoint.body(of: request, scope, ClearField.self) { (scanner, issues, _) throws(JSONSyntaxError) in
            device = try scanner.identifier(&issues, "#/device", limit: Device.maximumIDBytes)
        }
        if device == nil { try scope.caller.requireAdministrator() }
        let backend = scope.gateway.backends.first { $0.name == name }?.backend
        let store = endpoint.state.devices
        var isKnown = backend != nil
        if !isKnown, scope.caller.mayUse(backend: name) { isKnown = try await endpoint.waits(for: name) }
        guard isKnown else { throw .notFound("There is no backend \(name.prefix(64)), and nothing waits for one.") }
        // The app of a backend that is gone is unknown; it had only one.
        let apps = scope.gateway.app(ofBackend: name).map { [$0] } ?? scope.apps.all
        let devices: [String?] = device.map { device in apps.map { $0.key(device) } } ?? [nil]
        var removed = 0
        do throws(StoreError) {
            for device in devices { removed += try await store.cancelEntries(of: name, device: device) }
        } catch {
            throw Problem(error)
        }
        if let backend {
            let forgotten = device
            try await endpoint.call { () throws(PushError) in try await backend.forget(device: forgotten) }
        }
        return Response.json { writer in
            writer.field("backend", name)
            writer.field("removed", removed)
        }
    }
}
