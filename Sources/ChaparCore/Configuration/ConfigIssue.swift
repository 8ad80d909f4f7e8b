/// One mistake in a configuration file: its key, its place, the problem and the fix.
public struct ConfigIssue: Sendable, Hashable, CustomStringConvertible {
    /// The key's path, such as `backends.ios.key_id`.
    public var path: String
    /// The place in the file.
    public var origin: ConfigOrigin
    /// The problem.
    ///
    /// Never a secret's value.
    public var problem: String
    /// The fix; nil when the problem implies it.
    public var fix: String?

    /// Makes an issue.
    public init(path: String, origin: ConfigOrigin, problem: String, fix: String? = nil) {
        self.path = path
        self.origin = origin
        self.problem = problem
        self.fix = fix
    }

    /// The issue in one line: its place, its path, the problem and the fix.
    ///
    /// An issue of the file as a whole has an empty path.
    public var description: String {
        let place = origin.file.isEmpty ? "" : "\(origin): "
        return "\(place)\(path.isEmpty ? "" : path + ": ")\(problem)" + (fix.map { ". \($0)" } ?? "")
    }
}

/// All mistakes of a configuration, found in one pass.
public struct ConfigurationError: Error, Sendable, CustomStringConvertible {
    /// The mistakes, in the order of the file.
    public let issues: [ConfigIssue]

    /// Makes an error from at least one issue.
    public init(_ issues: [ConfigIssue]) { self.issues = issues }

    /// A line for each issue.
    public var description: String { issues.map(\.description).joined(separator: "\n") }
}

/// Finds the likely meaning of a misspelt word.
public enum Suggestion {
    /// Returns the candidate nearest to `word`, if it is near enough to be the intended one.
    public static func nearest(to word: String, among candidates: some Sequence<String>) -> String? {
        let (length, limit) = (word.count, max(1, word.count / 3))
        let lowered = word.lowercased()
        return candidates.filter { abs($0.count - length) <= limit || $0.hasPrefix(word) || word.hasPrefix($0) }
            .map { ($0, distance(lowered, $0.lowercased())) }
            .filter { $0.1 <= limit || $0.0.hasPrefix(word) || word.hasPrefix($0.0) }
            .min { $0.1 < $1.1 }?.0
    }

    /// Returns the candidate that is the same word, or else the one that differs in the case of its letters only.
    public static func same(as word: String, among candidates: some Sequence<String>) -> String? {
        let lowered = word.lowercased()
        var other: String?
        for candidate in candidates {
            if candidate == word { return candidate }
            if other == nil, candidate.lowercased() == lowered { other = candidate }
        }
        return other
    }

    /// Returns the number of letters to insert, remove, replace or swap with their neighbour.
    static func distance(_ left: String, _ right: String) -> Int {
        let (a, b) = (Array(left), Array(right))
        guard !a.isEmpty, !b.isEmpty else { return max(a.count, b.count) }
        var rows = [Array(0...b.count)]
        for i in 1...a.count {
            var row = [i]
            for j in 1...b.count {
                var cost = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
                if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] { cost = min(cost, rows[i - 2][j - 2] + 1) }
                row.append(cost)
            }
            rows.append(row)
        }
        return rows[a.count][b.count]
    }
}
