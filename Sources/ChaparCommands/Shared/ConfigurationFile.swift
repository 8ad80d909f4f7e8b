import Foundation
import ChaparCore
import ChaparGateway

/// A configuration file as text, for the few commands that edit one.
///
/// Everything outside the edit stays byte for byte. The file is replaced as a whole, with its owner, group and mode, or
/// not at all.
struct ConfigurationFile {
    let path: String
    /// The text without a byte order mark.
    var text: String
    /// The byte order mark at the beginning of the file; empty without one.
    private let mark: String

    /// Reads the file.
    init(_ path: String) throws(CommandFailure) {
        self.path = path
        let bytes: Data
        do {
            bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        } catch {
            throw CommandFailure("cannot read \(path): \(error.localizedDescription)", .usage)
        }
        mark = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? "\u{FEFF}" : ""
        text = try UTF8Text.whole(bytes, of: path)
    }

    /// Replaces the hashes of a key, which stand there as one text or as a list, with a list of hashes.
    ///
    /// A hash is found by its own digits, which occur nowhere else by chance.
    mutating func replace(hashes old: [String], with new: [String]) throws(CommandFailure) {
        let written = old.map { hash -> String in
            let text = "(?i:sha256:\(NSRegularExpression.escapedPattern(for: hash)))"
            return "(?:\"\(text)\"|'\(text)'|\(text))"
        }
        let list = #"\[\s*"# + written.joined(separator: #"\s*,\s*"#) + #"\s*\]"#
        let pattern = old.count == 1 ? "\(list)|\(written[0])" : list
        guard let expression = try? NSRegularExpression(pattern: pattern) else { throw Self.notFound(path) }
        let whole = NSRange(text.startIndex..., in: text)
        let matches = expression.matches(in: text, range: whole)
        guard matches.count < 2 else {
            throw CommandFailure(
                "the key's hash stands \(matches.count) times in \(path), which was left as it is: leave it only at the key, comments "
                    + "included, and run the command again",
                .usage
            )
        }
        guard let match = matches.first, let range = Range(match.range, in: text) else { throw Self.notFound(path) }
        let quote = text[range].first { $0 == "\"" || $0 == "'" } ?? "\""
        let quoted = new.map { "\(quote)sha256:\($0)\(quote)" }
        text.replaceSubrange(range, with: new.count == 1 ? quoted[0] : "[\(quoted.joined(separator: ", "))]")
    }

    private static func notFound(_ path: String) -> CommandFailure {
        CommandFailure(
            "the key's hash does not stand in \(path) as one text or as a list in one line: change it where it is written",
            .usage
        )
    }

    /// The line of a configuration without backends that is replaced by the first ones; nil when there is none.
    private var emptyBackends: Range<String.Index>? {
        text.firstRange(of: /(?m)^backends:[ \t]*\{[ \t]*\}[ \t]*(#.*)?$/)
    }

    /// Whether it is a configuration without backends to which some can be added.
    var takesBackends: Bool { emptyBackends != nil }

    /// Replaces the empty section of backends.
    mutating func fill(backends section: String) {
        if let place = emptyBackends { text.replaceSubrange(place, with: section) }
    }

    /// Whether there is a section for API keys.
    var hasKeys: Bool { (try? BackendLoader.offline().access(text, as: path))?.hasAuth ?? false }

    /// Adds a section at the end, before the mark that ends a document (`...`); the file must be YAML.
    mutating func append(_ section: String) {
        if !text.isEmpty, !text.hasSuffix("\n") { text += "\n" }
        let end = text.firstRange(of: /(?m)^\.\.\.[ \t]*(#.*)?$/)?.lowerBound ?? text.endIndex
        text.insert(contentsOf: section, at: end)
    }

    /// Replaces the file.
    func write() throws(CommandFailure) {
        let target = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        let folder = FolderPath.place(of: target)
        guard FileModes.takesFiles(folder) else {
            let failure = CommandFailure.system("replace \(path)", .usage)
            throw CommandFailure(
                "\(failure). The folder \(folder) must be writable, since the file is replaced as a whole",
                failure.status
            )
        }
        do {
            let part = target + ".new-\(getpid())"
            defer { unlink(part) }
            try SecretFile.write(mark + text, to: part)
            // A program of another user may read it, such as the service of a package.
            try FileModes.copyAccess(from: target, to: part)
            guard rename(part, target) == 0 else { throw CommandFailure.system("replace \(path)") }
        } catch let failure as CommandFailure {
            throw failure
        } catch {
            throw CommandFailure("cannot replace \(path): \(error.localizedDescription)")
        }
    }
}
