import Foundation
import Testing

/// docs/SimulatorRules.md says of each rule of a simulator where it stands and what outside this project confirms it.
@Suite(
    "The page on the simulators",
    .timeLimit(.minutes(2)),
    .enabled(if: Platforms.missing.isEmpty, "The page speaks of every plugin's tests.")
)
struct SimulatorsDocumentTests {
    private typealias Pattern = Regex<(Substring, Substring)>

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL
    /// The kit that simulators are written with, and the sandbox that has them all.
    private static let kit = ["Sources/ChaparSimulator", "Sources/ChaparSandbox"]

    /// A row of a table that says of rules where they stand.
    private struct Row {
        let line: Int
        let cells: [String]
        /// Whether the table's last column is about what confirms a rule.
        let isRule: Bool
    }

    /// The page: its sections by the folder that their heading names, and the rows of its tables.
    private struct Page {
        let text: String
        var sections: [String: String] = [:]
        var rows: [Row] = []

        init() throws {
            text = try String(
                contentsOf: SimulatorsDocumentTests.root.appending(path: "docs/SimulatorRules.md"),
                encoding: .utf8
            )
            var folder: String?
            var header: [String] = []
            for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
                if line.hasPrefix("## ") { folder = SimulatorsDocumentTests.folders(String(line)).first }
                if let folder { sections[folder, default: ""] += line + " " }
                guard line.hasPrefix("|") else {
                    header = []
                    continue
                }
                let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                    .map { $0.trimmingCharacters(in: .whitespaces) }
                if header.isEmpty {
                    header = cells
                } else if header.contains("where"), !line.hasPrefix("| ---") {
                    rows.append(Row(line: number + 1, cells: cells, isRule: header.last == "what confirms it"))
                }
            }
        }
    }

    /// Returns the texts between grave accents.
    private static func quoted(_ text: String) -> [String] {
        text.split(separator: "`", omittingEmptySubsequences: false).enumerated()
            .filter { !$0.offset.isMultiple(of: 2) }.map { String($0.element) }
    }

    /// The folders of simulators and of their kit that a text names; a file stands for itself.
    private static func folders(_ text: String) -> [String] {
        quoted(text).filter { place in
            place.contains("/Simulator") && !place.hasPrefix(kit[0]) || kit.contains { place.hasPrefix("\($0)/") }
        }
    }

    /// The folders that are there, by their paths.
    private static func places() throws -> Set<String> {
        func children(_ folder: String) throws -> [String] {
            try FileManager.default.contentsOfDirectory(
                at: root.appending(path: folder),
                includingPropertiesForKeys: nil
            )
            .filter { $0.pathExtension.isEmpty }.map { "\(folder)/\($0.lastPathComponent)" }
        }
        let simulators = try (children("Plugins") + ["Sources/ChaparOAuth"]).map { "\($0)/Simulator" }
            .filter { FileManager.default.fileExists(atPath: root.appending(path: $0).path) }
        return Set(try simulators + kit.flatMap(children))
    }

    /// Where the simulator of a platform stands.
    private static func place(of platform: String) -> String {
        switch platform {
        case "IDPush": "Plugins/OneSignal/Simulator/IDPushHandler.swift"
        case "OAuth2": "Sources/ChaparOAuth/Simulator"
        default: "Plugins/\(platform)/Simulator"
        }
    }

    /// The Swift files under a folder, by their names; of a file that one.
    private static func sources(_ folder: String) throws -> [(name: String, text: String)] {
        if folder.hasSuffix(".swift") {
            let file = root.appending(path: folder)
            return [(file.lastPathComponent, try String(contentsOf: file, encoding: .utf8))]
        }
        let files = FileManager.default.enumerator(at: root.appending(path: folder), includingPropertiesForKeys: nil)
        return try (files?.compactMap { $0 as? URL } ?? []).filter { $0.pathExtension == "swift" }
            .map { ($0.lastPathComponent, try String(contentsOf: $0, encoding: .utf8)) }
    }

    /// How a simulator's code writes what it refuses with, and how many such words there are at least: when the code
    /// comes to write them in another way, the patterns have to follow.
    private static func refusals(_ platform: String) -> (patterns: [Pattern], atLeast: Int)? {
        switch platform {
        case "APNs": ([/APNsRefusal\(\s*\d+,\s*"(\w+)"/], 39)
        case "FCM":
            (
                [
                    /(?:code|info|error): "(\w+)"/, /unauthenticated\("(\w+)"\)/, /(?:return|\?) "([A-Z_]{5,})"/,
                    /FCMRefusal\(\s*\d+,\s*"([A-Z_]+)"/, /case "([A-Z_]+)[:"]/, /\.named\("(\w+)"/,
                ], 26
            )
        case "HMS":
            (
                [
                    /"(\d{8})"/, /refusal\((\d{5})\)/, /(?:return|\?|reason:) "([a-z]+[A-Z]\w+)"/,
                    /: "([a-z]+[A-Z]\w+)"\)?\s*\n/,
                ], 30
            )
        case "RuStore":
            (
                [
                    /RuStoreRefusal\(\s*\d+,\s*"([A-Z_]+)"/, /default: "([A-Z_]{5,})"/,
                    /RuStoreRuleMistake\("([^"\\]+)/, /(?:invalid|validation|provider)\("([^"\\]+)/,
                ], 30
            )
        case "OneSignal":
            ([/code: "([a-z]+-\d)"/, /refuse\(\s*\d{3},\s*"([^"\\]+)/, /"errors"\] = \["([^"]+)"/], 35)
        case "IDPush": ([/no\("([^"\\]+)/], 12)
        case "Chabok": ([/message: "((?:[^"\\]|\\")+)/, /name: "(\w+)",\s*message/, /code: "(\w+)"/], 38)
        case "Altcraft": ([/refuse\(\s*\d{3},\s*"((?:[^"\\]|\\")+)/], 27)
        case "OAuth2": ([/"error": "(\w+)"/, /error\("(\w+)"/], 5)
        case "Service":
            (
                [
                    /problem\(\d{3}, "([^"]+)"/, /malformed\("([^"\\]+)/, /return "([^"\\]+)/,
                    /refuse\("(\w+)", "\w+"\)/, /refuse\("\w+", "(\w+)"\)/,
                ], 21
            )
        case "WebPush":
            (
                [
                    /\(\d{3}, "(\w+)"\)/, /\(\d{3}, (\d{3})\)/, /case [^:"]+: "([A-Z][^"\\]+)"/,
                    /fault\("([^"\\]+)/,
                ], 40
            )
        default: nil
        }
    }

    /// Whether a text has a word that is no part of a longer one.
    private static func stands(_ word: String, in text: String) -> Bool {
        func isLetter(_ character: Character?) -> Bool {
            character.map { $0.isLetter || $0.isNumber || $0 == "_" } ?? false
        }
        return text.ranges(of: word).contains { range in
            !isLetter(text[..<range.lowerBound].last) && !isLetter(text[range.upperBound...].first)
        }
    }

    private static let platforms = [
        "APNs", "FCM", "HMS", "RuStore", "OneSignal", "IDPush", "Chabok", "Altcraft", "OAuth2", "Service", "WebPush",
    ]

    @Test("Every folder of simulators has its section, or a row among what is no platform's")
    func folders() throws {
        let page = try Page()
        let folders = try Self.places()
        #expect(folders.count > 10)
        let sections = Set(Self.platforms.map(Self.place))
        #expect(Set(Self.folders(page.text)) == folders.union(sections))
        #expect(Set(page.sections.keys) == sections, "nothing looks at a section's refusals, or one is missing")
    }

    @Test(
        "Every word that a simulator refuses with stands in its section",
        arguments: platforms
    )
    func words(platform: String) throws {
        let place = Self.place(of: platform)
        let section = try #require(Page().sections[place])
        let (patterns, least) = try #require(Self.refusals(platform))
        var words: Set<String> = []
        // The words of control calls are no platform's.
        for (name, text) in try Self.sources(place) where !name.hasSuffix("Control.swift") {
            for pattern in patterns {
                for match in text.matches(of: pattern) {
                    let word = match.output.1.replacing("\\\"", with: "\"")
                    words.insert(word.trimmingCharacters(in: .whitespaces))
                }
            }
        }
        #expect(words.count >= least, "the patterns find fewer words: \(words.sorted())")
        for word in words.sorted() {
            #expect(
                Self.stands(word, in: section),
                "docs/SimulatorRules.md says nothing of \(word), which \(platform) answers"
            )
        }
    }

    @Test("Every row says where the rule stands and what confirms it")
    func rows() throws {
        let rows = try Page().rows
        #expect(rows.count > 150)
        let files = try Self.sources("Sources") + Self.sources("Plugins")
        let texts = files.map(\.text)
        var declared: Set<Substring> = []
        let keywords: Set<Substring> = ["struct", "class", "enum", "actor", "protocol", "typealias"]
        for text in texts {
            let words = text.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
            for (word, next) in zip(words, words.dropFirst()) where keywords.contains(word) { declared.insert(next) }
        }
        let marks = ["**V**", "**S**", "**C**", "**I**", "**R**", "ours", "not OneSignal's"]
        for row in rows {
            guard row.cells.count == (row.isRule ? 3 : 2) else {
                Issue.record("line \(row.line) has \(row.cells.count) cells")
                continue
            }
            let names = Self.quoted(row.cells[1])
            #expect(!names.isEmpty, "line \(row.line) does not say where")
            for name in names where !name.contains("/") {
                let isThere =
                    name.hasSuffix(".swift") ? files.contains { $0.name == name } : declared.contains(name[...])
                #expect(isThere, "line \(row.line): there is no \(name)")
            }
            guard row.isRule else { continue }
            let isConfirmed = marks.contains { row.cells[2].hasPrefix($0) }
            #expect(isConfirmed, "line \(row.line) does not say what confirms it")
        }
    }

    @Test("Every test named there exists")
    func tests() throws {
        let suites = try Self.sources("Tests").map(\.text)
        let named = Self.quoted(try Page().text).filter { $0.contains(/^[A-Z]\w*Tests\/\w+$/) }
        #expect(Set(named).count > 15)
        for name in Set(named) {
            let parts = name.split(separator: "/").map(String.init)
            let isThere = suites.contains { text in
                text.contains("func \(parts[1])(")
                    && ["struct", "final class", "class", "extension", "actor", "enum"].contains {
                        text.contains("\($0) \(parts[0])")
                    }
            }
            #expect(isThere, "there is no test \(name)")
        }
    }
}
