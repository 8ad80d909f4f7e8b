import Foundation
import Testing

/// The table of modules in docs/Architecture.md is what the manifest and the imports say.
@Suite("The table of modules", .timeLimit(.minutes(2)))
struct ModulesDocumentTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    /// A row of the table.
    private struct Module {
        var name: String
        var uses: Set<String>
    }

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    private static func quoted(_ cell: Substring) -> [String] {
        cell.matches(of: /`([^`]+)`/).map { String($0.output.1) }
    }

    private static func table() throws -> [Module] {
        try text("docs/Architecture.md").split(separator: "\n").filter { $0.hasPrefix("| `") }.map { row in
            let cells = row.split(separator: "|")
            let name = try #require(quoted(cells[0]).first)
            // The page says once that all others use the core.
            let core: Set = ["ChaparJSON", "ChaparCore", "chapar"].contains(name) ? [] : ["ChaparCore"]
            return Module(name: name, uses: core.union(quoted(cells[2])))
        }
    }

    /// The row of the simulators, which stand beside what they imitate.
    private static let simulators = "Plugins/*/Simulator"

    /// The modules of the package that the files of a folder import, but for those of the plugins' own and those of a
    /// simulator in it.
    private static func imports(of folder: String) throws -> Set<String> {
        let files = try #require(
            FileManager.default.enumerator(at: root.appending(path: folder), includingPropertiesForKeys: nil)
        )
        var found: Set<String> = []
        let isSimulator = folder.hasSuffix("/Simulator")
        for case let file as URL in files where file.pathExtension == "swift" {
            if !isSimulator, file.path.contains("/Simulator/") { continue }
            let source = try String(contentsOf: file, encoding: .utf8)
            for match in source.matches(of: /(?m)^[@a-z_ ]*import ((?:Chapar|chapar)\w*)$/) {
                found.insert(String(match.output.1))
            }
        }
        return found
    }

    /// Folders below Sources with files in them.
    private static func modules() throws -> Set<String> {
        Set(
            try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Sources").path)
                .filter { try imports(of: "Sources/\($0)") != [] || $0 == "ChaparJSON" }
        )
    }

    /// The folders of simulators.
    private static func simulatorFolders() throws -> [String] {
        let plugins = try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Plugins").path)
        return (plugins.map { "Plugins/\($0)/Simulator" } + ["Sources/ChaparOAuth/Simulator"])
            .filter { FileManager.default.fileExists(atPath: root.appending(path: $0).path) }
    }

    @Test("has every module, once, and each uses only those below it")
    func oneWay() throws {
        let table = try Self.table()
        #expect(Set(table.map(\.name)) == (try Self.modules()).union(["Plugins/", Self.simulators]))
        var below: Set<String> = []
        for module in table.reversed() {
            #expect(module.uses.isSubset(of: below), "\(module.name) uses a module above it")
            #expect(below.insert(module.name).inserted, "\(module.name) is there twice")
        }
    }

    @Test("names, with the text above it, every folder of Sources, and the simulator within one")
    func everyFolder() throws {
        let page = try Self.text("docs/Architecture.md")
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: "Sources").path)
        #expect(folders.count > 20)
        for name in folders + ["ChaparOAuthSimulator"] {
            #expect(page.contains("`\(name)`"), "\(name)")
        }
    }

    @Test("names what the files of a module import")
    func importsOfModules() throws {
        let own = try Self.modules()
        for module in try Self.table() where !["Plugins/", Self.simulators].contains(module.name) {
            var imports = try Self.imports(of: "Sources/\(module.name)")
            if module.name == "chapar" { imports = imports.intersection(own).union(["Plugins/"]) }
            if module.name == "ChaparSandbox" { imports = Self.folded(imports, own) }
            #expect(imports == module.uses, "\(module.name)")
        }
    }

    /// Returns modules with those of the simulators as one.
    private static func folded(_ modules: Set<String>, _ own: Set<String>) -> Set<String> {
        Set(modules.map { own.contains($0) || !$0.hasSuffix("Simulator") ? $0 : simulators })
    }

    @Test("names the most that a simulator imports: no plugin, and no other simulator")
    func importsOfSimulators() throws {
        let row = try #require(try Self.table().first { $0.name == Self.simulators })
        let folders = try Self.simulatorFolders()
        #expect(folders.count > 7)
        for folder in folders {
            let imports = try Self.imports(of: folder)
            #expect(imports.isSubset(of: row.uses), "\(folder)")
            #expect(imports.contains("ChaparSimulator"), "\(folder)")
        }
    }

    @Test("names the most that a plugin imports")
    func importsOfPlugins() throws {
        let row = try #require(try Self.table().first { $0.name == "Plugins/" })
        let own = try Self.modules()
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: "Plugins").path)
        for folder in folders where !folder.hasSuffix(".md") {
            var imports = try Self.imports(of: "Plugins/\(folder)")
            let command = Self.root.appending(path: "Plugins/\(folder)/Command")
            if FileManager.default.fileExists(atPath: command.path) { imports.remove("ChaparCommands") }
            #expect(imports.intersection(own).isSubset(of: row.uses), "\(folder)")
            for other in folders where other != folder {
                #expect(!imports.contains("Chapar\(other)"), "\(folder) imports \(other)")
            }
        }
    }

    @Test("agrees with the manifest")
    func manifest() throws {
        let own = try Self.modules()
        let blocks = try Self.text("Package.swift").split(separator: /(?m)^ {8}(?=[.a-z])/)
        for module in try Self.table() where !["Plugins/", Self.simulators].contains(module.name) {
            let block = try #require(
                blocks.first {
                    $0.contains(/^\.(target|executableTarget)\(\s*name: "(\w+)"/)
                        && $0.contains("name: \"\(module.name)\"") && !$0.hasPrefix(".library")
                },
                "\(module.name) is no target"
            )
            let names = Set(block.matches(of: /"(\w+)"/).map { String($0.output.1) }).intersection(own)
            #expect(names.subtracting([module.name]) == module.uses.intersection(own), "\(module.name)")
        }
    }
}
