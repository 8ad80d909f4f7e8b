import Foundation

/// Edits of the list `auth.api_keys`: an entry is added or removed, and everything else stays byte for byte.
///
/// They know the usual forms only. The command checks the changed text before it is written, so that another form ends
/// in an error and not in a damaged file.
extension ConfigurationFile {
    /// Adds a key as the first of the list.
    ///
    /// `entry` has the form `{ name: … }`. The list and its section are made where they are missing.
    mutating func add(key entry: String) throws(CommandFailure) {
        let inline = /(?m)^[^#\n]*?"?\bapi_keys"?[ \t]*:[ \t]*\[/
        if let place = text.firstMatch(of: inline)?.range.upperBound {
            let isEmpty = text[place...].first { !$0.isWhitespace } == "]"
            text.insert(contentsOf: isEmpty ? entry : "\(entry), ", at: place)
            return
        }
        var lines = Self.lines(of: text)
        if let list = lines.firstIndex(where: { Self.bare($0).wholeMatch(of: /[ ]*api_keys:[ \t]*(#.*)?/) != nil }) {
            let first = lines[(list + 1)...].first { Self.indent($0) != nil } ?? ""
            let own = Self.indent(lines[list]) ?? 0
            let isItem = Self.isItem(first) && (Self.indent(first) ?? 0) >= own
            let margin = String(repeating: " ", count: isItem ? Self.indent(first) ?? 0 : own + 2)
            lines.insert("\(margin)- \(entry)\(Self.ending(of: lines[list]))", at: list + 1)
        } else if let section = lines.firstIndex(where: { Self.bare($0).wholeMatch(of: /auth:[ \t]*(#.*)?/) != nil }) {
            let first = lines[(section + 1)...].first { Self.indent($0) != nil } ?? ""
            let margin = String(repeating: " ", count: max(Self.indent(first) ?? 0, 2))
            let ending = Self.ending(of: lines[section])
            lines.insert(
                contentsOf: ["\(margin)api_keys:\(ending)", "\(margin)  - \(entry)\(ending)"],
                at: section + 1
            )
        } else if lines.contains(where: { $0.hasPrefix("auth:") }) || text.first { !$0.isWhitespace } == "{" {
            throw CommandFailure(
                "\(path) was left as it is: its section auth has no list api_keys that a line can be added to. Put the line there",
                .usage
            )
        } else {
            return append("auth:\n  api_keys:\n    - \(entry)\n")
        }
        text = lines.joined(separator: "\n")
    }

    /// Removes the entry of a list whose name stands in a line, counted from 1.
    mutating func removeEntry(at number: Int) throws(CommandFailure) {
        var lines = Self.lines(of: text)
        let failure = CommandFailure(
            "\(path) was left as it is: the entry at line \(number) does not stand in lines of its own. Remove it there",
            .usage
        )
        guard lines.indices.contains(number - 1), let own = Self.indent(lines[number - 1]) else { throw failure }
        var start = number - 1
        while !(Self.isItem(lines[start]) && (start == number - 1 || (Self.indent(lines[start]) ?? own) < own)) {
            guard start > 0 else { throw failure }
            start -= 1
        }
        let margin = Self.indent(lines[start]) ?? 0
        let next = lines.indices.first { $0 > start && (Self.indent(lines[$0]) ?? margin + 1) <= margin }
        var end = next ?? lines.count
        // Comments and empty lines before the next entry belong to that one.
        while end > start + 1, Self.indent(lines[end - 1]) == nil { end -= 1 }
        lines.removeSubrange(start..<end)
        text = lines.joined(separator: "\n")
    }

    /// Returns the lines without their line feeds; a carriage return stays.
    private static func lines(of text: String) -> [String] {
        text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { String(Substring($0)) }
    }

    private static func bare(_ line: String) -> Substring {
        line.utf8.last == UInt8(ascii: "\r") ? Substring(line.unicodeScalars.dropLast()) : Substring(line)
    }

    /// Returns the carriage return at the end of a line, which a line beside it gets as well.
    private static func ending(of line: String) -> String { line.utf8.last == UInt8(ascii: "\r") ? "\r" : "" }

    /// Returns the number of blanks before a line's text; nil for an empty line and for a comment.
    private static func indent(_ line: String) -> Int? {
        let count = line.utf8.prefix { $0 == UInt8(ascii: " ") }.count
        let rest = bare(line).utf8.dropFirst(count)
        guard let first = rest.first, first != UInt8(ascii: "#") else { return nil }
        return count
    }

    private static func isItem(_ line: String) -> Bool { bare(line).prefixMatch(of: /[ ]*-[ ]/) != nil }
}
