import Foundation
import ChaparCore
import ChaparHTTP
import ChaparTesting
import Testing

@testable import ChaparService

/// The sample in Python, run as a reader of the documentation runs it.
@Suite("A service in another language keeps the contract", .timeLimit(.minutes(1)), .serialized)
struct AnyLanguageTests {
    private static let secret = "whsec_c2FuZGJveC1zZWNyZXQtb2YtdGhlLXNlcnZpY2U="
    private static let program = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Examples/AnyLanguage/service.py").path

    private static func withService(_ body: (Int) async throws -> Void) async throws {
        let output = FileManager.default.temporaryDirectory.appending(path: "chapar-service-\(UUID().uuidString)")
        try Data().write(to: output)
        defer { try? FileManager.default.removeItem(at: output) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["timeout", "-s", "KILL", "60", "python3", program, "0", secret]
        // A file, so that it never waits for a reader of its output.
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = FileHandle.nullDevice
        try process.run()
        // The group that `timeout` makes for itself and the service: killed alone, it would leave the service behind.
        defer { kill(-process.processIdentifier, SIGKILL) }
        var line = ""
        try await eventually("the service tells its port or ends", within: .seconds(60)) {
            let isOver = !process.isRunning
            line = String(decoding: try Data(contentsOf: output), as: UTF8.self)
            return line.contains("\n") || isOver
        }
        let words = line.split(whereSeparator: \.isWhitespace)
        let port = try #require(words.last.flatMap { Int($0) }, "\(line)")
        try await body(port)
    }

    @Test("The conformance kit passes", arguments: BackendConformance.checks)
    func kit(check: BackendConformance.Check) async throws {
        try await Self.withService { port in
            let transport = NIOTransport(logger: quiet)
            let url = try #require(HTTPBaseURL(url: "http://127.0.0.1:\(port)/"))
            let options = ServiceOptions(
                url: url,
                secret: Secret(Self.secret),
                audience: BackendAudience(services: [Harness.own]),
                maximumMessageBytes: 4_096
            )
            let context = BackendContext(name: "python", http: transport, logger: quiet)
            let backend = try ServiceBackend(options: options, context: context)
            let subject = BackendConformance.Subject(
                backend: backend,
                recipient: { Harness.token("t-\($0)") },
                deadRecipient: Harness.token("gone-1"),
                foreignRecipient: .token(DeviceToken("00fc13adff785122", service: .iOSAPNs)),
                payloadLimit: 4_096
            )
            try await finally({ _ = try await check.run(subject) }) {
                await backend.shutdown(grace: .zero)
                await transport.shutdown(grace: .milliseconds(100))
            }
        }
    }

    @Test("It is a program that fits on a page")
    func size() throws {
        let text = try String(contentsOfFile: Self.program, encoding: .utf8)
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count < 60)
    }
}
