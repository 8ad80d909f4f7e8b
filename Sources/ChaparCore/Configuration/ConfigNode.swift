/// A value of a configuration file with its place, as a loader makes it from YAML or JSON.
public struct ConfigNode: Sendable, Hashable {
    /// The value.
    ///
    /// Scalars stay text until a reader asks for a type, so that `app_id: 1001` can be a string.
    public indirect enum Value: Sendable, Hashable {
        /// Nothing, or `null`.
        case null
        /// A scalar as written, with `${…}` already replaced.
        case scalar(String)
        /// A list.
        case list([ConfigNode])
        /// A map, in order; keys are unique.
        case map([Entry])
    }

    /// A key of a map with its value.
    public struct Entry: Sendable, Hashable {
        /// The key.
        public var key: String
        /// The place of the key.
        public var keyOrigin: ConfigOrigin
        /// The value.
        public var node: ConfigNode
        /// The rank of the map that wrote the key: 0 for the map itself, more for each map that it merges (`<<`).
        ///
        /// Entries of the lower rank override those of the higher one. Keys of one map have one rank.
        package var mergeRank = 0

        /// Makes an entry.
        public init(key: String, keyOrigin: ConfigOrigin, node: ConfigNode) {
            self.key = key
            self.keyOrigin = keyOrigin
            self.node = node
        }
    }

    /// The value.
    public var value: Value
    /// The place it came from.
    public var origin: ConfigOrigin
    /// Whether it is a scalar in quotes, and so a text and not a Boolean: `"yes"` (but not `"true"`).
    public var isQuoted: Bool

    /// Makes a value.
    public init(_ value: Value, origin: ConfigOrigin, isQuoted: Bool = false) {
        self.value = value
        self.origin = origin
        self.isQuoted = isQuoted
    }
}

/// The place that a configuration value came from.
public struct ConfigOrigin: Sendable, Hashable, CustomStringConvertible {
    /// The file's name, empty for a default.
    public var file: String
    /// The line, from 1; 0 when unknown.
    public var line: Int
    /// The column, from 1; 0 when unknown.
    public var column: Int
    /// Where the value came from if it is not in the configuration file itself: `env HMS_SECRET`, `file
    /// /run/secrets/x`.
    ///
    /// Nil when the value itself is in the configuration file.
    public var via: String?

    /// Makes an origin.
    public init(file: String, line: Int = 0, column: Int = 0, via: String? = nil) {
        self.file = file
        self.line = line
        self.column = column
        self.via = via
    }

    /// The origin of a default.
    public static let builtIn = ConfigOrigin(file: "")

    /// The place, such as `chapar.yaml:12:3`, with the indirect source; `default` for a default.
    public var description: String {
        guard !file.isEmpty else { return "default" }
        let place = line > 0 ? "\(file):\(line):\(column)" : file
        return via.map { "\(place) (\($0))" } ?? place
    }
}
