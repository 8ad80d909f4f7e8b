internal import Foundation
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparCore

/// The replacement of `${NAME}`, `${NAME:-default}` and `${file:/path}` in values, which also keeps the inserted texts
/// out of messages.
///
/// A default may contain references, as in Compose: `${A:-${B:-c}}`. `$${` stands for `${`. An inserted value is
/// neither replaced again nor read as YAML. One line break at the end of a file is dropped, since editors and secret
/// stores add one.
struct Interpolation {
    /// The result for one value.
    struct Result {
        /// The value with everything replaced.
        var text: String
        /// The source of the value, such as `env NAME` or `file /path`; nil when nothing was replaced.
        var via: String?
        /// The references that could not be replaced, a sentence each with its fix.
        var problems: [(problem: String, fix: String)] = []
    }

    /// The deepest nesting of defaults.
    static let maximumDepth = 8

    private let environment: [String: String]
    private let files: FolderFiles
    /// The inserted values with their sources, which are sorted by length, longest first, before use.
    private var inserted: [(value: String, via: String)] = []
    /// The places of failed replacements, at which mistakes that follow from them are dropped.
    private var failures: Set<ConfigOrigin> = []
    /// The places of values that look like references and were taken as they are written.
    private var unfilled: Set<ConfigOrigin> = []

    init(environment: [String: String], files: FolderFiles) {
        self.environment = environment
        self.files = files
    }

    /// The marks around names that other programs replace: `%NAME%`, `@NAME@`, `#{NAME}`, `%{NAME}`, `{$NAME}`,
    /// `__NAME__`, `$env:NAME`, `<NAME>`.
    private static let foreignMarks = [
        ("%", "%"), ("@", "@"), ("#{", "}"), ("#{", "}#"), ("%{", "}"), ("{$", "}"), ("__", "__"), ("$env:", ""),
        ("<", ">"),
    ]
    /// The beginnings of references to secret managers, which other programs resolve.
    private static let foreignSchemes = ["op://", "vault:", "arn:aws:secretsmanager:", "gcp-secret:", "ref+"]

    /// Whether a whole value is a reference in a form that is not replaced, such as `$NAME`, `$(NAME)`, `%NAME%`,
    /// `{{ name }}` or `op://vault/item`.
    ///
    /// Variables have capital letters by custom; a password may begin with a dollar sign.
    static func looksUnfilled(_ text: String) -> Bool {
        if text.hasPrefix("{{"), text.hasSuffix("}}") { return true }
        if text.hasPrefix("<%"), text.hasSuffix("%>") { return true }
        if foreignSchemes.contains(where: text.hasPrefix) { return true }
        for (before, after) in foreignMarks where text.hasPrefix(before) && text.hasSuffix(after) {
            if isCustomaryName(text.dropFirst(before.count).dropLast(after.count)) { return true }
        }
        guard text.hasPrefix("$") else { return false }
        var name = text.dropFirst()
        if name.hasPrefix("("), name.hasSuffix(")") { name = name.dropFirst().dropLast() }
        return isCustomaryName(name)
    }

    /// Whether a text can be a variable's name, and has capital letters only.
    private static func isCustomaryName(_ name: Substring) -> Bool {
        isVariable(String(name)) && !name.contains(where: \.isLowercase) && name.contains(where: \.isUppercase)
    }

    /// Replaces the references in a text.
    mutating func resolve(_ text: String) -> Result { resolve(text, depth: 0) }

    private mutating func resolve(_ text: String, depth: Int) -> Result {
        guard text.contains("${") else { return Result(text: text) }
        var result = Result(text: "")
        guard depth <= Self.maximumDepth else {
            let fix = "Write at most \(Self.maximumDepth) defaults in each other."
            result.problems.append(("the defaults of \"${…}\" nest too deep", fix))
            return result
        }
        var rest = text[...]
        while let dollar = rest.firstRange(of: "${") {
            if dollar.lowerBound > rest.startIndex, rest[rest.index(before: dollar.lowerBound)] == "$" {
                result.text += rest[..<rest.index(before: dollar.lowerBound)] + "${"
                rest = rest[dollar.upperBound...]
                continue
            }
            result.text += rest[..<dollar.lowerBound]
            guard let close = Self.end(of: rest[dollar.upperBound...]) else {
                result.problems.append(("\"${\" has no \"}\"", "Write ${NAME}, or $${ for the characters themselves."))
                return result
            }
            insert(String(rest[dollar.upperBound..<close]), into: &result, depth: depth)
            rest = rest[rest.index(after: close)...]
        }
        result.text += rest
        return result
    }

    /// Records that the value at a place could not be made.
    mutating func failed(at origin: ConfigOrigin) { failures.insert(origin) }

    /// Records that the value at a place looks like a reference in a form that is not replaced.
    mutating func keptAsWritten(at origin: ConfigOrigin) { unfilled.insert(origin) }

    /// The fix for a value that looks like a reference in a form that is not replaced.
    static let fixOfUnfilled = "Write ${NAME} for the value of a variable, ${file:/path} for that of a file."

    /// Returns the mistakes in the order of the file, without those that follow from a failed replacement; values from
    /// the environment or a file are replaced by their names.
    func presentable(_ issues: [ConfigIssue]) -> [ConfigIssue] {
        var seen: Set<ConfigIssue> = []
        return issues.filter { !failures.contains($0.origin) || $0.problem.hasPrefix(Self.prefix) }
            .map { issue in
                var issue = issue
                if issue.problem.hasPrefix(Self.prefix) { issue.problem.removeFirst(Self.prefix.count) }
                issue.problem = masked(issue.problem)
                if unfilled.contains(issue.origin) {
                    issue.fix = "It looks like the name of a variable. \(Self.fixOfUnfilled)"
                }
                issue.fix = issue.fix.flatMap { tells(partOf: issue.origin.via, $0) ? nil : masked($0) }
                return issue
            }
            .filter { seen.insert($0).inserted }
            .enumerated()
            .sorted {
                ($0.element.origin.line, $0.element.origin.column, $0.offset)
                    < ($1.element.origin.line, $1.element.origin.column, $1.offset)
            }
            .map(\.element)
    }

    /// Returns a setting in the form in which it may be shown: without values from files, and in a backend or an API
    /// key without inserted values.
    func presentable(_ setting: ConfigReport.Setting) -> ConfigReport.Setting {
        guard let via = setting.origin.via else { return setting }
        let isPrivate = ["backends.", "auth.", "store.encryption."].contains { setting.path.hasPrefix($0) }
        var setting = setting
        if isPrivate || via.contains("file ") { setting.value = nil }
        return setting
    }

    /// The prefix of issues about failed replacements while they are in the report.
    static let prefix = "\u{1}"

    /// Whether a fix contains a word of an inserted value, and would so show a part of it.
    private func tells(partOf via: String?, _ fix: String) -> Bool {
        guard let via else { return false }
        let words = fix.split { !$0.isLetter && !$0.isNumber }.filter { $0.count >= 3 }.map(String.init)
        for entry in inserted where entry.via == via {
            for word in words where entry.value.contains(word) && !Self.isPublic(word, in: entry.value) { return true }
        }
        return false
    }

    /// The words that every key, certificate or key file has, so that they tell nothing of a certain one.
    private static let wordsOfForms: Set<String> = [
        "BEGIN", "END", "RSA", "PRIVATE", "PUBLIC", "KEY", "CERTIFICATE", "key", "private", "service", "account",
        "type",
        "authorized", "user",
    ]

    /// Whether a word of a fix is in a value only because of the value's form.
    private static func isPublic(_ word: String, in value: String) -> Bool {
        guard wordsOfForms.contains(word) else { return false }
        return ["PRIVATE KEY", "PUBLIC KEY", "CERTIFICATE", "{"].contains { value.contains($0) }
    }

    private func masked(_ text: String) -> String {
        var text = text
        for (value, via) in inserted.sorted(by: { $0.value.count > $1.value.count }) {
            text = text.replacingOccurrences(of: "\"\(value)\"", with: "the value of \(via)")
            if value.count >= 8 { text = text.replacingOccurrences(of: value, with: "<\(via)>") }
        }
        return text
    }

    /// Returns the brace that closes a reference; references within it have braces of their own.
    private static func end(of text: Substring) -> Substring.Index? {
        var open = 1
        var index = text.startIndex
        while index < text.endIndex {
            let next = text.index(after: index)
            switch text[index] {
            case "}":
                open -= 1
                if open == 0 { return index }
            // In "$${", which stands for the characters themselves, the first mark makes the second one ordinary.
            case "$" where next < text.endIndex && text[next] == "$":
                index = text.index(after: next)
                continue
            case "$" where next < text.endIndex && text[next] == "{": open += 1
            default: break
            }
            index = next
        }
        return nil
    }

    private mutating func insert(_ name: String, into result: inout Result, depth: Int) {
        let (value, via): (String, String)
        if name.hasPrefix("file:") {
            let path = String(name.dropFirst(5))
            via = "file \(path)"
            do {
                let bytes = try files.contents(of: path)
                guard let text = String(validating: bytes, as: UTF8.self) else {
                    result.problems.append(("the file \(path) is not text in UTF-8", "Name a text file."))
                    return
                }
                value = Self.withoutLineBreak(text)
            } catch {
                result.problems.append(("\(error)", "Mend the path or the permissions of the file in ${\(name)}."))
                return
            }
        } else {
            let parts = name.firstRange(of: ":-")
            let variable = parts.map { String(name[..<$0.lowerBound]) } ?? name
            guard Self.isVariable(variable) else {
                result.problems.append(
                    ("\"${\(name)}\" names no variable", "Write ${NAME}, ${NAME:-default} or ${file:/path}.")
                )
                return
            }
            via = "env \(variable)"
            if let found = environment[variable], parts == nil || !found.isEmpty {
                value = found
            } else if let parts {
                let fallback = resolve(String(name[parts.upperBound...]), depth: depth + 1)
                result.text += fallback.text
                result.problems += fallback.problems
                if let inner = fallback.via { result.via = result.via.map { "\($0), \(inner)" } ?? inner }
                return
            } else {
                result.problems.append(
                    ("the environment variable \(variable) is not set", "Set it, or write ${\(variable):-default}.")
                )
                return
            }
        }
        result.text += value
        result.via = result.via.map { "\($0), \(via)" } ?? via
        if !value.isEmpty { inserted.append((value, via)) }
    }

    private static func withoutLineBreak(_ text: String) -> String {
        guard text.last?.isNewline ?? false else { return text }
        return String(text.dropLast())  // "\r\n" is one character.
    }

    private static func isVariable(_ name: String) -> Bool {
        guard let first = name.utf8.first, !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else {
            return false
        }
        return name.utf8.allSatisfy {
            switch $0 {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
    }
}
