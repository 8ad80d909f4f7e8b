internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore

/// `POST /v1/backends/{name}/move` and `/drop`: an operator's decisions about deliveries that wait for a backend that
/// is no longer configured.
package struct GoneBackendsAPI: Sendable {
    /// The largest body: an object with one short member.
    private static let largestBody = 4096

    let state: GatewayState
    let workers: any WorkerObserver
    let admission: Admission

    /// Creates the endpoints; `workers` has the deliveries of backends that are gone.
    package init(state: GatewayState, workers: any WorkerObserver, admission: Admission) {
        self.state = state
        self.workers = workers
        self.admission = admission
    }

    private enum MoveField: Int, RequestField {
        case to, dryRun
        static let names = ["to", "dry_run"]
    }

    /// Moves the waiting deliveries to another backend.
    package func move(_ request: Request, _ step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        let (name, gone) = try begin(step, scope)
        let (other, isDryRun) = try await target(of: request, scope)
        do throws(GoneBackends.Failure) {
            let moved = try await gone.move(name, to: other, isDryRun: isDryRun)
            return Response.json { writer in
                writer.field("backend", name)
                writer.field("to", other)
                writer.field("moved", moved)
                writer.mark(dryRun: isDryRun)
            }
        } catch {
            throw Self.problem(error, name)
        }
    }

    /// Fails the waiting deliveries.
    package func drop(_ request: Request, _ step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        let (name, gone) = try begin(step, scope)
        let reader = RequestBodyReader(admission: admission, scope, limit: Self.largestBody)
        let isDryRun = try await reader.isDryRun(of: request)
        do throws(GoneBackends.Failure) {
            let dropped = try await gone.drop(name, isDryRun: isDryRun)
            return Response.json { writer in
                writer.field("backend", name)
                writer.field("dropped", dropped)
                writer.mark(dryRun: isDryRun)
            }
        } catch {
            throw Self.problem(error, name)
        }
    }

    private func begin(_ step: Substring, _ scope: RequestScope) throws(Problem) -> (String, GoneBackends) {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters([])
        try RequestBodyReader.requireJSON(scope.fields)
        let name = SyncEndpoint.decoded(step)
        guard scope.caller.mayUse(backend: name), let gone = workers.goneBackends else {
            throw Self.problem(.unknown, name)
        }
        return (name, gone)
    }

    /// Returns the backend that a body names, and whether nothing is to be changed.
    private func target(
        of request: Request,
        _ scope: RequestScope
    ) async throws(Problem) -> (name: String, isDryRun: Bool) {
        let reader = RequestBodyReader(admission: admission, scope, limit: Self.largestBody)
        return try await reader.withBody(of: request) { (body) throws(Problem) in
            var issues = RequestIssues()
            var target: String?
            var isDryRun = false
            do throws(JSONSyntaxError) {
                try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
                    _ = try scanner.fields(MoveField.self, &issues, "#") {
                        (scanner, issues, field) throws(JSONSyntaxError) in
                        switch field {
                        case .to: target = try scanner.identifier(&issues, "#/to", limit: 64)
                        case .dryRun: isDryRun = try scanner.flag(&issues, "#/dry_run") ?? false
                        }
                    }
                }
            } catch {
                throw .notJSON(error, body)
            }
            if target == nil, issues.isEmpty { issues.add("#/to", "missing", "The backend to move to is missing.") }
            guard issues.isEmpty, let target else { throw Problem(issues) }
            return (target, isDryRun)
        }
    }

    private static func problem(_ failure: GoneBackends.Failure, _ name: String) -> Problem {
        switch failure {
        case .configured:
            return .backendConfigured(name)
        case .unknown:
            return .notFound("Nothing waits for a backend \(name.prefix(64)) that is not configured.")
        case .unknownTarget(let nearest):
            var issues = RequestIssues()
            let hint = nearest.map { "Did you mean \($0)?" } ?? "Name a configured backend."
            issues.add("#/to", "unknown_backend", "There is no such backend. \(hint)")
            return Problem(issues)
        case .otherApp(let waiting, let target):
            var issues = RequestIssues()
            issues.add(
                "#/to",
                "other_app",
                "This backend is of the app \"\(target)\", and what waits is of \"\(waiting)\". "
                    + "Name a backend of that app, configure \(name.prefix(64)) again, or drop what waits."
            )
            return Problem(issues)
        case .busy:
            return .backendBusy
        case .store(let error): return Problem(error)
        }
    }
}
