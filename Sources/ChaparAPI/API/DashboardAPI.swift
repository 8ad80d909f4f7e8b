package import Hummingbird
package import Logging
package import ChaparDelivery
internal import ChaparCore

/// `POST /v1/dashboard/session`: exchanges the code of the dashboard's link for a token.
package struct DashboardAPI: Sendable {
    let state: GatewayState
    let access: DashboardAccess
    let admission: Admission
    let peers: Peers
    let logger: Logger

    /// Creates the endpoint; `access` has the code of the link, and `peers` the wrong guesses of senders.
    package init(state: GatewayState, access: DashboardAccess, admission: Admission, peers: Peers, logger: Logger) {
        self.state = state
        self.access = access
        self.admission = admission
        self.peers = peers
        self.logger = logger
    }

    private enum CodeField: Int, RequestField {
        case code
        static let names = ["code"]
    }

    /// Exchanges the code; a wrong one counts as a guess, like a wrong key.
    package func exchange(_ request: Request, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        try RequestBodyReader.requireJSON(scope.fields)
        let code = try await code(of: request, scope)
        let now = state.time.steady
        // For an address over its limit nothing is compared.
        guard !peers.isOverLimit(scope.peer, at: now), scope.snapshot.keyring.hasFirstKey,
            let token = access.exchange(code, at: now)
        else { throw .unauthorized("The code is not known, was used, or has expired.", error: "invalid_token") }
        logger.notice("the link of the dashboard was used", metadata: ["peer": "\(scope.peer)"])
        return Response.json { writer in
            writer.field("token", token.reveal())
            writer.field("expires_in", Int(clamping: DashboardAccess.tokenLifetime))
        }
    }

    private func code(of request: Request, _ scope: RequestScope) async throws(Problem) -> String {
        let reader = RequestBodyReader(admission: admission, scope, limit: 4096)
        return try await reader.withBody(of: request) { (body) throws(Problem) in
            var issues = RequestIssues()
            var code: String?
            do throws(JSONSyntaxError) {
                try JSONScanner.scan(body) { (scanner) throws(JSONSyntaxError) in
                    _ = try scanner.fields(CodeField.self, &issues, "#") {
                        (scanner, issues, _) throws(JSONSyntaxError) in
                        code = try scanner.identifier(&issues, "#/code", limit: 64)
                    }
                }
            } catch {
                throw .notJSON(error, body)
            }
            if code == nil, issues.isEmpty { issues.add("#/code", "missing", "The code of the link is missing.") }
            guard issues.isEmpty, let code else { throw Problem(issues) }
            return code
        }
    }
}
