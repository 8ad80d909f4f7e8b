/// What reading a configuration brought to light: every mistake, and every value in force with its origin.
///
/// Shared by all sections of one file while it is read, on one thread.
public final class ConfigReport {
    /// A value in force.
    public struct Setting: Sendable, Hashable {
        /// The key's path.
        public var path: String
        /// The value as text; nil for a secret, which is never kept here.
        public var value: String?
        /// Where it came from.
        public var origin: ConfigOrigin
    }

    /// The mistakes so far.
    public private(set) var issues: [ConfigIssue] = []
    /// The values read so far, defaults included.
    public private(set) var settings: [Setting] = []

    /// Makes an empty report.
    public init() {}

    /// Adds a mistake.
    public func add(_ issue: ConfigIssue) { issues.append(issue) }

    func note(_ path: String, _ value: String?, _ origin: ConfigOrigin) {
        settings.append(Setting(path: path, value: value, origin: origin))
    }

    /// Throws all mistakes at once, if there are any.
    public func throwIfFaulty() throws(ConfigurationError) {
        if !issues.isEmpty { throw ConfigurationError(issues) }
    }
}

/// Reads a file that a configuration names, relative to the configuration's folder.
public protocol ConfigFileReader: Sendable {
    /// The file's bytes; throws a sentence that says why it cannot be read.
    func contents(of path: String) throws -> [UInt8]
}
