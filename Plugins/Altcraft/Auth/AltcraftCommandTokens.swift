internal import Foundation
public import PushCore
internal import Synchronization

/// JWTs from a program: it is started with the user and the device among its arguments, and prints a JWT.
///
/// No shell is between; each argument stays one. Printing nothing, or ending with an error, says that there is none.
public struct AltcraftCommandTokens: AltcraftTokenSource {
    /// How long a JWT is kept, unless it ends sooner.
    public let cacheSpan: Duration
    private let program: String
    private let arguments: [IdentityTemplate]
    private let deadline: Duration

    /// Makes a source of a program's path and its arguments, in which `{user}` and `{device}` are filled in.
    public init(
        program: String,
        arguments: [String],
        cacheSpan: Duration = .seconds(300),
        deadline: Duration = .seconds(10)
    ) {
        self.program = program
        self.arguments = arguments.map { IdentityTemplate(text: $0) }
        self.cacheSpan = cacheSpan
        self.deadline = deadline
    }

    /// What the program prints.
    public func jwt(for identity: AltcraftIdentity) async throws(PushError) -> Secret? {
        let filled = arguments.compactMap { $0.filled(identity) }
        guard filled.count == arguments.count else { return nil }
        let run = CommandRun(program, filled)
        do {
            return try await Deadline.run(deadline) {
                try await withTaskCancellationHandler {
                    try await run.output()
                } onCancel: {
                    run.stop()
                }
            }
        } catch {
            run.stop()
            throw PushError(.unavailable, "the program that gives JWTs failed or took too long", reason: "540")
        }
    }
}

/// One run of a program whose output is awaited.
private final class CommandRun: Sendable {
    private struct Failed: Error {}

    private let program: String
    private let arguments: [String]
    private let identifier = Mutex<Int32?>(nil)

    init(_ program: String, _ arguments: [String]) {
        self.program = program
        self.arguments = arguments
    }

    /// The first line of the output; nil when it is empty.
    func output() async throws -> Secret? {
        try await withCheckedThrowingContinuation { continuation in
            // A thread of its own, since reading a pipe blocks; it ends with the program, which `stop` ends.
            Thread.detachNewThread {
                continuation.resume(with: Result { try self.run() })
            }
        }
    }

    private func run() throws -> Secret? {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.standardOutput = pipe
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        identifier.withLock { $0 = process.processIdentifier }
        let bytes = try pipe.fileHandleForReading.read(upToCount: 65_536) ?? Data()
        try pipe.fileHandleForReading.close()
        process.waitUntilExit()
        identifier.withLock { $0 = nil }
        guard process.terminationStatus == 0 else { throw Failed() }
        let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        return text.isEmpty ? nil : Secret(text)
    }

    /// Ends the program, if it runs.
    func stop() {
        identifier.withLock { if let id = $0 { kill(id, SIGKILL) } }
    }
}
