/// The list of an app's versions with what changed in each, newest first.
public struct ReleaseNotes: Sendable, Hashable {
    /// One version.
    public struct Entry: Sendable, Hashable {
        /// Its number.
        public var number: ReleaseVersion
        /// The changes: trimmed texts; empty ones stay.
        public var changes: [String]

        /// Makes a version.
        public init(_ number: ReleaseVersion, _ changes: [String]) {
            self.number = number
            self.changes = changes.map { String.trimmed($0) }
        }

        /// All changes as one text, each with a bullet.
        public var fullText: String { changes.map { "• \($0)" }.joined(separator: "\n") }
    }

    /// How a version compares with the installed one.
    @nonexhaustive
    public enum Status: String, Sendable {
        /// Greater: it is announced.
        case future
        /// Equal.
        case current
        /// Smaller.
        case old
    }

    /// The versions, newest first; two of one number keep their order.
    public let entries: [Entry]

    /// Makes a list of versions in any order.
    public init(_ entries: [Entry]) {
        self.entries = entries.enumerated()
            .sorted { ($1.element.number, $0.offset) < ($0.element.number, $1.offset) }
            .map(\.element)
    }

    /// Returns the status of an entry for an app of the version `current`.
    public static func status(of entry: Entry, for current: ReleaseVersion) -> Status {
        entry.number == current ? .current : entry.number > current ? .future : .old
    }

    /// Returns the versions after the installed one.
    public func since(_ version: ReleaseVersion) -> ReleaseNotes {
        ReleaseNotes(entries.filter { $0.number > version })
    }

    /// Returns the remarks about the list as a whole; for an empty list only that it is empty.
    public func problems(for current: ReleaseVersion) -> [ReleaseNotesProblem] {
        guard !entries.isEmpty else { return [ReleaseNotesProblem(.empty, "the list is empty")] }
        var problems: [ReleaseNotesProblem] = []
        let counts = Dictionary(entries.map { ($0.number, 1) }, uniquingKeysWith: +)
        switch counts[current] ?? 0 {
        case 0: problems.append(ReleaseNotesProblem(.noCurrent, "no entry for current version \(current)"))
        case 1: break
        case let count:
            problems.append(ReleaseNotesProblem(.severalCurrent, "\(count) entries for current version \(current)"))
        }
        for (number, count) in counts.sorted(by: { $0.key > $1.key }) where count > 1 && number != current {
            problems.append(ReleaseNotesProblem(.repeated, "version \(number) appears \(count) times"))
        }
        return problems
    }
}

/// Something that is wrong or remarkable about release notes.
///
/// Readers and look-ups give it; the module and the command show it. Codes that begin with `NK0` are about reading the
/// file, those with `NK1` about the list that was read.
public struct ReleaseNotesProblem: Sendable, Hashable, Error, CustomStringConvertible {
    /// The code of a problem, which appears in logs and answers.
    @nonexhaustive
    public enum Code: String, Sendable {
        /// The file is missing.
        case missing = "NK001"
        /// It cannot be read.
        case unreadable = "NK002"
        /// Its root is not a list of versions.
        case badRoot = "NK003"
        /// An item is bad.
        case badItem = "NK004"
        /// The list is empty.
        case empty = "NK101"
        /// No entry has the current version.
        case noCurrent = "NK102"
        /// Several entries have the current version.
        case severalCurrent = "NK103"
        /// Several entries have another version.
        case repeated = "NK104"
        /// The current version's text is no version.
        case badCurrent = "NK105"
    }

    /// The code of the problem.
    public var code: Code
    /// A sentence for people, without the prefix.
    public var detail: String

    /// Makes a problem.
    public init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// Returns the problem of a reader's version that cannot be read (NK105); like the client library, views take 0.0.0
    /// in its place.
    public static func badCurrent(_ text: String) -> ReleaseNotesProblem {
        ReleaseNotesProblem(.badCurrent, "current version \"\(text.prefix(64))\" is not a version")
    }

    /// The message as the client library promises it.
    public var description: String { "\(code.rawValue) release notes: \(detail)" }
}
