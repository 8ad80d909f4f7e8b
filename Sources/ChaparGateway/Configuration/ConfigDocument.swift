internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
internal import ChaparCore
internal import Yams

/// The reader of YAML, of which JSON is a part: it makes values that have their places in the file.
///
/// It is the only user of the YAML parser. It is the only user of the YAML parser. Merge keys (`<<`) work. An alias
/// counts as its whole content each time, so a small file cannot become a large one. Messages never quote the file: a
/// secret may stand beside the mistake.
struct ConfigDocument {
    /// The most values in a file, with aliases expanded.
    static let maximumValues = 20_000
    /// The deepest nesting of values.
    static let maximumDepth = 32

    /// The texts that were inserted into values, for messages about them.
    private(set) var interpolation: Interpolation
    /// The warnings about single values.
    private(set) var warnings: [ConfigIssue] = []
    /// The mistakes of single values.
    private(set) var issues: [ConfigIssue] = []
    private let name: String
    private var values = 0

    init(name: String, interpolation: Interpolation) {
        self.name = name
        self.interpolation = interpolation
    }

    /// Reads a whole document.
    ///
    /// - Throws: The mistake, when the text cannot be read as YAML at all.
    mutating func read(_ text: [UInt8]) throws(UnreadableDocument) -> ConfigNode {
        // A byte order mark, as some editors write it, is not part of the text.
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        guard let text = String(validating: text.dropFirst(text.starts(with: mark) ? mark.count : 0), as: UTF8.self)
        else {
            throw foreign(text)
        }
        // Latin letters of UTF-16 are valid UTF-8, with a zero byte beside each.
        guard !text.utf8.prefix(4).contains(0) else { throw foreign(Array(text.utf8)) }
        if let mark = YAMLKeys.firstStructure(in: text) {
            throw fault("a key must be a single word, not a list or a map", line: mark.line, column: mark.column)
        }
        let root: Node?
        do {
            root = try Yams.compose(yaml: text)
        } catch {
            throw fault(error, in: text)
        }
        guard let root else { return ConfigNode(.null, origin: ConfigOrigin(file: name, line: 1, column: 1)) }
        return try convert(root, path: "", depth: 0)
    }

    private mutating func convert(_ node: Node, path: String, depth: Int) throws(UnreadableDocument) -> ConfigNode {
        let origin = origin(of: node)
        values += 1
        guard values <= Self.maximumValues else {
            let problem = "the file holds more than \(Self.maximumValues) values, aliases included"
            throw UnreadableDocument(issue: ConfigIssue(path: path, origin: origin, problem: problem))
        }
        guard depth <= Self.maximumDepth else {
            let problem = "nests deeper than \(Self.maximumDepth) levels"
            throw UnreadableDocument(issue: ConfigIssue(path: path, origin: origin, problem: problem))
        }
        switch node {
        case .scalar(let scalar):
            return convert(scalar, path: path, origin: origin)
        case .sequence(let sequence):
            var elements: [ConfigNode] = []
            for (position, element) in sequence.enumerated() {
                elements.append(try convert(element, path: "\(path)[\(position)]", depth: depth + 1))
            }
            return ConfigNode(.list(elements), origin: origin)
        case .mapping(let mapping):
            return ConfigNode(.map(try entries(of: mapping, path: path, depth: depth)), origin: origin)
        case .alias:
            let problem = "the alias stands for nothing"
            throw UnreadableDocument(issue: ConfigIssue(path: path, origin: origin, problem: problem))
        }
    }

    private mutating func entries(
        of mapping: Node.Mapping,
        path: String,
        depth: Int
    ) throws(UnreadableDocument) -> [ConfigNode.Entry] {
        var own: [ConfigNode.Entry] = []
        var merged: [ConfigNode.Entry] = []
        var lastRank = 0
        /// Adds the entries of a merged map; the keys of each map keep a rank of their own.
        func merge(_ entries: [ConfigNode.Entry]) {
            let base = lastRank + 1
            for var entry in entries {
                entry.mergeRank += base
                lastRank = max(lastRank, entry.mergeRank)
                merged.append(entry)
            }
        }
        for (keyNode, valueNode) in mapping {
            let keyOrigin = origin(of: keyNode)
            guard let key = keyNode.scalar?.string else {
                issues.append(ConfigIssue(path: path, origin: keyOrigin, problem: "a key must be a single word"))
                continue
            }
            let value = try convert(
                valueNode,
                path: key == "<<" ? path : path.isEmpty ? key : "\(path).\(key)",
                depth: depth + 1
            )
            guard key == "<<" else {
                own.append(ConfigNode.Entry(key: key, keyOrigin: keyOrigin, node: value))
                continue
            }
            switch value.value {
            case .map(let entries): merge(entries)
            case .list(let maps):
                for case .map(let entries) in maps.map(\.value) { merge(entries) }
            default: issues.append(ConfigIssue(path: path, origin: keyOrigin, problem: "\"<<\" must name a map"))
            }
        }
        for entry in merged where !own.contains(where: { $0.key == entry.key }) { own.append(entry) }
        return own
    }

    private mutating func convert(_ scalar: Node.Scalar, path: String, origin: ConfigOrigin) -> ConfigNode {
        let tag = scalar.tag.rawValue
        if !tag.isEmpty, tag != "!", !tag.hasPrefix("tag:yaml.org,2002:") {
            issues.append(
                ConfigIssue(
                    path: path,
                    origin: origin,
                    problem: "the tag \(tag) means nothing here",
                    fix: "Write ${NAME} for a variable, ${file:/path} for a file."
                )
            )
        }
        if scalar.style == .plain, tag.isEmpty, ["", "~", "null", "Null", "NULL"].contains(scalar.string) {
            return ConfigNode(.null, origin: origin)
        }
        if Interpolation.looksUnfilled(scalar.string) {
            interpolation.keptAsWritten(at: origin)
            warnings.append(
                ConfigIssue(
                    path: path,
                    origin: origin,
                    problem: "is taken as it is written, though it looks like the name of a variable",
                    fix: Interpolation.fixOfUnfilled
                )
            )
        }
        let result = interpolation.resolve(scalar.string)
        var origin = origin
        origin.via = result.via
        if !result.problems.isEmpty { interpolation.failed(at: origin) }
        for (problem, fix) in result.problems {
            issues.append(
                ConfigIssue(path: path, origin: origin, problem: Interpolation.prefix + problem, fix: fix)
            )
        }
        let isQuoted = scalar.style == .singleQuoted || scalar.style == .doubleQuoted
        return ConfigNode(.scalar(result.text), origin: origin, isQuoted: isQuoted)
    }

    private func origin(of node: Node) -> ConfigOrigin {
        ConfigOrigin(file: name, line: node.mark?.line ?? 0, column: node.mark?.column ?? 0)
    }

    /// Returns the problem of a text that is not UTF-8; the encoding of 8-bit text cannot be named.
    private func foreign(_ text: [UInt8]) -> UnreadableDocument {
        let encoding = UTF16Form(of: text.prefix(4))
        let lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        let wrong = encoding != nil ? 0 : lines.firstIndex { String(validating: $0, as: UTF8.self) == nil } ?? 0
        var wrongText = self.fault("is not text in UTF-8", line: wrong + 1, column: 1)
        wrongText.issue.fix =
            encoding.map {
                "It looks like UTF-16: save it as UTF-8, or convert it: iconv -f \($0.rawValue) -t UTF-8."
            }
            ?? "Save it as UTF-8, or convert it with the name of its own encoding: iconv -f ENCODING -t UTF-8, where ENCODING is for "
            + "example WINDOWS-1252 (Western Europe)."
        return wrongText
    }

    /// Whether YAML stopped at a tab, which it does not accept as indentation.
    private func isTab(at mark: Mark, in text: String) -> Bool {
        let lines = text.split(omittingEmptySubsequences: false) { $0.isNewline }
        guard mark.line > 0, mark.line <= lines.count else { return false }
        let line = lines[mark.line - 1].unicodeScalars
        return line.dropFirst(max(0, mark.column - 1)).first == "\t"
    }

    /// Whether YAML stopped at the brace of a `${NAME}` without quotation marks within braces or brackets.
    private func isBareVariable(at mark: Mark, in text: String) -> Bool {
        let lines = text.split(omittingEmptySubsequences: false) { $0.isNewline }
        guard mark.line > 0, mark.line <= lines.count else { return false }
        return lines[mark.line - 1].unicodeScalars.dropFirst(max(0, mark.column - 2)).starts(with: "${".unicodeScalars)
    }

    private func fault(_ error: any Error, in text: String) -> UnreadableDocument {
        switch error as? YamlError {
        case .parser(_, _, let mark, _) where isBareVariable(at: mark, in: text):
            let way = "within { } or [ ] a variable needs quotation marks. Write \"${NAME}\" in place of ${NAME}"
            return fault("is not valid YAML: \(way)", mark)
        case .scanner(_, let problem, let mark, _)
        where problem.contains("cannot start any token") && isTab(at: mark, in: text):
            return fault("is not valid YAML: a tab stands where only spaces may. Indent with spaces", mark)
        case .scanner(let context, let problem, let mark, _), .parser(let context, let problem, let mark, _):
            let opening = context.map { " (\($0.text) in line \($0.mark.line))" } ?? ""
            return fault("is not valid YAML: \(problem)\(opening)", mark)
        case .composer(_, let problem, let mark, _):
            return fault("is not valid YAML: \(problem)", mark)
        case .reader(let problem, _, _, _):
            return fault("is not valid YAML: \(problem)", nil)
        case .duplicatedKeysInMapping(let keys, let context):
            let words = keys.map { "\"\($0)\"" }.joined(separator: ", ")
            return fault("\(words): the key stands twice in one map. Keep one of them", context.mark)
        default:
            return fault("is not valid YAML", nil)
        }
    }

    private func fault(_ problem: String, _ mark: Mark?) -> UnreadableDocument {
        fault(problem, line: mark?.line ?? 0, column: mark?.column ?? 0)
    }

    private func fault(_ problem: String, line: Int, column: Int) -> UnreadableDocument {
        let origin = ConfigOrigin(file: name, line: line, column: column)
        return UnreadableDocument(issue: ConfigIssue(path: "", origin: origin, problem: problem))
    }
}

/// The document as a whole cannot be read.
struct UnreadableDocument: Error {
    var issue: ConfigIssue
}
