internal import Foundation
public import ChaparCore
internal import Synchronization

/// A source of JWTs that runs a program: the user and the device are among its arguments, and it prints a JWT.
///
/// No shell is involved, so each argument stays one argument. If an argument would begin with `-` only because of the
/// user or the device, the program is not started, since it would read the argument as an option. Of the gateway's
/// environment the program gets only ``environment``, since the rest may hold the gateway's own credentials. No output
/// means that there is no JWT. An error exit, or no output in time, is thrown (540).
public struct AltcraftCommandTokens: AltcraftTokenSource {
    /// How long a JWT is kept, unless it ends sooner.
    public let cacheSpan: Duration
    /// The variables of the gateway's environment that every program gets, if they are set.
    public static let environment = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"]

    private let program: String
    private let arguments: [IdentityTemplate]
    private let environment: [String: String]
    private let deadline: Duration

    /// Makes a source of a program's path and its arguments, in which `{user}` and `{device}` are filled in;
    /// `variables` are further names of the gateway's environment that the program gets.
    public init(
        program: String,
        arguments: [String],
        variables: [String] = [],
        cacheSpan: Duration = .seconds(300),
        deadline: Duration = .seconds(10)
    ) {
        let names = Set(Self.environment + variables)
        environment = ProcessInfo.processInfo.environment.filter { names.contains($0.key) }
        self.program = program
        self.arguments = arguments.map { IdentityTemplate(text: $0) }
        self.cacheSpan = cacheSpan
        self.deadline = deadline
    }

    /// Runs the program and returns the JWT that it prints.
    public func jwt(for identity: AltcraftIdentity) async throws(PushError) -> Secret? {
        let filled = arguments.compactMap { template in
            template.filled(identity).flatMap { $0.hasPrefix("-") && !template.text.hasPrefix("-") ? nil : $0 }
        }
        guard filled.count == arguments.count else { return nil }
        let run = CommandRun(program, filled, environment)
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
///
/// It starts once, on a thread of its own, since reading a pipe blocks. Its owner ends it when it takes too long. The
/// program's error output is not kept.
private final class CommandRun: Sendable {
    private struct Failed: Error {}

    private let program: String
    private let arguments: [String]
    private let environment: [String: String]
    private let identifier = Mutex<Int32?>(nil)

    init(_ program: String, _ arguments: [String], _ environment: [String: String]) {
        self.program = program
        self.environment = environment
        self.arguments = arguments
    }

    /// Returns the program's output without blanks around it; nil when it is empty.
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
        process.environment = environment
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
