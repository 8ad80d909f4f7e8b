import Foundation

/// Adds a plugin to the Chapar tree in the current folder: its files, its targets, and its line of registration.
struct PluginTree {
    private let names: PluginNames
    private let root: String

    /// Makes one; throws when the current folder is not the root of the tree.
    init(_ names: PluginNames) throws {
        self.names = names
        root = FileManager.default.currentDirectoryPath
        guard Self.isRoot(root) else { throw CommandFailure("--here is for the root of the Chapar tree", .usage) }
    }

    /// Returns whether a folder holds the package chapar.
    static func isRoot(_ folder: String) -> Bool {
        let text = try? String(contentsOfFile: folder + "/Package.swift", encoding: .utf8)
        return text?.contains("Package(\n    name: \"chapar\",") == true
    }

    /// Returns the root of the tree that the current folder is in.
    static func rootAbove() -> String? {
        var folder = URL(filePath: FileManager.default.currentDirectoryPath)
        while true {
            if isRoot(folder.path) { return folder.path }
            let parent = folder.deletingLastPathComponent()
            guard parent.path != folder.path else { return nil }
            folder = parent
        }
    }

    /// Writes the files and edits those that list plugins; returns the paths of all.
    func write(_ recipient: PluginRecipient) throws -> [String] {
        let (type, module) = (names.type, "Chapar\(names.type)")
        guard !FileManager.default.fileExists(atPath: "\(root)/Plugins/\(type)") else {
            throw CommandFailure("Plugins/\(type) exists: nothing is written into it", .usage)
        }
        // All edits are made in memory before anything is written.
        let edits = try [
            edit("Package.swift") { text in
                let manifest = text.lowercased()
                for target in names.targets where manifest.contains("\"\(target.lowercased())\"") {
                    throw CommandFailure("Package.swift has a target \(target): take another name.", .usage)
                }
                try insert(&text, #".library(name: "ChaparService", targets: ["ChaparService"]),"#) {
                    $0.replacing("ChaparService", with: module)
                }
                try insert(&text, #"plugin("ChaparService", at: "Service", ["#) { line in
                    "\(line.prefix { $0 == " " })plugin(\"\(module)\", at: \"\(type)\", exclude: [\"Simulator\"]),"
                }
                try insert(&text, #"simulator("ChaparServiceSimulator", at: "Service", ["#) { line in
                    "\(line.prefix { $0 == " " })simulator(\"\(module)Simulator\", at: \"\(type)\"),"
                }
                try insert(&text, #"pluginTests("ChaparServiceTests", ["ChaparService"]),"#) { line in
                    "\(line.prefix { $0 == " " })pluginTests(\"\(module)Tests\", [\"\(module)\", \"\(module)Simulator\"]),"
                }
                try insert(&text, #""ChaparReleaseNotes", "ChaparReleaseNotesCommand", "ChaparService","#) { line in
                    "\(line.prefix { $0 == " " })\"\(module)\", \"\(module)Simulator\","
                }
            },
            edit("Sources/ChaparCommands/Plugin/TakenNames.swift") { text in
                try insert(&text, #""ChaparService", "ChaparServiceSimulator", "ChaparServiceTests","#) { line in
                    line.replacing("ChaparService", with: module)
                }
            },
            edit("Sources/chapar/Plugins.swift") { text in
                try insert(&text, "import ChaparService") { _ in "import \(module)\nimport \(module)Simulator" }
                text = Self.sorted(imports: text)
                try insert(&text, "            .service,") { _ in "            .\(names.member)," }
                let own = "{ \(type)Service() }"
                if text.contains("        simulators: [") {
                    text.replace("        simulators: [", with: "        simulators: [\(own), ")
                } else {
                    try insert(&text, "        ],") { _ in "        simulators: [\(own)]," }
                }
            },
            edit("Plugins/README.md") { text in
                try insert(&text, "| `Service` |") { _ in
                    "| `\(type)` | Plugin Options Backend |  |  |  |  |  |  | Wire Rejections |  | Service |"
                }
            },
        ]
        var written: [String] = []
        for (path, text) in PluginTemplate.swift.filled(names.words, recipient: recipient) {
            guard let place = place(of: path) else { continue }
            try PluginTemplate.write(text, to: "\(root)/\(place)")
            written.append(place)
        }
        for (path, text) in edits {
            do {
                try Data(text.utf8).write(to: URL(filePath: "\(root)/\(path)"), options: .atomic)
            } catch {
                throw CommandFailure("cannot write \(path): \(error.localizedDescription)")
            }
            written.append(path)
        }
        return written
    }

    /// Returns the place of a package's file in the tree; nil for a file that the tree does not need.
    private func place(of path: String) -> String? {
        let (type, file) = (names.type, path.split(separator: "/").last.map(String.init) ?? path)
        switch file {
        case "\(type)Wire.swift", "\(type)Rejections.swift": return "Plugins/\(type)/Answers/\(file)"
        case "\(type)Service.swift": return "Plugins/\(type)/Simulator/\(file)"
        case "\(type)BackendTests.swift": return "Tests/Chapar\(type)Tests/\(file)"
        case "\(type)Plugin.swift", "\(type)Options.swift", "\(type)Backend.swift": return "Plugins/\(type)/\(file)"
        default: return nil
        }
    }

    private func edit(_ path: String, _ change: (inout String) throws -> Void) throws -> (String, String) {
        var text: String
        do {
            text = try String(contentsOfFile: "\(root)/\(path)", encoding: .utf8)
        } catch {
            throw CommandFailure("cannot read \(path): \(error.localizedDescription)")
        }
        do {
            try change(&text)
        } catch let missing as MissingLine {
            throw CommandFailure("\(path) has no line with \(missing.mark): nothing was written")
        }
        return (path, text)
    }

    private struct MissingLine: Error {
        var mark: String
    }

    /// Inserts lines after the first line that contains `mark`.
    private func insert(_ text: inout String, _ mark: String, _ lines: (String) -> String) throws(MissingLine) {
        var all = text.components(separatedBy: "\n")
        guard let index = all.firstIndex(where: { $0.contains(mark) }) else { throw MissingLine(mark: mark) }
        all.insert(lines(all[index]), at: index + 1)
        text = all.joined(separator: "\n")
    }

    /// Returns the text with its imports sorted.
    private static func sorted(imports text: String) -> String {
        let lines = text.components(separatedBy: "\n")
        let imports = Set(lines.filter { $0.hasPrefix("import ") }).sorted()
        return (imports + lines.filter { !$0.hasPrefix("import ") }).joined(separator: "\n")
    }
}
