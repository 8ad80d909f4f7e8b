import ArgumentParser
import PushCore
import PushGateway

/// `chapar check`: reads a configuration and says every mistake; sends nothing and opens nothing.
struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check a configuration file and name every mistake at once.",
        discussion: "Exit code 0 when the file is good, 3 when it has mistakes. The network is not touched; see doctor."
    )

    @OptionGroup var file: ConfigOption
    @OptionGroup var form: OutputForm

    func run() async throws {
        do {
            let loaded = try file.load()
            form.isJSON ? Shell.print(report(loaded, [])) : Shell.print(summary(loaded))
        } catch let error as ConfigurationError where form.isJSON {
            Shell.print(report(nil, error.issues))
            throw ExitStatus.configuration
        }
    }

    private func summary(_ loaded: LoadedConfiguration) -> String {
        let backends = loaded.backends.map { "\($0.name) (\($0.backend.kind))" }.joined(separator: ", ")
        let routes = loaded.configuration.routes.count
        let all = backends.isEmpty ? "no backends yet" : "backends \(backends)"
        return "\(file.path) is good: \(all); \(routes) route\(routes == 1 ? "" : "s")."
    }

    private func report(_ loaded: LoadedConfiguration?, _ issues: [ConfigIssue]) -> JSONValue {
        let backends: [JSONValue] = (loaded?.backends ?? [])
            .map { ["name": .string($0.name), "kind": .string($0.backend.kind.rawValue)] }
        return [
            "file": .string(file.path), "ok": .bool(issues.isEmpty), "backends": .array(backends),
            "issues": .array(issues.map(Self.json)),
        ]
    }

    private static func json(_ issue: ConfigIssue) -> JSONValue {
        [
            "path": .string(issue.path), "file": .string(issue.origin.file),
            "line": .integer(Int64(issue.origin.line)), "column": .integer(Int64(issue.origin.column)),
            "problem": .string(issue.problem), "fix": issue.fix.map { .string($0) } ?? .null,
        ]
    }
}
