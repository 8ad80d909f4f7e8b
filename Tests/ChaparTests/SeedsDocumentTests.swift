import Foundation
import Testing

/// docs/Seeds.md says for each thing that a seed names what does it here, and which test proves it.
@Suite(
    "The page on the seeds",
    .timeLimit(.minutes(3)),
    .enabled(if: Platforms.missing.isEmpty, "The page speaks of every plugin.")
)
struct SeedsDocumentTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    /// A row of a table: its number in the file, and its cells.
    private struct Row {
        let line: Int
        let cells: [String]
        /// Returns the texts between grave accents in a cell.
        func names(_ cell: Int) -> [String] {
            cells[cell].split(separator: "`", omittingEmptySubsequences: false).enumerated()
                .filter { !$0.offset.isMultiple(of: 2) }.map { String($0.element) }
        }
    }

    private static func rows() throws -> [Row] {
        let text = try String(contentsOf: root.appending(path: "docs/Seeds.md"), encoding: .utf8)
        return text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().compactMap { number, line in
            guard line.hasPrefix("|"), !line.hasPrefix("| ---"), !line.hasSuffix("| test |") else { return nil }
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
            return Row(line: number + 1, cells: cells.map { $0.trimmingCharacters(in: .whitespaces) })
        }
    }

    /// The text of all Swift files under some folders.
    private static func sources(_ folders: String...) throws -> [String] {
        try folders.flatMap { folder -> [String] in
            let files = FileManager.default.enumerator(
                at: root.appending(path: folder),
                includingPropertiesForKeys: nil
            )
            return try (files?.compactMap { $0 as? URL } ?? []).filter { $0.pathExtension == "swift" }
                .map { try String(contentsOf: $0, encoding: .utf8) }
        }
    }

    @Test("Every row has a test, and every test named there exists; a row without one has a reason")
    func tests() throws {
        let suites = try Self.sources("Tests")
        let rows = try Self.rows()
        #expect(rows.count > 60)
        for row in rows {
            guard row.cells.count == 3 else {
                Issue.record("line \(row.line) has \(row.cells.count) cells")
                continue
            }
            let named = row.names(2)
            #expect(!named.isEmpty || row.cells[1].contains("Reason"), "line \(row.line) has neither test nor reason")
            for name in named {
                let parts = name.split(separator: "/").map(String.init)
                let isThere =
                    parts.count == 2
                    && suites.contains { text in
                        // The test may be in an extension of its suite, or in the suite that the type holds.
                        text.contains("func \(parts[1])(")
                            && ["struct", "final class", "class", "extension", "actor", "enum"].contains {
                                text.contains("\($0) \(parts[0])")
                            }
                    }
                #expect(isThere, "line \(row.line): there is no test \(name)")
            }
        }
    }

    @Test("Every Swift name of the middle column is declared somewhere")
    func names() throws {
        var declared: Set<Substring> = []
        let keywords: Set<Substring> = [
            "struct", "class", "enum", "actor", "protocol", "extension", "typealias", "func", "var", "let", "case",
        ]
        for text in try Self.sources("Sources", "Plugins") {
            let words = text.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
            for (word, next) in zip(words, words.dropFirst()) where keywords.contains(word) { declared.insert(next) }
        }
        for row in try Self.rows() where row.cells.count == 3 {
            for name in row.names(1) {
                let path = name.prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "." }
                // A type, or a member of one: routes, keys of a configuration and words of the platform are something
                // else.
                guard let first = path.first, first.isUppercase, first.isASCII, path.contains(where: \.isLowercase),
                    path.endIndex == name.endIndex || name[path.endIndex] == "("
                else { continue }
                for part in path.split(separator: ".") {
                    #expect(declared.contains(part), "line \(row.line): \(name) is declared nowhere")
                }
            }
        }
    }
}
