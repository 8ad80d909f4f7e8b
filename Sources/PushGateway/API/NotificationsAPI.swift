internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import PushCore

/// `POST /v1/notifications`: accepts one notification.
///
/// What it answers with 202 is on disk.
struct NotificationsAPI: Sendable {
    let state: GatewayState
    let metrics: GatewayMetrics
    let admission: Admission

    /// Answers a request.
    func accept(_ request: Request, _ scope: RequestScope) async throws(Problem) -> Response {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters([])
        try RequestBodyReader.requireJSON(scope.fields)
        let key = try IdempotencyKey(scope.fields)
        let reader = RequestBodyReader(admission: admission, limit: scope.snapshot.server.maximumBodyBytes)
        return try await reader.withBody(of: request) { (body) throws(Problem) in
            try await accept(body, key, scope)
        }
    }

    private func accept(
        _ body: [UInt8],
        _ key: IdempotencyKey?,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        var draft: NotificationDraft
        var issues: RequestIssues
        do throws(JSONSyntaxError) {
            (draft, issues) = try NotificationReader(kinds: scope.snapshot.kinds).read(body)
        } catch {
            throw .notJSON(error)
        }
        if draft.needsRegistry(scope.snapshot.gateway.routing) {
            do throws(StoreError) {
                try await draft.lookUp(in: state.devices, &issues)
            } catch {
                throw Problem(error)
            }
        }
        let intake = NotificationIntake(
            snapshot: scope.snapshot,
            store: state.store,
            time: state.time,
            caller: scope.caller
        )
        guard let accepted = intake.judge(draft, body, &issues) else { throw Problem(issues) }

        var writer = JSONWriter(capacity: 192)
        writer.beginObject()
        accepted.write(to: &writer, stateName: "status")
        writer.endObject()
        let entry = key?.entry(
            caller: scope.caller,
            path: String(scope.path),
            body: body,
            answer: writer.bytes,
            keepUntil: intake.now + scope.snapshot.queue.idempotencyWindow.inSeconds
        )
        let result: EnqueueResult
        do throws(StoreError) {
            result = try await state.store.enqueue(EnqueueBatch([accepted.notification], idempotency: entry))
        } catch {
            throw Problem(error)
        }
        switch result {
        case .accepted:
            metrics.accepted(route: accepted.routeLabel)
            return Self.answer(writer.bytes, location: accepted.notification.id.description)
        case .replayed(let answer):
            var response = Self.answer(answer, location: Self.id(in: answer))
            response.headers[.idempotencyReplayed] = "true"
            return response
        case .keyReused: throw .keyReused
        case .keyInUse: throw .keyInUse
        }
    }

    private static func answer(_ bytes: [UInt8], location id: String?) -> Response {
        var headers = HTTPFields()
        headers[.contentType] = "application/json"
        if let id { headers[.location] = "/v1/notifications/" + id }
        return Response(status: .accepted, headers: headers, body: ResponseBody(bytes: bytes))
    }

    /// The id in an answer that was stored.
    private static func id(in answer: [UInt8]) -> String? {
        (try? JSONValue(parsing: answer))?["id"]?.stringValue
    }
}
