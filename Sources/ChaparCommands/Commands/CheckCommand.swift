import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway

/// `chapar check`: reads a configuration and reports every mistake; sends nothing and opens nothing.
struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check a configuration file and name every mistake at once.",
        discussion: """
            Exit code 0 when the file is good, 3 when it has mistakes. What depends on the date, such as a certificate that has \
            expired, is no mistake of the file: it is a warning. The network is not touched; see doctor.
            """
    )

    @OptionGroup var file: ConfigOption
    @OptionGroup var form: OutputForm

    func run() async throws {
        do {
            let loaded = try file.load()
            let warnings = Self.warnings(loaded, at: Date())
            guard !form.isJSON else { return Shell.print(report(loaded, [], warnings)) }
            Shell.print(summary(loaded))
            for warning in warnings {
                Shell.print("\(Shell.paint("warning", .yellow)) \(warning.path): \(warning.problem)")
            }
        } catch let error as ConfigurationError where form.isJSON {
            Shell.print(report(nil, error.issues, []))
            throw ExitStatus.configuration
        }
    }

    private func summary(_ loaded: LoadedConfiguration) -> String {
        let backends = loaded.backends.map { "\($0.name) (\($0.backend.kind))" }.joined(separator: ", ")
        let routes = loaded.configuration.routes.count
        let all = backends.isEmpty ? "no backends yet" : "backends \(backends)"
        return "\(file.path) is good: \(all); \(routes) route\(routes == 1 ? "" : "s")."
    }

    /// A part of the configuration that does not work because of its dates, without which the gateway starts; or a key
    /// under its former name.
    struct Warning: Equatable {
        var path: String
        var problem: String
    }

    /// Returns warnings of keys under their former names, of credentials that have expired or are not valid yet, and
    /// of API keys that have expired.
    static func warnings(_ loaded: LoadedConfiguration, at now: Date) -> [Warning] {
        var warnings = loaded.backends.compactMap { configured -> Warning? in
            guard let problem = configured.backend.credentialProblem(at: now) else { return nil }
            let words = problem.detail ?? problem.reason
            return Warning(path: "backends.\(configured.name)", problem: "\(words) Until then the backend is parked.")
        }
        warnings += loaded.warnings.map { warning in
            let fix = warning.fix.map { " " + $0 } ?? ""
            return Warning(path: warning.path, problem: "\(warning.problem) (\(warning.origin)).\(fix)")
        }
        // Only on the gateway's own machine is it known whether it runs in a container and may write to its folder.
        if loaded.configuration.store.kind == .postgres, FirstKey.isNeeded(loaded.configuration) {
            warnings.append(
                Warning(path: "auth", problem: "is missing: with PostgreSQL serve does not start without it.")
            )
        }
        if let server = HostChecks.certificate(loaded.configuration.tls, at: now), server.verdict == .failure {
            let words = [server.finding, server.fix].compactMap(\.self).joined(separator: " ")
            warnings.append(Warning(path: "server.tls.certificate_file", problem: words))
        }
        for (place, key) in loaded.configuration.apiKeys.enumerated() {
            guard let words = HostChecks.ended(key.name, key.notAfter, at: now) else { continue }
            warnings.append(Warning(path: "auth.api_keys[\(place)].not_after", problem: words + "."))
        }
        return warnings
    }

    private func report(
        _ loaded: LoadedConfiguration?,
        _ issues: [ConfigIssue],
        _ warnings: [Warning]
    ) -> JSONValue {
        let backends: [JSONValue] = (loaded?.backends ?? [])
            .map { ["name": .string($0.name), "kind": .string($0.backend.kind.rawValue)] }
        return [
            "file": .string(file.path), "ok": .bool(issues.isEmpty), "backends": .array(backends),
            "issues": .array(issues.map(Self.json)),
            "warnings": .array(warnings.map { ["path": .string($0.path), "problem": .string($0.problem)] }),
        ]
    }

    /// Returns an issue as the commands write it.
    static func json(_ issue: ConfigIssue) -> JSONValue {
        [
            "path": .string(issue.path), "file": .string(issue.origin.file),
            "line": .integer(Int64(issue.origin.line)), "column": .integer(Int64(issue.origin.column)),
            "problem": .string(issue.problem), "fix": issue.fix.map { .string($0) } ?? .null,
        ]
    }
}
