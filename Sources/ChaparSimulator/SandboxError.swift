/// The error of a simulator that could not start.
public struct SandboxError: Error, Sendable, CustomStringConvertible {
    /// The problem and its fix.
    public let description: String

    package init(description: String) { self.description = description }
}
