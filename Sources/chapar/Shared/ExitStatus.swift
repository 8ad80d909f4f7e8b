/// How the program ends, for scripts.
///
/// The numbers are a promise (README, "Exit codes").
struct ExitStatus: Error, Hashable {
    let rawValue: Int32

    /// Done; what was to be sent was taken by the platform.
    static let success = ExitStatus(rawValue: 0)
    /// Everything was refused, or a check failed.
    static let failure = ExitStatus(rawValue: 1)
    /// The command line is wrong.
    static let usage = ExitStatus(rawValue: 2)
    /// The configuration is wrong.
    static let configuration = ExitStatus(rawValue: 3)
    /// Some of it was sent.
    static let partial = ExitStatus(rawValue: 4)
    /// Nothing was sent for now; the same command may work later.
    static let tryLater = ExitStatus(rawValue: 75)
}

/// A command could not do its work: a sentence for people, and how the program ends.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    let status: ExitStatus

    init(_ description: String, _ status: ExitStatus = .failure) {
        self.description = description
        self.status = status
    }
}
