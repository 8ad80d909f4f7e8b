import Foundation
import NIOCore
import NIOPosix
import ChaparCore
import ChaparTesting

/// A server program of somebody else's, run as a child on a free port: the proof that we speak HTTP/2 as others do.
///
/// `start` returns when the port takes connections; `stop` ends the child.
final class PeerProcess: @unchecked Sendable {
    let port: Int
    private let process: Process  // Only `start` and `stop` touch it, one after the other.
    private let folder: TestFolder

    private init(port: Int, process: Process, folder: TestFolder) {
        (self.port, self.process, self.folder) = (port, process, folder)
    }

    /// Where a program is, nil when it is not installed.
    static func find(_ program: String) -> String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return (folders + ["/usr/sbin", "/usr/local/sbin"]).map { "\($0)/\(program)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    static func start(
        _ program: String,
        in folder: TestFolder,
        arguments: (_ port: Int) throws -> [String]
    ) async throws -> PeerProcess {
        guard let path = find(program) else { throw HTTPPoolError("\(program) is not installed") }
        let port = try await freePort()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = try arguments(port)
        process.currentDirectoryURL = folder.url
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        let peer = PeerProcess(port: port, process: process, folder: folder)
        try await eventually("\(program) takes connections") {
            let probe = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            guard let channel = try? await probe.connect(host: "127.0.0.1", port: port).get() else { return false }
            try? await channel.close()
            return true
        }
        return peer
    }

    /// A port that was free a moment ago.
    static func freePort() async throws -> Int {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = channel.localAddress?.port ?? 0
        try await channel.close()
        return port
    }

    /// Ends the child at once.
    ///
    /// Children of dispatch threads have SIGTERM blocked, and waiting here would spin.
    func stop() { kill(process.processIdentifier, SIGKILL) }
}
