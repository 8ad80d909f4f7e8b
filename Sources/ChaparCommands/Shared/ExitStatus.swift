import Foundation

/// The exit code of the program, for scripts.
///
/// The numbers are a promise (README, "Exit codes").
public struct ExitStatus: Error, Hashable {
    /// The exit code.
    public let rawValue: Int32

    /// Done; the platform accepted all that was to be sent.
    public static let success = ExitStatus(rawValue: 0)
    /// Everything was refused, or a check failed.
    public static let failure = ExitStatus(rawValue: 1)
    /// The command line is wrong.
    public static let usage = ExitStatus(rawValue: 2)
    /// The configuration is wrong, or names a store that a newer version of the program has changed: another start
    /// would fail as well.
    public static let configuration = ExitStatus(rawValue: 3)
    /// Some of it was sent.
    public static let partial = ExitStatus(rawValue: 4)
    /// Nothing was sent for now; the same command may work later.
    public static let tryLater = ExitStatus(rawValue: 75)
}

/// A command that could not do its work: a sentence for people, and the exit code.
public struct CommandFailure: Error, CustomStringConvertible {
    /// The sentence, written to stderr.
    public let description: String
    /// The exit code of the program.
    public let status: ExitStatus

    /// Makes a failure.
    public init(_ description: String, _ status: ExitStatus = .failure) {
        self.description = description
        self.status = status
    }

    /// Returns the failure of an action whose last system call failed: "cannot write a.json: Permission denied".
    static func system(_ action: String, _ status: ExitStatus = .failure) -> CommandFailure {
        CommandFailure("cannot \(action): \(String(cString: strerror(errno)))", status)
    }

    /// Returns the sentence for an address whose port is taken, with `fix`; nil for another error.
    static func portTaken(_ error: any Error, at address: String, fix: String) -> String? {
        guard "\(error)".contains("errno: \(EADDRINUSE)") else { return nil }
        return "cannot listen on \(address): the port is taken. Stop what has it, or \(fix)"
    }
}
