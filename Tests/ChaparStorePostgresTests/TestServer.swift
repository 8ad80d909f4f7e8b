import Foundation
import ChaparCore
import Synchronization
import Testing

@testable import ChaparStorePostgres

/// A private PostgreSQL server for the tests of one process, in a temporary folder, reached by a socket in it.
///
/// It ends with this process: a shell beside it waits for the end of its input, which this process holds open.
actor TestServer {
    static let shared = TestServer()

    /// Whether it can be started with `pool=N`.
    static let hasPooler = ((ProcessInfo.processInfo.environment["PATH"] ?? "") + ":/usr/sbin").split(separator: ":")
        .contains { FileManager.default.isExecutableFile(atPath: "\($0)/pgbouncer") }

    /// Further settings of the server.
    private let settings: [String]
    private var starting: Task<Started, any Error>?
    private static let number = Atomic(0)

    private struct Started: Sendable {
        var folder: String
        /// Keeps the server alive.
        var input: FileHandle
        var output: FileHandle
    }

    /// Makes a server that starts when it is first asked for; `settings` are those of `postgres-server`.
    init(_ settings: [String] = []) { self.settings = settings }

    /// The folder with the server's socket, and with that of its pool in `pool`.
    func folder() async throws -> String { try await started().folder }

    /// A port of this machine that was free a moment ago.
    static func freePort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(descriptor, address, length) == 0 && getsockname(descriptor, address, &length) == 0
            }
        }
        guard isBound else { throw ServerTrouble(description: "there is no free port") }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    /// Options of a database with a schema that no other test uses.
    func options(_ schema: String? = nil, isPooled: Bool = false, user: String = "chapar") async throws
        -> PostgresOptions
    {
        let folder = try await folder() + (isPooled ? "/pool" : "")
        var options = try PostgresOptions(url: "postgres://\(user)@/postgres?host=\(folder)")
        let number = Self.number.wrappingAdd(1, ordering: .relaxed).newValue
        options.schema = schema ?? "test_\(number)"
        return options
    }

    /// Ends the server as a crash of its machine would.
    func crash() async throws { try await say("crash", expecting: "crashed") }

    /// Starts it again.
    func restart() async throws { try await say("start", expecting: "ready") }

    /// Makes a standby take changes.
    func promote() async throws { try await say("promote", expecting: "promoted") }

    /// Ends the server for good.
    func end() async throws { try await started().input.close() }

    private func say(_ word: String, expecting answer: String) async throws {
        let started = try await started()
        try started.input.write(contentsOf: Array((word + "\n").utf8))
        let line = await Self.line(started.output)
        guard line.hasPrefix(answer) else { throw ServerTrouble(description: "\(word): \(line)") }
    }

    private func started() async throws -> Started {
        if let starting { return try await starting.value }
        let task = Task { try await Self.start(settings) }
        starting = task
        return try await task.value
    }

    private static func start(_ settings: [String]) async throws -> Started {
        let number = Self.number.wrappingAdd(1, ordering: .relaxed).newValue
        let name = "chapar-pg-\(ProcessInfo.processInfo.processIdentifier)-\(number)"
        let folder = FileManager.default.temporaryDirectory.appending(path: name).path
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        // Without `fsync`: what the tests kill are servers and clients, never the machine.
        process.arguments =
            [
                root.appending(path: "Examples/Cluster/postgres-server").path, folder, "fsync=off",
                "full_page_writes=off",
                "max_connections=600", "shared_buffers=64MB",
            ] + settings
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let line = await line(output.fileHandleForReading)
        guard line.hasPrefix("ready") else { throw ServerTrouble(description: "PostgreSQL does not start: \(line)") }
        return Started(folder: folder, input: input.fileHandleForWriting, output: output.fileHandleForReading)
    }

    private static func line(_ output: FileHandle) async -> String {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(returning: String(decoding: output.availableData, as: UTF8.self))
            }
        }
    }

    struct ServerTrouble: Error, CustomStringConvertible {
        let description: String
    }
}
