internal import Foundation
package import HTTPTypes
package import Hummingbird
package import ChaparDelivery
package import ChaparCore
package import ChaparQueue

/// `/v1/devices` and `/v1/devices/{id}`: reads, creates, changes and removes devices of the registry.
///
/// The store writes a change and its outbox entry in one commit, then the caller gets the answer. ``OutboxWorker``
/// calls the platforms later.
package struct DevicesAPI: Sendable {
    private static let pageSize = 100
    private static let largestPage = 1000

    let state: GatewayState
    let admission: Admission

    /// Creates the endpoints; `admission` limits the memory of bodies that are being read.
    package init(state: GatewayState, admission: Admission) {
        self.state = state
        self.admission = admission
    }

    /// Answers a request about one device.
    package func answer(
        _ request: Request,
        _ method: HTTPRequest.Method,
        _ path: Substring,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        try scope.allowParameters(["app"])
        let app = try scope.app()
        let id = SyncEndpoint.decoded(path)
        switch method {
        case .put: return try await put(id, app, request, scope)
        case .patch: return try await patch(id, app, request, scope)
        case .delete: return try await delete(app.key(id))
        default: return try await show(app.key(id), scope)
        }
    }

    /// Answers with a page of devices.
    package func list(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "user", "tag", "platform", "service", "cursor", "limit"])
        let limit = try scope.number("limit", in: 1...Self.largestPage, default: Self.pageSize)
        let app = try scope.app()
        var query = DeviceQuery(app: app, user: scope.parameter("user").map(app.key), tag: scope.parameter("tag"))
        if let platform = scope.parameter("platform") {
            guard DeviceFieldRules.isPlatform(platform) else {
                let known = DeviceFieldRules.platforms.joined(separator: ", ")
                throw .badParameter("platform", "must be one of \(known), or x- and a name of your own.")
            }
            query.platform = platform
        }
        if let name = scope.parameter("service") {
            guard let service = TokenService.named(name) else {
                throw .badParameter("service", DeviceFieldRules.unknownService(name))
            }
            query.service = service
        }
        let cursor = try scope.cursor { DeviceCursor($0) }
        let page = try await store { (devices) throws(StoreError) in
            try await devices.list(query, after: cursor, limit: limit)
        }
        return Response.json(capacity: 512 * page.devices.count + 64) { writer in
            writer.name("items")
            writer.beginArray()
            for device in page.devices {
                writer.beginObject()
                device.write(to: &writer, for: scope.caller)
                writer.endObject()
            }
            writer.endArray()
            writer.name("next")
            if let next = page.next { writer.string(next.description) } else { writer.null() }
        }
    }

    private func show(_ id: String, _ scope: RequestScope) async throws(Problem) -> Response {
        let device = try await store { (devices) throws(StoreError) in try await devices.device(id) }
        guard let device else { throw .unknownDevice(id) }
        return Response.json { device.write(to: &$0, for: scope.caller) }
    }

    private func put(
        _ id: String,
        _ app: AppName,
        _ request: Request,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        try Self.checkID(id)
        let now = state.time.now
        let result = try await put(try await change(of: id, app, request, scope, at: now), id, app, at: now)
        var response = Response.json(result.isNew ? .created : .ok) { result.device.write(to: &$0, for: scope.caller) }
        if result.isNew {
            response.headers[.location] = "/v1/devices/\(id)" + (app == .default ? "" : "?app=\(app)")
        }
        return response
    }

    /// Creates or replaces a device as a body in the form of the API says, as the endpoint does.
    package func register(
        _ id: String,
        _ app: AppName,
        _ body: [UInt8],
        _ scope: RequestScope
    ) async throws(Problem) -> DevicePut {
        try Self.checkID(id)
        guard !state.isDraining else { throw .draining }
        let now = state.time.now
        return try await put(try read(body, of: id, app, scope, at: now), id, app, at: now)
    }

    private static func checkID(_ id: String) throws(Problem) {
        guard Device.isID(id), id != DeviceFieldRules.reservedID else { throw .badDeviceID }
    }

    private func put(
        _ change: DeviceChange,
        _ id: String,
        _ app: AppName,
        at now: Date
    ) async throws(Problem) -> DevicePut {
        var issues = RequestIssues()
        change.checkRegistration(&issues)
        guard issues.isEmpty else { throw Problem(issues) }
        let device = change.device(id, of: app, at: now)
        let results = try await store { (devices) throws(StoreError) in
            try await devices.put([device], outbox: state.outbox)
        }
        guard let result = results.first else { throw Problem(.failed("the store gave no answer")) }
        return result
    }

    private func patch(
        _ id: String,
        _ app: AppName,
        _ request: Request,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        let now = state.time.now
        let change = try await change(of: id, app, request, scope, at: now)
        let key = app.key(id)
        if change.attributes.value != nil { try await requireRoom(for: change, in: key) }
        let device = try await store { (devices) throws(StoreError) in
            try await devices.patch(key, outbox: state.outbox) { change.apply(to: &$0, at: now) }
        }
        guard let device else { throw .unknownDevice(id) }
        return Response.json { device.write(to: &$0, for: scope.caller) }
    }

    /// Checks that a device does not have too many attributes after a change.
    ///
    /// Two changes at the same moment may together exceed the limit once.
    private func requireRoom(for change: DeviceChange, in id: String) async throws(Problem) {
        guard var device = try await store({ (devices) throws(StoreError) in try await devices.device(id) }) else {
            return
        }
        change.apply(to: &device, at: state.time.now)
        var issues = RequestIssues()
        DeviceChangeReader.checkSize(of: device.attributes, &issues)
        guard issues.isEmpty else { throw Problem(issues) }
    }

    private func delete(_ id: String) async throws(Problem) -> Response {
        try await remove(id)
        return Response(status: .noContent, headers: [.cacheControl: "no-store"])
    }

    /// Removes a device by its key, as the endpoint does.
    package func remove(_ id: String) async throws(Problem) {
        guard !state.isDraining else { throw .draining }
        guard try await store({ (devices) throws(StoreError) in try await devices.delete(id, outbox: state.outbox) })
        else {
            throw .unknownDevice(id)
        }
    }

    /// Reads the change of a device from the body.
    private func change(
        of id: String,
        _ app: AppName,
        _ request: Request,
        _ scope: RequestScope,
        at now: Date
    ) async throws(Problem) -> DeviceChange {
        guard !state.isDraining else { throw .draining }
        try RequestBodyReader.requireJSON(scope.fields, orPatch: true)
        return try await RequestBodyReader(admission: admission, scope).withBody(of: request) {
            (bytes) throws(Problem) in
            try read(bytes, of: id, app, scope, at: now)
        }
    }

    private func read(
        _ body: [UInt8],
        of id: String,
        _ app: AppName,
        _ scope: RequestScope,
        at now: Date
    ) throws(Problem) -> DeviceChange {
        let (change, issues): (DeviceChange, RequestIssues)
        do throws(JSONSyntaxError) {
            (change, issues) = try DeviceChangeReader(tokens: scope.snapshot.tokens, now: now).read(body)
        } catch {
            throw .notJSON(error, body)
        }
        var found = issues
        if let own = change.id, own != id {
            found.add("#/id", "other_id", "The path names another device; leave the field out.")
        }
        if let own = change.app, own != app.rawValue {
            found.add("#/app", "other_app", "The request is about the app \"\(app)\"; leave the field out.")
        }
        guard found.isEmpty else { throw Problem(found) }
        return change
    }

    private func store<Value: Sendable>(
        _ body: (any DeviceStore) async throws(StoreError) -> Value
    ) async throws(Problem) -> Value {
        do throws(StoreError) {
            return try await body(state.devices)
        } catch {
            throw Problem(ofDevices: error)
        }
    }
}
