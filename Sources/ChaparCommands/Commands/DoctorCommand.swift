import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway

/// `chapar doctor`: finds problems that keep a gateway from working, with the fix for each.
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check configuration, disk, clock and every backend, and say how to correct what is wrong.",
        discussion: "Connects to the platforms but sends nothing. Exit code 1 when something does not work."
    )

    @OptionGroup var file: ConfigOption
    @OptionGroup var form: OutputForm

    @Option(help: "The folder where backups are kept, to look at who can read them.", completion: .directory)
    var backups: String?

    @Option(help: "The most seconds to give one backend.")
    var timeout = 30.0

    func run() async throws {
        let findings = await examine()
        for (subject, finding) in findings {
            form.isJSON ? Shell.print(json(subject, finding)) : show(subject, finding)
        }
        let failures = findings.count { $0.1.verdict == .failure }
        if !form.isJSON {
            Shell.print(
                Self.summary(failures, warnings: findings.count { $0.1.verdict == .warning }, of: findings.count)
            )
        }
        if failures > 0 { throw ExitStatus.failure }
    }

    /// Returns the last line: whether all is in order, or the number of failures and warnings.
    static func summary(_ failures: Int, warnings: Int, of count: Int) -> String {
        let warned = warnings == 1 ? "1 warning" : "\(warnings) warnings"
        if failures > 0 { return "\(failures) of \(count) checks failed" + (warnings > 0 ? ", \(warned)." : ".") }
        return warnings > 0 ? "Nothing failed, \(warned): see above." : "All in order."
    }

    private func examine() async -> [(String, Diagnosis)] {
        var findings: [(String, Diagnosis)] = []
        do {
            let loaded = try file.load()
            let count = loaded.backends.count
            findings.append(
                (
                    "configuration",
                    count == 0
                        ? Diagnosis(
                            "file",
                            .warning,
                            "\(file.path) is good, but has no backends: nothing can be sent",
                            fix: "\(GatewayProgram.current.name) init --config \(file.path)"
                        )
                        : Diagnosis("file", .ok, "\(file.path) is good, \(count) backend\(count == 1 ? "" : "s")")
                )
            )
            findings += loaded.warnings.map {
                ("configuration", Diagnosis($0.path, .warning, "\($0.origin): \($0.problem)", fix: $0.fix))
            }
            findings += await HostChecks.run(loaded.configuration).map { ("host", $0) }
            findings += FileChecks(path: file.path, loaded: loaded, backups: backups).run().map { ("files", $0) }
            findings += await BackendChecks.run(loaded.backends, within: .milliseconds(clamping: timeout * 1000))
        } catch let error as ConfigurationError {
            findings += error.issues.map {
                let position = $0.origin.file.isEmpty ? "" : "\($0.origin): "
                let path = $0.path.isEmpty ? "file" : $0.path
                return ("configuration", Diagnosis(path, .failure, position + $0.problem, fix: $0.fix))
            }
        } catch {
            findings.append(("program", Diagnosis("plugins", .failure, "\(error)")))
        }
        return findings
    }

    private func show(_ subject: String, _ finding: Diagnosis) {
        let verdict =
            switch finding.verdict {
            case .ok: Shell.paint("ok      ", .green)
            case .warning: Shell.paint("warning ", .yellow)
            case .failure: Shell.paint("FAILURE ", .red)
            }
        Shell.print("\(verdict) \(subject) \(finding.check): \(finding.finding)")
        if let fix = finding.fix { Shell.print("         fix: \(fix)") }
    }

    private func json(_ subject: String, _ finding: Diagnosis) -> JSONValue {
        [
            "subject": .string(subject), "check": .string(finding.check),
            "verdict": .string(finding.verdict.rawValue), "finding": .string(finding.finding),
            "fix": finding.fix.map { .string($0) } ?? .null,
        ]
    }
}

/// Asks all backends at the same time for problems that keep them from working, each with a deadline.
enum BackendChecks {
    static func run(
        _ backends: [BackendRegistry.ConfiguredBackend],
        within limit: Duration
    ) async -> [(String, Diagnosis)] {
        await withTaskGroup(of: (Int, [(String, Diagnosis)]).self) { group in
            for (position, configured) in backends.enumerated() {
                group.addTask {
                    let findings = await configured.backend.diagnose(within: limit, SystemTime())
                    return (position, findings.map { ("backend \(configured.name)", $0) })
                }
            }
            var rows: [(Int, [(String, Diagnosis)])] = []
            for await row in group { rows.append(row) }
            return rows.sorted { $0.0 < $1.0 }.flatMap(\.1)
        }
    }
}
