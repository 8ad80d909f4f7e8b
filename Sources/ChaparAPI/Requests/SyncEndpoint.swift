internal import Foundation
internal import HTTPTypes
internal import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The common part of the calls to platforms about a device: finding the device and the backends, storing operations,
/// and waiting for their outcomes.
package struct SyncEndpoint: Sendable {
    /// The largest body of such a call.
    static let maximumBody = 64 << 10
    /// The time that a platform has to answer while the caller waits.
    static let deadline = Duration.seconds(25)

    let state: GatewayState
    let admission: Admission

    /// Creates the common part; `admission` limits the memory of bodies that are being read.
    package init(state: GatewayState, admission: Admission) {
        self.state = state
        self.admission = admission
    }

    /// Returns the decoded id of a path.
    package static func decoded(_ step: Substring) -> String { String(step).removingPercentEncoding ?? String(step) }

    /// Returns a device of the registry.
    func device(_ id: String) async throws(Problem) -> Device {
        do throws(StoreError) {
            if let device = try await state.devices.device(id) { return device }
        } catch {
            throw Problem(ofDevices: error)
        }
        throw .unknownDevice(id)
    }

    /// Whether entries wait for a backend, which need not be configured any more.
    func waits(for backend: String) async throws(Problem) -> Bool {
        do throws(StoreError) {
            return try await state.devices.outboxDepths()[backend] != nil
        } catch {
            throw Problem(error)
        }
    }

    /// Returns a device in the form that a platform gets now.
    func record(_ device: Device, _ scope: RequestScope) -> DeviceRecord {
        let priority = scope.gateway.configuration.tokenPriority
        return DeviceRecord(device, user: device.user, priority: priority)
    }

    /// Reads a body that is one object of known members, and refuses it with every mistake at once.
    ///
    /// `check` adds mistakes that show once everything is read; `limit` is the largest body, within the configured
    /// limit.
    func body<Field: RequestField>(
        of request: Request,
        _ scope: RequestScope,
        _ type: Field.Type,
        limit: Int = SyncEndpoint.maximumBody,
        _ read: (inout JSONScanner, inout RequestIssues, Field) throws(JSONSyntaxError) -> Void,
        check: (inout RequestIssues) -> Void = { _ in }
    ) async throws(Problem) {
        guard !state.isDraining else { throw .draining }
        try RequestBodyReader.requireJSON(scope.fields, orPatch: request.method == .patch)
        try await RequestBodyReader(admission: admission, scope, limit: limit).withBody(of: request) {
            (bytes) throws(Problem) in
            var issues = RequestIssues()
            do throws(JSONSyntaxError) {
                try JSONScanner.scan(bytes) { (scanner) throws(JSONSyntaxError) in
                    if try scanner.fields(type, &issues, "#", read) { check(&issues) }
                }
            } catch {
                throw .notJSON(error, bytes)
            }
            guard issues.isEmpty else { throw Problem(issues) }
        }
    }

    /// Returns the backends that a call addresses: the named one, or all with the ability that accept the device.
    ///
    /// `noun` names the ability in messages; `ability` returns a backend's, nil when it lacks it. With `mayBeNone` a
    /// call that names no backend may have none.
    func backends<Ability>(
        _ name: String?,
        for record: DeviceRecord,
        _ scope: RequestScope,
        _ noun: String,
        mayBeNone: Bool = false,
        _ ability: (any PushBackend) -> Ability?
    ) throws(Problem) -> [(name: String, ability: Ability)] {
        let configured = scope.gateway.backends(of: try scope.app())
        var issues = RequestIssues()
        if let name {
            guard let backend = configured.first(where: { $0.name == name })?.backend else {
                let hint = didYouMean(name, configured.map(\.name)) ?? "No backend has this name."
                issues.add("#/backend", "unknown_backend", hint)
                throw Problem(issues)
            }
            guard let ability = ability(backend) else {
                issues.add("#/backend", "unsupported", "This backend keeps no \(noun).")
                throw Problem(issues)
            }
            return [(name, ability)]
        }
        let able = configured.compactMap { one in ability(one.backend).map { (one, $0) } }
        let found = able.filter { one, _ in one.backend.devices?.accepts(record) ?? true }.map { ($0.name, $1) }
        guard found.isEmpty, !mayBeNone else { return found }
        if able.isEmpty {
            issues.add("#", "unsupported", "No backend keeps \(noun).")
        } else {
            issues.add("#", "not_accepted", "No backend that keeps \(noun) has a use for this device.")
        }
        throw Problem(issues)
    }

    /// Stores operations, waits for their outcome for the time that the caller asked for, and answers with their
    /// states.
    ///
    /// The status is 202 while some wait, else 200.
    func answer(
        _ operations: [OutboxEntry],
        _ scope: RequestScope,
        _ more: (inout JSONWriter) -> Void = { _ in }
    ) async throws(Problem) -> Response {
        let wait = try scope.number("wait", in: 0...OutboxOutcomes.longestWait, default: 0)
        let ticket = state.outcomes.listen(for: operations.map(\.id))
        do throws(StoreError) {
            try await state.devices.enqueue(operations)
        } catch {
            state.outcomes.leave(ticket)
            throw Problem(ofDevices: error)
        }
        let outcomes =
            wait > 0 && !operations.isEmpty
            ? await state.outcomes.wait(ticket, for: .seconds(wait), state.time) : state.outcomes.leave(ticket)
        let isOver = !operations.isEmpty && operations.allSatisfy { outcomes[$0.id] != nil }
        return Response.json(isOver ? .ok : .accepted) { writer in
            more(&writer)
            writer.name("operations")
            writer.beginArray()
            for operation in operations { Self.write(operation, outcomes[operation.id], to: &writer) }
            writer.endArray()
        }
    }

    private static func write(
        _ operation: OutboxEntry,
        _ outcome: OperationOutcome?,
        to writer: inout JSONWriter
    ) {
        writer.beginObject()
        writer.field("id", operation.id.uuidString.lowercased())
        writer.field("backend", operation.backend)
        writer.name("status")
        switch outcome {
        case nil:
            writer.string("waiting")
        case .done(let detail):
            writer.string("done")
            if !detail.isEmpty {
                writer.name("detail")
                writer.object(detail)
            }
        case .failed(let error):
            writer.string("failed")
            writer.name("error")
            writer.pushError(error)
        }
        writer.endObject()
    }
}

extension JSONWriter {
    /// Writes a platform's refusal of a call.
    mutating func pushError(_ error: PushError) {
        beginObject()
        field("code", error.code.rawValue.replacing("-", with: "_"))
        field("reason", error.reason)
        field("message", error.message)
        endObject()
    }
}
