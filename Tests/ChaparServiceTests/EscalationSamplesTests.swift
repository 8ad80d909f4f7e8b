import ChaparTesting
import Foundation
import Testing

/// The samples in Python of services that take over: of an SMS aggregator, and of a messenger's bot.
@Suite("The samples of services that take over", .timeLimit(.minutes(2)))
struct EscalationSamplesTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Examples/Escalation")

    @Test("Their own tests pass: what is sent, what becomes of each answer, and that nothing is sent twice")
    func tests() async throws {
        let output = FileManager.default.temporaryDirectory.appending(path: "chapar-samples-\(UUID().uuidString)")
        try Data().write(to: output)
        defer { try? FileManager.default.removeItem(at: output) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["timeout", "-s", "KILL", "100", "python3", "-B", "test.py"]
        process.currentDirectoryURL = Self.folder
        process.standardOutput = FileHandle.nullDevice
        process.standardError = try FileHandle(forWritingTo: output)
        try process.run()
        defer { kill(-process.processIdentifier, SIGKILL) }
        try await eventually("the tests end", within: .seconds(110)) { !process.isRunning }
        let text = String(decoding: try Data(contentsOf: output), as: UTF8.self)
        #expect(process.terminationStatus == 0, "\(text)")
        #expect(text.contains("OK"), "\(text)")
    }
}
