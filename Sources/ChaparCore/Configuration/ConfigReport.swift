/// The result of reading a configuration: every mistake, and every value in force with its origin.
///
/// All sections of one file share it while the file is read, on one thread.
public final class ConfigReport {
    /// A value in force.
    public struct Setting: Sendable, Hashable {
        /// The key's path.
        public var path: String
        /// The value as text; nil for a secret, which is never kept here.
        public var value: String?
        /// The place it came from.
        public var origin: ConfigOrigin
    }

    /// The mistakes so far.
    public private(set) var issues: [ConfigIssue] = []
    /// The warnings about values in force, such as a key under its former name.
    package private(set) var warnings: [ConfigIssue] = []
    /// The values read so far, defaults included.
    public private(set) var settings: [Setting] = []
    /// The keys that sections read, in the order of reading.
    package private(set) var keys: [ConfigKey] = []
    /// The index in ``keys`` of each path.
    private var places: [String: Int] = [:]

    /// Makes an empty report.
    public init() {}

    /// Adds a mistake; credentials in addresses that it quotes are left out.
    public func add(_ issue: ConfigIssue) {
        var issue = issue
        issue.problem = issue.problem.withoutAddressCredentials
        issue.fix = issue.fix?.withoutAddressCredentials
        issues.append(issue)
    }

    /// Adds a warning, which refuses nothing.
    package func warn(_ warning: ConfigIssue) { warnings.append(warning) }

    func note(_ path: String, _ value: String?, _ origin: ConfigOrigin) {
        settings.append(Setting(path: path, value: value?.withoutAddressCredentials, origin: origin))
    }

    /// Records a key; for one that was recorded before, only adds the default and that it is required.
    func record(_ key: ConfigKey) {
        if let index = places[key.path] {
            keys[index].standard = keys[index].standard ?? key.standard
            if key.isRequired { keys[index].isRequired = true }
        } else {
            places[key.path] = keys.count
            keys.append(key)
        }
    }

    /// Throws all mistakes at once, if there are any.
    public func throwIfFaulty() throws(ConfigurationError) {
        if !issues.isEmpty { throw ConfigurationError(issues) }
    }
}

/// Reads a file that a configuration names, relative to the configuration's folder.
public protocol ConfigFileReader: Sendable {
    /// Returns the file's bytes; throws a sentence that says why it cannot be read.
    func contents(of path: String) throws -> [UInt8]
}
