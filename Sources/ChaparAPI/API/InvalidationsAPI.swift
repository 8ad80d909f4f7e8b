internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `GET /v1/invalidations` and `POST /v1/backends/{name}/invalidations`: token refusals that are quarantined because
/// there were too many to be credible, and an operator's decision about them.
package struct InvalidationsAPI: Sendable {
    private static let pageSize = 100
    private static let largestPage = 1000
    /// The largest body: an object with one short member.
    private static let largestBody = 4096

    let state: GatewayState
    let workers: any WorkerObserver
    let admission: Admission

    /// Creates the endpoints; `workers` has the guards that quarantine refusals.
    package init(state: GatewayState, workers: any WorkerObserver, admission: Admission) {
        self.state = state
        self.workers = workers
        self.admission = admission
    }

    private enum Field: Int, RequestField {
        case action, dryRun
        static let names = ["action", "dry_run"]
    }

    /// Answers with the quarantined refusals by backend; with the parameter `backend`, with the devices concerned.
    package func show(_ scope: RequestScope) async throws(Problem) -> Response {
        if scope.parameter("backend") != nil {
            guard scope.caller.has(.devices) else { throw .lacks(.devices) }
            return try await list(scope)
        }
        try scope.allowParameters(["backend"])
        let tripped = workers.invalidations?.trippedGuards ?? []
        var quarantined: [QuarantinedTokens] = []
        do throws(StoreError) {
            quarantined = try await state.devices.quarantined()
        } catch {
            throw Problem(error)
        }
        let names = Set(tripped.map(\.backend)).union(quarantined.map(\.backend))
            .filter(scope.caller.mayUse(backend:)).sorted()
        return Response.json { writer in
            writer.name("backends")
            writer.beginArray()
            for name in names {
                Self.write(
                    name,
                    tripped.first { $0.backend == name },
                    quarantined.first { $0.backend == name },
                    to: &writer
                )
            }
            writer.endArray()
        }
    }

    private static func write(
        _ name: String,
        _ tripped: TokenInvalidation.TrippedGuard?,
        _ quarantined: QuarantinedTokens?,
        to writer: inout JSONWriter
    ) {
        writer.beginObject()
        writer.field("backend", name)
        writer.field("quarantined", quarantined?.count ?? 0)
        writer.field(FormerName.quarantined.former, quarantined?.count ?? 0)
        writer.name("reasons")
        writer.beginObject()
        for (reason, count) in (quarantined?.reasons ?? [:]).sorted(by: { $0.key < $1.key }) {
            writer.name(reason)
            writer.integer(count)
        }
        writer.endObject()
        if let quarantined {
            writer.name("oldest")
            RFC3339.write(quarantined.oldest, to: &writer)
            writer.name("newest")
            RFC3339.write(quarantined.newest, to: &writer)
        }
        writer.field("stopped", tripped != nil)
        if let tripped {
            writer.name("stopped_at")
            RFC3339.write(tripped.at, to: &writer)
            writer.field("answers", tripped.answers)
            writer.field("dead", tripped.dead)
            writer.field("certain", tripped.certain)
            writer.field("explanation", tripped.explanation)
        }
        writer.endObject()
    }

    private func list(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["backend", "cursor", "limit"])
        let backend = scope.parameter("backend") ?? ""
        let limit = try scope.number("limit", in: 1...Self.largestPage, default: Self.pageSize)
        let cursor = try scope.cursor { DeviceCursor($0) }
        var page: (tokens: [InvalidatedToken], next: DeviceCursor?) = ([], nil)
        if scope.caller.mayUse(backend: backend) {
            do throws(StoreError) {
                page = try await state.devices.quarantined(of: backend, after: cursor, limit: limit)
            } catch {
                throw Problem(error)
            }
        }
        return Response.json(capacity: 192 * page.tokens.count + 64) { writer in
            writer.name("items")
            writer.beginArray()
            for token in page.tokens { Self.write(token, to: &writer) }
            writer.endArray()
            writer.name("next")
            if let next = page.next { writer.string(next.description) } else { writer.null() }
        }
    }

    private static func write(_ token: InvalidatedToken, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("device", token.device)
        writer.field("user", token.user)
        writer.field("service", token.token.service.rawValue)
        writer.field("backend", token.tombstone.backend)
        writer.field("reason", token.tombstone.reason)
        writer.name("as_of")
        RFC3339.write(token.tombstone.asOf, to: &writer)
        writer.name("at")
        RFC3339.write(token.tombstone.at, to: &writer)
        writer.endObject()
    }

    /// Resolves the quarantined refusals of a backend; its worker goes on.
    package func resolve(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters([])
        try RequestBodyReader.requireJSON(scope.fields)
        guard let tokenInvalidation = workers.invalidations else { throw Self.unknown(name) }
        let backend = String(name)
        let reader = RequestBodyReader(admission: admission, scope, limit: Self.largestBody)
        return try await reader.withBody(of: request) { (body) throws(Problem) in
            let (action, isDryRun) = try Self.action(in: body)
            guard scope.caller.mayUse(backend: backend) else { throw Self.unknown(name) }
            try await requireKnown(backend, tokenInvalidation)
            let tokens: Int
            do throws(StoreError) {
                tokens =
                    isDryRun
                    ? try await state.devices.quarantined().first { $0.backend == backend }?.count ?? 0
                    : try await tokenInvalidation.resolve(backend, action)
            } catch {
                throw Problem(error)
            }
            return Response.json { writer in
                writer.field("backend", backend)
                writer.field("action", action.rawValue)
                writer.field("tokens", tokens)
                writer.mark(dryRun: isDryRun)
            }
        }
    }

    private static func action(
        in body: [UInt8]
    ) throws(Problem) -> (action: TokenInvalidation.Action, isDryRun: Bool) {
        var issues = RequestIssues()
        var action: TokenInvalidation.Action?
        var (isThere, isDryRun) = (false, false)
        do throws(JSONSyntaxError) {
            try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
                _ = try scanner.fields(Field.self, &issues, "#") { (scanner, issues, field) throws(JSONSyntaxError) in
                    guard field == .action else {
                        isDryRun = try scanner.flag(&issues, "#/dry_run") ?? false
                        return
                    }
                    isThere = true
                    guard let value = try scanner.identifier(&issues, "#/action", limit: 32) else { return }
                    action = TokenInvalidation.Action(rawValue: value)
                    if action == nil { issues.add("#/action", "unknown_action", "Write release or discard.") }
                }
            }
        } catch {
            throw .notJSON(error, body)
        }
        if !isThere, issues.isEmpty { issues.add("#/action", "missing", "Write release or discard.") }
        guard let action, issues.isEmpty else { throw Problem(issues) }
        return (action, isDryRun)
    }

    /// Checks that a backend is configured, or is gone and left something behind.
    private func requireKnown(_ name: String, _ tokenInvalidation: TokenInvalidation) async throws(Problem) {
        if state.snapshot.backends.contains(where: { $0.name == name }) { return }
        if tokenInvalidation.trippedGuards.contains(where: { $0.backend == name }) { return }
        do throws(StoreError) {
            if try await state.devices.quarantined().contains(where: { $0.backend == name }) { return }
        } catch {
            throw Problem(error)
        }
        throw Self.unknown(name[...])
    }

    private static func unknown(_ name: Substring) -> Problem {
        .notFound("There is no backend \(name.prefix(64)), and nothing of one is quarantined.")
    }
}
