import Foundation
import Testing

/// The walks, folders and invariants in docs/Architecture.md are those of the sources.
@Suite(
    "The journeys in the architecture page",
    .timeLimit(.minutes(2)),
    .enabled(if: Platforms.missing.isEmpty, "The page speaks of every plugin.")
)
struct JourneysDocumentTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL
    private static let journeys = ["A notification: accept, deliver, record", "A device: change, outbox, platform"]

    private static func page() throws -> String {
        try String(contentsOf: root.appending(path: "docs/Architecture.md"), encoding: .utf8)
    }

    /// The text under a heading, up to the next of its level.
    private static func section(_ heading: String) throws -> String {
        let parts = try page().components(separatedBy: "\n## ")
        return try #require(parts.first { $0.hasPrefix(heading + "\n") }, "the page has no heading \(heading)")
    }

    /// The paths of sources that a text names.
    private static func paths(in text: some StringProtocol) -> [String] {
        String(text).matches(of: #/`(\w+/[\w/+]+\.swift)`/#).map { String($0.output.1) }
    }

    /// The paths that each step of a numbered list names, in their order.
    private static func steps(of heading: String) throws -> [[String]] {
        try section(heading).split(separator: #/(?m)^\d+\. /#).dropFirst().map { paths(in: $0) }
    }

    /// Module and first folder of a path.
    private static func folder(of path: String) -> (module: String, name: String) {
        let parts = path.split(separator: "/")
        return (String(parts[0]), parts.count > 2 ? String(parts[1]) : "")
    }

    @Test("Every file that the pages name is there")
    func files() throws {
        let columns = try String(contentsOf: Self.root.appending(path: "docs/Columns.md"), encoding: .utf8)
        let named = Self.paths(in: try Self.page() + columns)
        #expect(named.count > 40)
        for path in named {
            let folder = path.hasPrefix("Tests/") || path.hasPrefix("Plugins/") ? "" : "Sources/"
            let file = Self.root.appending(path: folder + path).path
            #expect(FileManager.default.fileExists(atPath: file), "\(path)")
        }
    }

    @Test("A walk has at most 15 steps, each with a file of its own", arguments: journeys)
    func length(journey: String) throws {
        let steps = try Self.steps(of: journey)
        #expect((8...15).contains(steps.count))
        #expect(Set(steps.compactMap(\.first)).count == steps.count)
    }

    /// The modules of the gateway.
    private static let gateway = ["ChaparGateway", "ChaparServer", "ChaparAPI", "ChaparDelivery"]
    private static let stores = ["ChaparStoreSQLite", "ChaparStorePostgres"]

    /// The folders of the gateway's modules, as the page lists them.
    private static func listed() throws -> [String] {
        try section("The folders of the gateway").matches(of: #/(?m)^`(\w+)`: /#).map { String($0.output.1) }
    }

    /// The folders of both stores, as the page lists them.
    private static func listedOfStores() throws -> [String] {
        let line = try #require(try page().split(separator: "\n").first { $0.hasPrefix("A store's folders: ") })
        return line.matches(of: #/`(\w+)`/#).map { String($0.output.1) }
    }

    /// The folders of a module.
    private static func folders(of module: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Sources/\(module)").path)
            .filter { !$0.contains(".") }
    }

    @Test("A walk goes down the folders of each module, as the page lists them", arguments: journeys)
    func order(journey: String) throws {
        let (gateway, stores) = (try Self.listed(), try Self.listedOfStores())
        var last: [String: Int] = [:]
        for path in try Self.steps(of: journey).flatMap({ $0 }) {
            let (module, name) = Self.folder(of: path)
            guard Self.gateway.contains(module) || Self.stores.contains(module) else { continue }
            let listed = Self.gateway.contains(module) ? gateway : stores
            let place = try #require(listed.firstIndex(of: name), "\(path)")
            #expect(last[module, default: 0] <= place, "\(path) stands before a folder that the walk has left")
            last[module] = place
        }
    }

    @Test("A walk returns to no folder that it has left", arguments: journeys)
    func isStraight(journey: String) throws {
        var current: [String: String] = [:]
        var left: Set<String> = []
        for path in try Self.steps(of: journey).flatMap({ $0 }) {
            let module = Self.folder(of: path).module
            let folder = path.split(separator: "/").dropLast().joined(separator: "/")
            if let before = current[module], before != folder { left.insert(before) }
            #expect(!left.contains(folder), "\(path)")
            current[module] = folder
        }
    }

    @Test("A step that names a file of one store names one of the other, in the same folder", arguments: journeys)
    func bothStores(journey: String) throws {
        let steps = try Self.steps(of: journey)
        for step in steps {
            let named = step.map { Self.folder(of: $0) }
            let folders = Self.stores.map { store in named.filter { $0.module == store }.map { $0.name } }
            #expect(folders[0] == folders[1], "\(step)")
        }
        let inStores = steps.filter { step in step.contains { Self.stores.contains(Self.folder(of: $0).module) } }
        #expect(inStores.count >= 3)
    }

    @Test("The folders of the stores are those of the sources")
    func foldersOfStores() throws {
        let listed = try Self.listedOfStores()
        #expect(listed.count == Set(listed).count)
        let there = try Self.stores.flatMap { try Self.folders(of: $0) }
        #expect(Set(listed) == Set(there))
    }

    @Test("The folders of the plugins are those of the sources")
    func foldersOfPlugins() throws {
        let line = try #require(try Self.page().split(separator: "\n").first { $0.hasPrefix("A plugin's folders: ") })
        let listed = Set(line.matches(of: #/`(\w+)`/#).map { String($0.output.1) })
        let plugins = Self.root.appending(path: "Plugins").path
        var found: Set<String> = []
        for plugin in try FileManager.default.contentsOfDirectory(atPath: plugins) where !plugin.contains(".") {
            let names = try FileManager.default.contentsOfDirectory(atPath: "\(plugins)/\(plugin)")
            found.formUnion(names.filter { !$0.contains(".") })
        }
        // A target of its own has a row among the modules.
        #expect(found.subtracting(["SDK", "Command", "Simulator"]).subtracting(listed).sorted() == [])
        #expect(found.count > 8)
    }

    @Test("Every type that the page names is declared")
    func types() throws {
        let manifest = try String(contentsOf: Self.root.appending(path: "Package.swift"), encoding: .utf8)
        var known = Set(manifest.matches(of: #/"(\w+)"/#).map { String($0.output.1) }).union(["Sources", "Tests"])
        for place in ["Sources", "Plugins", "Tests"] {
            let files = try #require(
                FileManager.default.enumerator(at: Self.root.appending(path: place), includingPropertiesForKeys: nil)
            )
            for case let file as URL in files {
                if !file.lastPathComponent.contains(".") { known.insert(file.lastPathComponent) }
                guard file.pathExtension == "swift" else { continue }
                let code = try String(contentsOf: file, encoding: .utf8)
                let types = code.matches(of: #/\b(?:struct|class|enum|protocol|actor|typealias) ([A-Z]\w+)/#)
                known.formUnion(types.map { String($0.output.1) })
            }
        }
        // `XOptions` is the type of each platform.
        let named = Set(try Self.page().matches(of: #/`([A-Z]\w+)`/#).map { String($0.output.1) })
            .filter { !$0.hasPrefix("X") || !known.contains("APNs\($0.dropFirst())") }
        #expect(named.count > 40)
        #expect(named.subtracting(known).sorted() == [], "the page names types that are not there")
    }

    @Test("The folders of the gateway have a text each")
    func folders() throws {
        let names = try Self.gateway.flatMap { try Self.folders(of: $0) }
        #expect(try Self.listed().sorted() == names.sorted())
        #expect(try !Self.page().contains(#/(?m)^##+ [^\n]*\n\n*(?=##)/#), "a heading has no text")
    }

    /// The text of every file of tests, by the file's name.
    private static func suites() throws -> [String: String] {
        var sources: [String: String] = [:]
        let files = try #require(
            FileManager.default.enumerator(at: root.appending(path: "Tests"), includingPropertiesForKeys: nil)
        )
        for case let file as URL in files where file.pathExtension == "swift" {
            let name = file.deletingPathExtension().lastPathComponent
            sources[name, default: ""] += try String(contentsOf: file, encoding: .utf8)
        }
        return sources
    }

    @Test("Each row of what to add where names its test, and every suite that the page names is there")
    func testsOfRows() throws {
        let rows = try Self.section("Where to add what").split(separator: "\n").filter { $0.hasPrefix("| a ") }
        #expect(rows.count >= 9)
        for row in rows {
            let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            #expect(cells.count == 3 && !cells.contains(""), "\(row)")
        }
        let sources = try Self.suites()
        for suite in try Self.page().matches(of: #/`(\w+Tests)[.`]/#).map({ String($0.output.1) }) {
            #expect(sources[suite] != nil, "there is no suite \(suite)")
        }
    }

    @Test("Each of 15 invariants names a test that is there")
    func invariants() throws {
        let lines = try Self.section("Invariants").matches(of: #/(?m)^\d+\. .*`(\w+)\.(\w+)`$/#)
        #expect(lines.count == 15)
        let sources = try Self.suites()
        for line in lines {
            let source = try #require(sources[String(line.output.1)], "there is no suite \(line.output.1)")
            #expect(source.contains("func \(line.output.2)("), "\(line.output.1) has no test \(line.output.2)")
        }
    }

    @Test("The page fits two printed pages")
    func size() throws {
        let words = try Self.page().split(whereSeparator: \.isWhitespace).count
        #expect(words <= 1_500, "\(words) words")
    }
}
