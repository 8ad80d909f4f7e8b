internal import Foundation
internal import ChaparCore

/// A program that prints a key: run at the start, with a deadline, and without the gateway's environment.
///
/// No shell is involved; each argument is passed as it is. The program gets `PATH`, `HOME` and `LANG`, and no input.
struct KeyCommand {
    /// The reason why there is no key; it contains nothing that the program printed.
    struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    private static let largestOutput = 4_096
    private let arguments: [String]
    private let deadline: Duration

    init(_ arguments: [String], deadline: Duration = .seconds(10)) {
        self.arguments = arguments
        self.deadline = deadline
    }

    /// Runs the program and returns what it printed; blocks at most for the deadline.
    func run() throws -> Secret {
        guard let program = arguments.first else { throw Failed(description: "it names no program") }
        let end = ContinuousClock.now + deadline
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(filePath: program)
        process.arguments = Array(arguments.dropFirst())
        process.environment = Self.environment
        process.standardOutput = pipe
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        do {
            try process.run()
        } catch {
            throw Failed(description: "\(program) cannot be run")
        }
        defer { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }
        try? pipe.fileHandleForWriting.close()  // The child has its own end; ours would keep the pipe open.
        let printed = try output(of: pipe.fileHandleForReading.fileDescriptor, until: end)
        while process.isRunning {
            guard ContinuousClock.now < end else { throw tooSlow }
            usleep(2_000)
        }
        guard process.terminationReason == .exit, process.terminationStatus == 0 else {
            throw Failed(description: "\(program) ended with status \(process.terminationStatus)")
        }
        let text = String(decoding: printed, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard !text.isEmpty else { throw Failed(description: "\(program) printed nothing") }
        return Secret(text)
    }

    private var tooSlow: Failed {
        Failed(description: "\(arguments.first ?? "") was not done within \(Int(clamping: deadline.inSeconds)) s")
    }

    private func output(of descriptor: Int32, until end: ContinuousClock.Instant) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: Self.largestOutput)
        while true {
            let left = Int64(clamping: (end - .now).inSeconds * 1000)
            guard left > 0 else { throw tooSlow }
            var look = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let ready = poll(&look, 1, Int32(clamping: left))
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else { throw tooSlow }
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Failed(description: "its output cannot be read") }
            if count == 0 { return bytes }
            bytes += buffer[..<count]
            guard bytes.count <= Self.largestOutput else { throw Failed(description: "it printed too much") }
        }
    }

    private static var environment: [String: String] {
        let own = ProcessInfo.processInfo.environment
        var given = ["PATH": own["PATH"] ?? "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"]
        given["HOME"] = own["HOME"]
        return given
    }
}
