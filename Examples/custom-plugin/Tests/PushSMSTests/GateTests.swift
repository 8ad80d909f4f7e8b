import Foundation
import Testing

/// The whole way: the gateway of this package, with the file that chooses the platform, as people run it.
@Suite("The gateway with text messages", .timeLimit(.minutes(2)))
struct GateTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    /// The built program, which stands beside the test bundle.
    private static let program: URL = {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(filePath: own).deletingLastPathComponent().appending(path: "gate")
    }()

    private static func start(_ arguments: [String], _ variables: [String: String], log: URL) throws -> Process {
        try Data().write(to: log)
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(variables) { $1 }
        process.standardOutput = try FileHandle(forWritingTo: log)
        process.standardError = process.standardOutput
        try process.run()
        return process
    }

    private static func wait<Value>(_ what: String, for condition: () throws -> Value?) async throws -> Value {
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline {
            if let value = try condition() { return value }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw CocoaError(.userCancelled, userInfo: [NSLocalizedDescriptionKey: "\(what) did not happen in time"])
    }

    @Test("A notification that is posted to it arrives at the service")
    func delivers() async throws {
        try await SMSService.run { service in
            let folder = FileManager.default.temporaryDirectory.appending(path: "gate-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let config = folder.appending(path: "gate.yaml")
            let text = try String(contentsOf: Self.root.appending(path: "gate.yaml"), encoding: .utf8)
            try text.replacing("port: 8080", with: "port: 0").write(to: config, atomically: true, encoding: .utf8)
            let variables = ["SMS_URL": service.url, "SMS_KEY": SMSService.key]

            let log = folder.appending(path: "log")
            let gateway = try Self.start(["serve", "--config", config.path], variables, log: log)
            defer { gateway.terminate() }
            let url = try await Self.wait("listening") {
                let words = String(decoding: try Data(contentsOf: log), as: UTF8.self)
                    .split(whereSeparator: \.isWhitespace)
                return words.first { $0.hasPrefix("url=") }.map { String($0.dropFirst(4)) }
            }
            let output = folder.appending(path: "output")
            let arguments = ["send", "--url", url, "--to", "x-sms:+989121234567", "--title", "Order 42", "on its way"]
            let sending = try Self.start(arguments, [:], log: output)
            try await Self.wait("the end of send") { sending.isRunning ? nil : () }
            let said = try String(contentsOf: output, encoding: .utf8)
            #expect(sending.terminationStatus == 0 && said.contains("via texts"), "\(said)")
            #expect(service.numbers == ["+989121234567"])
        }
    }

    @Test("It knows the platforms it lists and no others")
    func kinds() async throws {
        let log = FileManager.default.temporaryDirectory.appending(path: "gate-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: log) }
        let process = try Self.start(["backends"], [:], log: log)
        try await Self.wait("the end of backends") { process.isRunning ? nil : () }
        #expect(try String(contentsOf: log, encoding: .utf8) == "KIND  PLATFORM\nsms   Text messages\n")
    }
}
