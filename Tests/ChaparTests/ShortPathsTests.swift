import Foundation
import Testing

/// Foundation's own function for the folder of a path ends the process for them.
@Suite("Paths of one character", .timeLimit(.minutes(2)))
struct ShortPathsTests {
    private static let configuration =
        "server: { port: 0 }\nstore: { path: x }\nauth: { keyless: true }\nbackends: {}\n"

    @Test("A folder in the place of the configuration is named", arguments: [".", "/", "é"])
    func configuration(path: String) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let result = try await Program.run(["check", "-c", path], in: folder.url)
        #expect(result.status == 3 && result.errors.contains("cannot read \(path)"), "\(result)")
    }

    @Test("Configuration, store and backup may have such names")
    func names() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        _ = try folder.write(Self.configuration, to: "c")
        for (command, status) in [
            (["check", "-c", "c"], 0), (["config", "print", "-c", "c"], 0), (["migrate", "-c", "c"], 0),
            (["backup", "y", "-c", "c"], 0), (["backup", "é", "--store", "x"], 0), (["restore", "y", "-c", "c"], 0),
        ] as [([String], Int32)] {
            let result = try await Program.run(command, in: folder.url)
            #expect(result.status == status, "\(command): \(result)")
        }
        let doctor = try await Program.run(["doctor", "-c", "c"], in: folder.url)
        #expect(doctor.output.contains("x can be written"), "\(doctor)")
        for name in ["x", "y", "é"] {
            #expect(FileManager.default.fileExists(atPath: folder.url.appending(path: name).path), "\(name)")
        }
    }
}
