import Foundation

/// Runs programs of the machine, the independent clients that the simulator must satisfy.
enum Shell {
    struct Outcome: Sendable {
        let status: Int32
        let output: String
    }

    /// Runs a program to its end, standard output and error together.
    ///
    /// It is killed after half a minute. What it asks for is on this machine, so it hears of no proxy.
    static func run(_ arguments: [String]) async throws -> Outcome {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["timeout", "30"] + arguments
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.lowercased().hasSuffix("_proxy") }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("chapar-\(UUID().uuidString)")
        _ = FileManager.default.createFile(atPath: file.path, contents: nil)
        defer { try? FileManager.default.removeItem(at: file) }
        let handle = try FileHandle(forWritingTo: file)
        process.standardOutput = handle
        process.standardError = handle
        process.standardInput = FileHandle.nullDevice
        let status = try await withCheckedThrowingContinuation { (done: CheckedContinuation<Int32, any Error>) in
            process.terminationHandler = { done.resume(returning: $0.terminationStatus) }
            do {
                try process.run()
            } catch {
                process.terminationHandler = nil
                done.resume(throwing: error)
            }
        }
        try handle.close()
        return Outcome(status: status, output: String(decoding: try Data(contentsOf: file), as: UTF8.self))
    }

    /// Whether a program ends with success; used to enable tests that need it.
    static func succeeds(_ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    /// Whether the machine's curl speaks HTTP/2.
    static let hasCurlWithHTTP2 = succeeds(["sh", "-c", "curl --version | grep -q HTTP2"])

    /// The Python that has the independent clients; `CHAPAR_PYTHON` names it.
    static var python: String { ProcessInfo.processInfo.environment["CHAPAR_PYTHON"] ?? "python3" }

    /// A directory of its own for a test, removed afterwards.
    static func withDirectory<Value>(
        isolation: isolated (any Actor)? = #isolation,
        _ body: (URL) async throws -> Value
    ) async throws -> Value {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("chapar-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        return try await body(directory)
    }
}
