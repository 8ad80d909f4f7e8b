import Foundation
import ChaparTesting
import Synchronization

/// The built `chapar`, run as a child process: what users run is what is tested.
enum Program {
    /// The result of a run.
    struct Result: Sendable {
        var status: Int32
        var output: String
        var errors: String

        /// The lines of stdout.
        var lines: [String] { output.split(separator: "\n").map(String.init) }
    }

    /// It did not do in time what the test waits for.
    struct TooSlow: Error, CustomStringConvertible {
        let description: String
    }

    /// The binary, which stands beside the test bundle.
    static let url: URL = {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let beside = URL(filePath: own).deletingLastPathComponent().appending(path: "chapar")
        if FileManager.default.isExecutableFile(atPath: beside.path) { return beside }
        return URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../.build/debug/chapar")
            .standardizedFileURL
    }()

    /// Runs it to its end.
    static func run(
        _ arguments: [String],
        input: String? = nil,
        environment: [String: String] = [:],
        in folder: URL? = nil,
        within limit: Duration = .seconds(60)
    ) async throws -> Result {
        let child = try Child(arguments, input: input, environment: environment, in: folder)
        defer { child.kill() }
        return try await child.end(within: limit)
    }

    /// Waits until there is a value, looking every few milliseconds.
    @discardableResult
    static func wait<Value>(
        _ what: String,
        within limit: Duration = .seconds(30),
        for condition: () async throws -> Value?
    ) async throws -> Value {
        var found: Value?
        try await eventually(what, within: limit, every: .milliseconds(10)) {
            found = try await condition()
            return found != nil
        }
        guard let value = found else { throw TooSlow(description: "\(what) did not happen in \(limit)") }
        return value
    }
}

/// A child process whose output goes to files, so that it never waits for its reader.
final class Child: Sendable {
    private let process: Process
    private let folder: URL
    private let ended = Mutex<Int32?>(nil)

    init(
        _ arguments: [String],
        input: String? = nil,
        environment: [String: String] = [:],
        in place: URL? = nil,
        executable: URL = Program.url
    ) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "chapar-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        process = Process()
        process.executableURL = executable
        process.arguments = arguments
        process.currentDirectoryURL = place
        var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("CHAPAR_") }
        variables.merge(environment) { $1 }
        process.environment = variables
        for name in ["in", "out", "err"] {
            let text = name == "in" ? input ?? "" : ""
            try Data(text.utf8).write(to: folder.appending(path: name))
        }
        process.standardInput = try FileHandle(forReadingFrom: folder.appending(path: "in"))
        process.standardOutput = try FileHandle(forWritingTo: folder.appending(path: "out"))
        process.standardError = try FileHandle(forWritingTo: folder.appending(path: "err"))
        process.terminationHandler = { [weak self] process in
            self?.ended.withLock { $0 = process.terminationStatus }
        }
        try process.run()
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// The text that it has written to stdout so far.
    var output: String { text("out") }
    /// The text that it has written to stderr so far.
    var errors: String { text("err") }

    /// Sends a signal.
    func send(_ signal: Int32) { if ended.withLock({ $0 }) == nil { Glibc.kill(process.processIdentifier, signal) } }

    /// The memory it holds now.
    func residentKilobytes() throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
        return line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    }

    /// The limits that it runs under, as the kernel shows them.
    func limits() throws -> String {
        try String(contentsOfFile: "/proc/\(process.processIdentifier)/limits", encoding: .utf8)
    }

    /// Ends it at once.
    func kill() { send(SIGKILL) }

    /// Waits for its end.
    func end(within limit: Duration = .seconds(60)) async throws -> Program.Result {
        let status = try await Program.wait("the end of chapar", within: limit) { ended.withLock { $0 } }
        return Program.Result(status: status, output: output, errors: errors)
    }

    private func text(_ name: String) -> String {
        (try? String(contentsOf: folder.appending(path: name), encoding: .utf8)) ?? ""
    }
}

/// A folder for one test.
struct TestFolder {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "chapar-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    func write(_ text: String, to name: String) throws -> String {
        let file = url.appending(path: name)
        try Data(text.utf8).write(to: file)
        return file.path
    }

    func remove() { try? FileManager.default.removeItem(at: url) }
}
