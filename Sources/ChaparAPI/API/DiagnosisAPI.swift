internal import Foundation
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import Synchronization

/// `POST /v1/backends/{name}/diagnose`: the checks that `chapar doctor` makes for one backend, made by the gateway
/// itself.
///
/// It connects to the platform and sends no message. Only one diagnosis of a backend runs at a time, so that an
/// impatient operator opens no further connections.
package struct DiagnosisAPI: Sendable {
    /// The backends that are examined now.
    private final class UnderWay: Sendable {
        private let names = Mutex<Set<String>>([])

        func begin(_ name: String) -> Bool { names.withLock { $0.insert(name).inserted } }

        func end(_ name: String) { names.withLock { _ = $0.remove(name) } }
    }

    let state: GatewayState
    let admission: Admission
    private let underWay = UnderWay()

    /// Creates the endpoint.
    package init(state: GatewayState, admission: Admission) {
        self.state = state
        self.admission = admission
    }

    /// Examines a backend within ``SyncEndpoint/deadline``.
    package func diagnose(
        _ request: Request,
        _ step: Substring,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters([])
        try RequestBodyReader.requireJSON(scope.fields)
        let name = SyncEndpoint.decoded(step)
        guard let backend = scope.gateway.backends.first(where: { $0.name == name })?.backend else {
            throw .notFound("There is no backend \(name.prefix(64)).")
        }
        try await RequestBodyReader(admission: admission, scope, limit: 4096).requireEmptyObject(of: request)
        guard underWay.begin(name) else { throw .diagnosisRuns(name) }
        defer { underWay.end(name) }
        let start = state.time.steady
        let steps = await backend.diagnose(within: SyncEndpoint.deadline, state.time)
        let seconds = max(0, state.time.steady.timeIntervalSince(start))
        return Response.json { writer in
            writer.field("backend", name)
            writer.field("ok", !steps.contains { $0.verdict == .failure })
            writer.field("seconds", (seconds * 1000).rounded() / 1000)
            writer.name("steps")
            writer.beginArray()
            for step in steps { Self.write(step, to: &writer) }
            writer.endArray()
        }
    }

    private static func write(_ step: Diagnosis, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("name", step.check)
        writer.field("verdict", step.verdict.rawValue)
        writer.field("ok", step.verdict != .failure)
        writer.field("text", step.finding)
        writer.field("fix", step.fix)
        writer.endObject()
    }
}
