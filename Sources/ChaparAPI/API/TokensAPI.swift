package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore

/// `/v1/backends/{name}/tokens`: looks tokens up at a platform, and imports those of another platform.
///
/// It calls the platform while the caller waits; it needs the backend's ability `token_directory`. The registry is not
/// changed.
package struct TokensAPI: Sendable {
    /// The most tokens of one import: a platform takes a hundred in a call.
    static let largestImport = 1_000

    let endpoint: SyncEndpoint

    /// Creates the endpoints, which call platforms through `endpoint`.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private enum Field: Int, RequestField {
        case tokens, application, environment
        static let names = ["tokens", "application", "environment"]
    }

    private func backend(_ step: Substring, _ scope: RequestScope) throws(Problem) -> AbleBackend<any TokenDirectory> {
        try scope.allowParameters(["app"])
        return try scope.backend(step, "looks up and imports no tokens") { $0.tokenDirectory }
    }

    /// Answers with the platform's details of a token.
    package func lookUp(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        let backend = try backend(name, scope)
        let directory = backend.ability
        let token = try await endpoint.token(of: request, scope, for: backend, of: directory.services)
        let details = try await endpoint.call { () throws(PushError) in try await directory.details(of: token) }
        return Response.json { writer in
            writer.field("backend", backend.name)
            writer.field("known", details != nil)
            guard let details else { return }
            let members: [(String, String?)] = [
                ("application", details.application), ("project", details.project), ("platform", details.platform),
                ("application_version", details.applicationVersion),
            ]
            for case (let name, let value?) in members {
                writer.name(name)
                writer.string(value)
            }
            writer.name("topics")
            writer.array(of: details.topics)
        }
    }

    /// Imports tokens of another platform, for which this platform makes tokens of its own.
    ///
    /// The registry is not changed: the app reports its new token at its next run, or the caller adds it.
    package func importTokens(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem)
        -> Response
    {
        let backend = try backend(name, scope)
        let directory = backend.ability
        let reader = TokenList.TokenReader(services: [directory.importedService], backend: backend.backend)
        var entries: [TokenList.Entry] = []
        var warnings: [Finding] = []
        var application: String?
        var environment = TokenEnvironment.production
        var seen: Set<Int> = []
        try await endpoint.body(of: request, scope, Field.self, limit: .max) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            seen.insert(field.rawValue)
            switch field {
            case .tokens:
                entries = try reader.list(&scanner, &issues, &warnings, "#/tokens", atMost: Self.largestImport)
            case .application: application = try scanner.identifier(&issues, "#/application", limit: 256)
            case .environment:
                guard let value = try scanner.identifier(&issues, "#/environment", limit: 32) else { return }
                let known = TokenEnvironment(rawValue: value)
                if known == nil || known == .unknown {
                    issues.add("#/environment", "unknown_environment", "Write production or development.")
                }
                environment = known ?? .production
            }
        } check: { issues in
            if !seen.contains(Field.tokens.rawValue) { issues.add("#/tokens", "missing", "The tokens are missing.") }
            if !seen.contains(Field.application.rawValue) {
                issues.add("#/application", "missing", "The app's bundle id is missing.")
            }
        }
        let (tokens, app, chosen) = (entries.map(\.token), application ?? "", environment)
        let outcomes = try await endpoint.call { () throws(PushError) in
            await directory.importTokens(tokens, application: app, environment: chosen)
        }
        if let error = outcomes.commonFailure { throw Problem(error) }
        return Response.json(capacity: 256 * tokens.count) { writer in
            writer.field("backend", backend.name)
            writer.name("imported")
            writer.beginArray()
            for (entry, outcome) in zip(entries, outcomes) {
                guard case .imported(let token) = outcome else { continue }
                writer.beginObject()
                writer.members(of: entry)
                writer.field("imported_service", token.service.rawValue)
                writer.field("imported_token", token.value)
                writer.endObject()
            }
            writer.endArray()
            writer.name("refused")
            writer.beginArray()
            for (entry, outcome) in zip(entries, outcomes) { Self.write(outcome, of: entry, to: &writer) }
            writer.endArray()
            writer.warnings(warnings)
        }
    }

    /// Writes the reason why a token was not imported.
    private static func write(_ outcome: TokenImport, of entry: TokenList.Entry, to writer: inout JSONWriter) {
        let (reason, isPassing): (String, Bool)
        switch outcome {
        case .imported: return
        case .refused(let value): (reason, isPassing) = (value, false)
        case .failed(let error):
            (reason, isPassing) = (error.reason ?? error.code.rawValue.replacing("-", with: "_"), error.isPassing)
        }
        writer.beginObject()
        writer.members(of: entry)
        writer.field("reason", reason)
        writer.field("retryable", isPassing)
        writer.endObject()
    }
}

extension [TokenImport] {
    /// The error of the first token, when no token had a usable answer: then the call failed, not a token.
    fileprivate var commonFailure: PushError? {
        guard case .failed(let error)? = first else { return nil }
        return allSatisfy { if case .failed = $0 { true } else { false } } ? error : nil
    }
}
