internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `POST /v1/backends/{name}/retry`: retries waiting deliveries and outbox entries at once.
package struct RetryAPI: Sendable {
    let state: GatewayState
    let workers: any WorkerObserver
    /// Carries out the entries of the outbox; nil where the gateway runs no outbox.
    let outbox: OutboxRelay?
    let admission: Admission

    /// Creates the endpoint for the workers of deliveries and, if there is one, the outbox.
    package init(state: GatewayState, workers: any WorkerObserver, outbox: OutboxRelay?, admission: Admission) {
        self.state = state
        self.workers = workers
        self.outbox = outbox
        self.admission = admission
    }

    /// Makes those deliveries and outbox entries due that wait for another attempt, and ends all pauses that no
    /// platform asked for.
    package func retry(_ request: Request, _ step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters([])
        try RequestBodyReader.requireJSON(scope.fields)
        let name = SyncEndpoint.decoded(step)
        try check(name, scope.caller)
        try await RequestBodyReader(admission: admission, scope, limit: 4096).requireEmptyObject(of: request)
        let retried = try await retry(name)
        return Response.json { writer in
            writer.field("backend", name)
            writer.field("deliveries", retried.deliveries)
            writer.field("operations", retried.operations)
            Self.write("ended", retried.pauses.ended, to: &writer)
            Self.write("kept", retried.pauses.kept, to: &writer)
        }
    }

    /// The work that is due after a retry, and the pauses that it met.
    package struct Retried: Sendable {
        /// The number of deliveries that are due.
        package var deliveries: Int
        /// The number of outbox entries that are due.
        package var operations: Int
        /// The pauses that are over, and those that stay.
        package var pauses: EndedPauses
    }

    /// Retries a backend's waiting work at once, as the endpoint does.
    package func retry(_ name: String, for caller: Caller) async throws(Problem) -> Retried {
        guard !state.isDraining else { throw .draining }
        try check(name, caller)
        return try await retry(name)
    }

    private func check(_ name: String, _ caller: Caller) throws(Problem) {
        guard !state.snapshot.isGone(name), caller.mayUse(backend: name) else {
            throw .notFound("There is no backend \(name.prefix(64)) in the configuration.")
        }
    }

    private func retry(_ name: String) async throws(Problem) -> Retried {
        let deliveries: Int
        let operations: Int
        do throws(StoreError) {
            deliveries = try await state.store.makeRetriesDue(of: name)
            operations = try await state.devices.makeRetriesDue(ofEntriesAt: name)
        } catch {
            throw Problem(error)
        }
        var pauses = workers.endOwnPauses(of: name)
        if let told = outbox?.endOwnPause(of: name, at: state.clock.reading) {
            pauses.ended += told.ended
            pauses.kept += told.kept
        }
        return Retried(deliveries: deliveries, operations: operations, pauses: pauses)
    }

    private static func write(_ name: String, _ pauses: [EndedPauses.Pause], to writer: inout JSONWriter) {
        writer.name(name)
        writer.beginArray()
        for pause in pauses {
            writer.beginObject()
            writer.field("pause", pause.kind.rawValue)
            writer.field("reason", pause.reason)
            if let until = pause.until {
                writer.name("until")
                RFC3339.write(until, to: &writer)
            }
            if let count = pause.count { writer.field("recipients", count) }
            writer.endObject()
        }
        writer.endArray()
    }
}

extension RequestBodyReader {
    private enum NoField: Int, RequestField {
        case none
        static let names: [String] = []
    }

    private enum DryRunField: Int, RequestField {
        case dryRun
        static let names = ["dry_run"]
    }

    /// Reads a body that must be a JSON object with no other member than `dry_run`; returns whether that is true.
    func isDryRun(of request: Request) async throws(Problem) -> Bool {
        try await withBody(of: request) { (body) throws(Problem) in
            var issues = RequestIssues()
            var isDryRun = false
            do throws(JSONSyntaxError) {
                try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
                    _ = try scanner.fields(DryRunField.self, &issues, "#") {
                        (scanner, issues, _) throws(JSONSyntaxError) in
                        isDryRun = try scanner.flag(&issues, "#/dry_run") ?? false
                    }
                }
            } catch {
                throw .notJSON(error, body)
            }
            guard issues.isEmpty else { throw Problem(issues) }
            return isDryRun
        }
    }

    /// Reads a body that must be a JSON object without members.
    func requireEmptyObject(of request: Request) async throws(Problem) {
        try await withBody(of: request) { (body) throws(Problem) in
            var issues = RequestIssues()
            do throws(JSONSyntaxError) {
                try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
                    _ = try scanner.fields(NoField.self, &issues, "#") { (scanner, _, _) throws(JSONSyntaxError) in
                        try scanner.skip()
                    }
                }
            } catch {
                throw .notJSON(error, body)
            }
            guard issues.isEmpty else { throw Problem(issues) }
        }
    }
}
