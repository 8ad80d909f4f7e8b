import Foundation
import PushCore
import PushSandbox
import Testing

/// Holds the README and the articles to what the program does: commands are run, configurations checked, code compared with the examples.
///
/// A block's info string says what is done with it: `console run` (commands after `$`, then what they print), `console start`
/// (a program that stays up), `console make`, `yaml check`, `swift FILE`,
/// `python FILE`, `yaml FILE`. The words after `console run` are the platforms it is about. In printed text `…` stands for anything.
///
/// What is about a platform whose plugin was deleted is left out, and so are pieces of examples that went with it.
@Suite("The README", .timeLimit(.minutes(3)))
struct ReadmeTests {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardizedFileURL

    @Test("Every command prints what the README says")
    func commands() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let blocks = try Block.all(in: Self.root.appending(path: "README.md"))
        var children: [Child] = []
        defer { for child in children { child.kill() } }
        var port = "8080"
        for block in blocks where block.info == "console start" {
            for command in block.commands {
                var words = command.text.split(separator: " ").map(String.init)
                #expect(words.removeFirst() == "chapar")
                if words.first == "sandbox" { words += ["--gateway-port", "0"] }
                let child = try Child(words, in: folder.url)
                children.append(child)
                let last = try #require(command.output.last).replacingOccurrences(of: "8080", with: "…")
                try await Program.wait(command.text) { () -> Bool? in
                    let lines = (child.output + child.errors).split(separator: "\n").map(String.init)
                    return lines.contains { Pattern.matches(last, $0) } ? true : nil
                }
                if let place = child.errors.range(of: " port=") {
                    port = String(child.errors[place.upperBound...].prefix { $0.isNumber })
                }
            }
        }
        #expect(port != "8080", "the gateway must have been started")
        let path =
            Program.url.deletingLastPathComponent().path + ":" + (ProcessInfo.processInfo.environment["PATH"] ?? "")
        let runnable = blocks.filter { $0.info.hasPrefix("console run") }
        #expect(runnable.count >= 8)
        for block in runnable where Platforms.missing.isDisjoint(with: block.words.dropFirst(2)) {
            // One shell for a block, so that a variable lives on; a mark after each command parts their output.
            let script = block.commands.map {
                $0.text.replacingOccurrences(of: "8080", with: port) + "\necho; echo ==="
            }
            .joined(separator: "\n")
            let output = try await Script.run(script, in: folder.url, path: path)
            let parts = output.components(separatedBy: "\n===\n")
            for (command, part) in zip(block.commands, parts) {
                #expect(
                    Pattern.matches(command.output, part.split(separator: "\n").map(String.init)),
                    "\(command.text)\nprinted:\n\(part)\nthe README says:\n\(command.output.joined(separator: "\n"))"
                )
            }
            #expect(parts.count > block.commands.count, "a command ended the shell: \(output)")
        }
    }

    @Test("Every configuration is good")
    func configurations() async throws {
        let blocks = try Block.all(in: Self.root.appending(path: "README.md")).filter { $0.info == "yaml check" }
        #expect(blocks.count == 3)
        try await check(blocks)
    }

    private func check(_ configurations: [Block]) async throws {
        try await SandboxRig.run { rig in
            try rig.sandbox.apns.key.pem.write(
                to: rig.folder.appending(path: "AuthKey.p8"),
                atomically: true,
                encoding: .utf8
            )
            for block in configurations where Platforms.missing.isDisjoint(with: block.kinds) {
                let file = rig.folder.appending(path: "readme.yaml").path
                try block.text.write(toFile: file, atomically: true, encoding: .utf8)
                let result = try await Program.run(["check", "--config", file])
                #expect(result.status == 0, "\(result.errors)")
            }
        }
    }

    @Test("Every piece of code stands in an example, and every make command in the Makefile")
    func code() throws {
        let blocks = try Block.all(in: Self.root.appending(path: "README.md"))
        let pieces = blocks.filter { ["swift ", "python ", "yaml Examples/"].contains(where: $0.info.hasPrefix) }
        #expect(pieces.count >= 3)
        for piece in pieces {
            let file = Self.root.appending(path: try #require(piece.words.last))
            if !Platforms.missing.isEmpty, !FileManager.default.fileExists(atPath: file.path) { continue }
            let example = try String(contentsOf: file, encoding: .utf8)
            #expect(Self.squeezed(example).contains(Self.squeezed(piece.text)), "\(piece.text)")
        }
        let makefile = try String(contentsOf: Self.root.appending(path: "Makefile"), encoding: .utf8)
        for command in blocks.filter({ $0.info == "console make" }).flatMap(\.commands) {
            let target = try #require(command.text.split(separator: " ").last)
            #expect(makefile.contains("\n\(target):"))
        }
    }

    @Test("Every piece of code in an article stands in an example, and every configuration is good")
    func articles() async throws {
        let catalog = Self.root.appending(path: "Sources/PushCore/PushCore.docc")
        let articles = try FileManager.default.contentsOfDirectory(at: catalog, includingPropertiesForKeys: nil)
        let blocks = try articles.filter { $0.pathExtension == "md" }.flatMap { try Block.all(in: $0) }
        let examples = try Self.examples()
        let pieces = blocks.filter { $0.info == "swift" }
        #expect(pieces.count >= 3)
        for piece in pieces where Platforms.missing.isEmpty {
            let text = Self.squeezed(piece.text)
            #expect(examples.contains { $0.contains(text) }, "\(piece.text)")
        }
        try await check(blocks.filter { $0.info == "yaml" })
    }

    /// The sources of all examples, squeezed.
    private static func examples() throws -> [String] {
        let folder = root.appending(path: "Examples")
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects as? [URL]
        return try (files ?? [])
            .filter { $0.pathExtension == "swift" && !$0.pathComponents.contains(".build") }
            .map { squeezed(try String(contentsOf: $0, encoding: .utf8)) }
    }

    /// Lines without their indentation, which an example has more of.
    private static func squeezed(_ text: String) -> String {
        text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.joined(separator: "\n")
    }
}

/// A fenced block of a Markdown file.
struct Block {
    struct Command {
        var text: String
        var output: [String]
    }

    var info: String
    var text: String

    /// The words of the info string.
    var words: [String] { info.split(separator: " ").map(String.init) }

    /// The kinds and the sections of a configuration.
    var kinds: Set<String> {
        let kinds = text.matches(of: /\bkind: (\w+)/).map { String($0.output.1) }
        let sections = text.split(separator: "\n").compactMap {
            $0.firstMatch(of: /^(\w+):/).map { String($0.output.1) }
        }
        return Set(kinds + sections)
    }

    /// The commands of a console block with what they print; a quotation or a `\` carries a command on to the next line.
    var commands: [Command] {
        var commands: [Command] = []
        var isOpen = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if isOpen {
                commands[commands.count - 1].text += "\n" + line
            } else if line.hasPrefix("$ ") {
                commands.append(Command(text: String(line.dropFirst(2)), output: []))
            } else if !commands.isEmpty, !line.isEmpty {
                commands[commands.count - 1].output.append(line)
                continue
            } else {
                continue
            }
            let command = commands[commands.count - 1].text
            isOpen = command.hasSuffix("\\") || command.count(where: { $0 == "'" }) % 2 == 1
        }
        return commands
    }

    static func all(in file: URL) throws -> [Block] {
        var blocks: [Block] = []
        var open: Block?
        for line in try String(contentsOf: file, encoding: .utf8).split(
            separator: "\n",
            omittingEmptySubsequences: false
        ) {
            guard line.hasPrefix("```") else {
                open?.text += line + "\n"
                continue
            }
            if let block = open {
                blocks.append(block)
                open = nil
            } else {
                open = Block(info: String(line.dropFirst(3)), text: "")
            }
        }
        return blocks
    }
}

/// Compares printed text with what a page says, where `…` stands for anything.
private enum Pattern {
    /// A line; blanks count as one.
    static func matches(_ pattern: String, _ line: String) -> Bool {
        var rest = squeezed(line)[...]
        let parts = squeezed(pattern).components(separatedBy: "…")
            .map { $0.trimmingCharacters(in: .whitespaces) }
        for (place, part) in parts.enumerated() where !part.isEmpty {
            let isLast = place == parts.count - 1
            guard let found = rest.range(of: part, options: isLast && place > 0 ? .backwards : []) else { return false }
            if place == 0, found.lowerBound != rest.startIndex { return false }
            rest = rest[found.upperBound...]
            if isLast { return rest.allSatisfy(\.isWhitespace) }
        }
        return true
    }

    /// Lines; a line that is only `…` stands for any number of lines.
    static func matches(_ pattern: [String], _ lines: [String]) -> Bool {
        guard let first = pattern.first else { return lines.isEmpty }
        let others = Array(pattern.dropFirst())
        if first.trimmingCharacters(in: .whitespaces) == "…" {
            return (0...lines.count).contains { matches(others, Array(lines[$0...])) }
        }
        guard let line = lines.first else { return false }
        return matches(first, line) && matches(others, Array(lines.dropFirst()))
    }

    private static func squeezed(_ text: String) -> String {
        text.split(separator: " ").joined(separator: " ")
    }
}

/// Runs a script of a page.
enum Script {
    static func run(_ script: String, in folder: URL, path: String) async throws -> String {
        let file = folder.appending(path: "script-\(UUID().uuidString)")
        let output = FileManager.default.temporaryDirectory.appending(path: "chapar-test-\(UUID().uuidString)")
        try script.write(to: file, atomically: true, encoding: .utf8)
        try Data().write(to: output)
        defer {
            try? FileManager.default.removeItem(at: file)
            try? FileManager.default.removeItem(at: output)
        }
        let process = Process()
        process.executableURL = URL(filePath: "/bin/bash")
        process.arguments = [file.path]
        process.currentDirectoryURL = folder
        var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("CHAPAR_") }
        variables["PATH"] = path
        variables["NO_PROXY"] = "*"  // The gateway is on this machine.
        variables["no_proxy"] = "*"
        process.environment = variables
        let handle = try FileHandle(forWritingTo: output)
        process.standardOutput = handle
        process.standardError = handle
        try process.run()
        defer { if process.isRunning { process.terminate() } }
        try await Program.wait("the end of a script", within: .seconds(90)) { process.isRunning ? nil : true }
        return try String(contentsOf: output, encoding: .utf8)
    }
}
