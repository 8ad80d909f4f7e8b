import Foundation
import Testing

/// Plugins/README.md says which file of which plugin has which role.
@Suite(
    "The page on the plugins",
    .timeLimit(.minutes(1)),
    .enabled(if: Platforms.missing.isEmpty, "The page speaks of every plugin.")
)
struct PluginsDocumentTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    /// The files that the tables name, by their paths under Plugins/.
    private static func named() throws -> [String] {
        let text = try String(contentsOf: root.appending(path: "Plugins/README.md"), encoding: .utf8)
        var folders: [String] = []
        var files: [String] = []
        for line in text.split(separator: "\n") where line.hasPrefix("|") {
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                .map { $0.trimmingCharacters(in: .whitespaces) }
            if cells.first == "folder" { folders = cells.dropFirst(2).map { "\($0)/" } }
            guard !folders.isEmpty, let plugin = cells.first?.split(separator: "`").first, cells[0].hasPrefix("`")
            else {
                continue
            }
            for (folder, names) in zip([""] + folders, cells.dropFirst()) {
                for name in names.split(separator: " ") {
                    let place = "\(plugin)/\(folder)"
                    let isWhole = FileManager.default.fileExists(
                        atPath: root.appending(path: "Plugins/\(place)\(name).swift").path
                    )
                    files.append("\(place)\(isWhole ? "" : plugin)\(name).swift")
                }
            }
        }
        return files
    }

    @Test("The tables name every file of every plugin once, and nothing else")
    func files() throws {
        let folder = Self.root.appending(path: "Plugins")
        let there = (FileManager.default.enumerator(atPath: folder.path)?.allObjects as? [String] ?? [])
            .filter { $0.hasSuffix(".swift") }
        let named = try Self.named()
        #expect(there.count > 100)
        #expect(named.count == Set(named).count)
        #expect(Set(named).subtracting(there).sorted() == [], "named, and not there")
        #expect(Set(there).subtracting(named).sorted() == [], "there, and in no role")
    }

    @Test("Every platform has the roles that no plugin can do without")
    func roles() throws {
        let named = Set(try Self.named())
        let plugins = Set(named.compactMap { $0.split(separator: "/").first })
        for plugin in plugins { #expect(named.contains("\(plugin)/\(plugin)Plugin.swift")) }
        for plugin in plugins.subtracting(["Gorush", "ReleaseNotes"]) {
            #expect(named.contains("\(plugin)/\(plugin)Options.swift"))
            #expect(named.contains("\(plugin)/\(plugin)Backend.swift"))
            #expect(named.contains("\(plugin)/\(plugin)Diagnosis.swift"))
            #expect(named.contains("\(plugin)/Answers/\(plugin)Wire.swift"))
            #expect(named.contains("\(plugin)/Answers/\(plugin)Rejections.swift"))
        }
    }

    /// Declarations that stand in the file of their role in every plugin, and in no other file.
    private static let declarations = [
        (declaration: "func diagnose()", role: "Diagnosis"), (declaration: ": PushBackend {", role: "Backend"),
        (declaration: "extension BackendFactory", role: "Plugin"),
    ]

    @Test("A role stands in the file of its name", arguments: declarations)
    func file(declaration: String, role: String) throws {
        for file in try Self.named() where !file.hasPrefix("ReleaseNotes/") {
            let text = try String(contentsOf: Self.root.appending(path: "Plugins/\(file)"), encoding: .utf8)
            guard text.contains(declaration) else { continue }
            let plugin = file.prefix { $0 != "/" }
            #expect(file == "\(plugin)/\(plugin)\(role).swift", "\(declaration)")
        }
    }
}
