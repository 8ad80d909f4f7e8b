import Foundation
import ChaparCore
import Testing

@Suite("Configuration keys under their former names", .timeLimit(.minutes(1)))
struct FormerKeysTests {
    private static let text = """
        auth: { keyless: true }
        server: { port: 0 }
        queue: { patience: 30 }
        backends: {}
        """
    private static let problem = "is the old name of fallback_after and ends with the next minor version"

    @Test("check and doctor warn, with the key as written, its place and the present name")
    func commands() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write(Self.text, to: "chapar.yaml")
        let json = try await Program.run(["check", "--json", "--config", file])
        #expect(json.status == 0, "\(json)")
        let warnings = try JSONValue(parsing: Array(json.output.utf8))["warnings"]?.arrayValue ?? []
        let warning = try #require(warnings.first { $0["path"] == "queue.patience" }, "\(json)")
        let words = warning["problem"]?.stringValue ?? ""
        #expect(words.hasPrefix(Self.problem) && words.hasSuffix(":3:10). Write fallback_after."), "\(words)")
        let check = try await Program.run(["check", "--config", file])
        #expect(check.output.contains("queue.patience: \(Self.problem)"), "\(check)")
        let doctor = try await Program.run(["doctor", "--config", file])
        #expect(doctor.output.contains("configuration queue.patience: "), "\(doctor)")
        #expect(doctor.output.contains(":3:10: \(Self.problem)\n         fix: Write fallback_after."), "\(doctor)")
    }

    @Test("serve warns once at the start and once at each reload")
    func serve() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write(Self.text, to: "chapar.yaml")
        let child = try Child(["serve", "--config", file], in: folder.url)
        defer { child.kill() }
        func count() -> Int { child.errors.components(separatedBy: Self.problem).count - 1 }
        try await Program.wait("listening") { SandboxRig.port(in: child.errors) }
        #expect(count() == 1, "\(child.errors)")
        child.send(SIGHUP)
        try await Program.wait("the warning of the reload") { count() == 2 ? true : nil }
        let present = Self.text.replacingOccurrences(of: "patience", with: "fallback_after")
        _ = try folder.write(present, to: "chapar.yaml")
        child.send(SIGHUP)
        try await Program.wait("the second reload") {
            child.errors.components(separatedBy: "configuration reloaded").count == 3 ? true : nil
        }
        #expect(count() == 2, "\(child.errors)")
    }
}
