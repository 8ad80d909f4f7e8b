internal import Foundation
internal import Synchronization

/// A child process whose output goes to files, so that it never blocks on its reader.
final class ChildProcess: Sendable {
    private let process: Process
    private let files: URL
    private let status = Mutex<Int32?>(nil)

    init(_ program: URL, _ arguments: [String], environment: [String: String], folder: URL) throws {
        files = FileManager.default.temporaryDirectory.appending(path: "child-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: files, withIntermediateDirectories: true)
        process = Process()
        process.executableURL = program
        process.arguments = arguments
        process.currentDirectoryURL = folder
        let inherited = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("CHAPAR_") }
        process.environment = inherited.merging(environment) { $1 }
        for name in ["out", "err"] { try Data().write(to: files.appending(path: name)) }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: files.appending(path: "out"))
        process.standardError = try FileHandle(forWritingTo: files.appending(path: "err"))
        process.terminationHandler = { [weak self] process in
            self?.status.withLock { $0 = process.terminationStatus }
        }
        try process.run()
    }

    deinit { try? FileManager.default.removeItem(at: files) }  // The system removes what cannot be removed here.

    /// Its stdout so far.
    var output: String { text("out") }
    /// Its stderr so far.
    var errors: String { text("err") }

    private func text(_ name: String) -> String {
        (try? String(contentsOf: files.appending(path: name), encoding: .utf8)) ?? ""
    }

    /// Waits for the first whole line of stdout.
    ///
    /// Throws ``ConformanceFailure`` with its output when it ends before that, or does not get there in time.
    func firstLine(within limit: Duration) async throws -> String {
        let deadline = ContinuousClock.now + limit
        while ContinuousClock.now < deadline {
            let hasEnded = status.withLock { $0 != nil }
            let output = output
            if let end = output.firstIndex(of: "\n") { return String(output[..<end]) }
            if hasEnded { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw ConformanceFailure("the program did not say where it listens; stderr: \(errors)")
    }

    /// Waits for its end, and returns its exit code.
    func wait(within limit: Duration) async throws -> Int32 {
        let deadline = ContinuousClock.now + limit
        while ContinuousClock.now < deadline {
            if let status = status.withLock({ $0 }) { return status }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw ConformanceFailure("the program did not end within \(limit); stderr: \(errors)")
    }

    /// Kills it.
    func end() { if status.withLock({ $0 }) == nil { kill(process.processIdentifier, SIGKILL) } }
}
