public import ChaparCore
import ChaparHTTP
import Foundation
import Logging
import NIOPosix

/// A program that sends through one backend: `NAME HOST PORT CA-FILE [FILE ...] TOTAL [SENDERS] [BATCH]`.
public struct BackendBench: Sendable {
    struct Usage: Error, CustomStringConvertible {
        let description: String
    }

    /// The paths of the program's own files, in the order of their names.
    public let files: [String]
    private let name: String
    private let address: PlatformAddress
    private let trust: String
    private let total: Int
    private let senders: Int
    private let batch: Int

    /// Reads the program's arguments.
    ///
    /// - Parameters:
    ///   - name: The program's name.
    ///   - files: The names, in the usage, of the files that it needs besides the CA's certificate.
    /// - Throws: An error with the usage for arguments that are missing or no numbers.
    public init(_ name: String, files: [String] = []) throws {
        let arguments = CommandLine.arguments
        let numbers = arguments.dropFirst(4 + files.count).map { Int($0) }
        guard let total = numbers.first ?? nil, numbers.count <= 3, !numbers.contains(nil), let port = Int(arguments[2])
        else {
            let words = ["HOST", "PORT", "CA-FILE"] + files + ["TOTAL", "[SENDERS]", "[BATCH]"]
            throw Usage(description: "usage: \(name) " + words.joined(separator: " "))
        }
        self.name = name
        self.total = total
        senders = numbers.count > 1 ? numbers[1] ?? 6 : 6
        batch = numbers.count > 2 ? numbers[2] ?? 256 : 256
        address = PlatformAddress(HTTPEndpoint(host: arguments[1], port: port))
        trust = try String(contentsOfFile: arguments[3], encoding: .utf8)
        self.files = Array(arguments[4..<(4 + files.count)])
    }

    /// Sets a backend's options for the responder of the arguments, over one connection.
    public func connect(_ options: inout CommonBackendOptions) {
        options.address = address
        options.trustPEM = trust
        options.maximumConnections = 1
    }

    /// Sends through the backend that `make` returns, on one event loop, and prints one JSON line.
    ///
    /// - Parameters:
    ///   - make: Makes the backend; called once.
    ///   - token: Returns the token for a number.
    /// - Throws: The error of `make`.
    public func run(
        _ make: (BackendContext) throws -> any PushBackend,
        token: @escaping @Sendable (UInt64) -> DeviceToken
    ) async throws {
        let logger = Logger(label: name) { _ in SwiftLogNoOpLogHandler() }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let transport = NIOTransport(group: group, logger: logger)
        let backend = try make(BackendContext(name: "bench", http: transport, logger: logger))
        try await measure(backend, total: total, senders: senders, batch: batch, token: token)
        await backend.shutdown(grace: .seconds(1))
        await transport.shutdown(grace: .seconds(1))
        try await group.shutdownGracefully()
    }
}
