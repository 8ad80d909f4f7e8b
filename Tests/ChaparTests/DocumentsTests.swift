import Foundation
import ChaparCore
import ChaparSandbox
import Testing

/// Holds the README and the pages under docs/ to what the program does: commands are run, configurations checked, code
/// compared with the examples.
///
/// A block's info string says what is done with it:
///
/// | info | what is done |
/// | --- | --- |
/// | `sh run PLATFORM …` | each command is run, and what it prints compared with the lines below it, which begin with `# ` and where `…` stands for anything |
/// | `sh start` | started before, in the README; another page may show the same command |
/// | `sh make` | the target stands in the Makefile |
/// | `sh shown` | nothing here: it needs a machine of its own |
/// | `json received PLATFORM` | the simulator's inbox has an entry with these members, after the commands before it |
/// | `json not received PLATFORM` | the simulator's inbox has no such entry |
/// | `sh clients`, `sh java` | `.ci/clients` runs it, with `--java` the second |
/// | `yaml check` | `chapar check` takes it |
/// | `swift`, `swift FILE`, `python FILE`, `javascript FILE`, `kotlin FILE`, `java FILE`, `yaml FILE`, `nginx FILE`, `caddy FILE` | stands in the example, or in any |
/// | `swift manifest` | the products that it names are products of the package |
/// | `http` | a method, a path and a body: the API has the route, and the body is JSON |
/// | `json` | is JSON |
/// | `mermaid`, `text` | nothing |
///
/// What is about a platform whose plugin was deleted is left out, and so are pieces of examples that went with it.
@Suite("The documents", .timeLimit(.minutes(4)))
struct DocumentsTests {
    static let root = Page.root

    /// Pages with commands that nothing runs, and what it would take.
    private static let shown = ["docs/platforms/ReleaseNotes.md": "a browser"]

    @Test("Every command prints what its page says")
    func commands() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let pages = try Page.all()
        let readme = try #require(pages.first { $0.path == "README.md" })
        var children: [Child] = []
        defer { for child in children { child.kill() } }
        var port = "8080"
        var control = ""
        for command in readme.blocks.filter({ $0.isShell("start") }).flatMap(\.commands) {
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
            if let line = child.output.split(separator: "\n").first(where: { $0.hasPrefix("control ") }) {
                control = String(line.split(separator: " ").last ?? "")
            }
        }
        #expect(port != "8080", "the gateway must have been started")
        #expect(control.hasPrefix("http://"), "the sandbox must say where its control API is")
        for page in pages {
            var isRun = false
            for block in page.blocks {
                if block.isShell("run") {
                    isRun = Platforms.missing.isDisjoint(with: block.words.dropFirst(2))
                    if isRun { try await Self.run(block, of: page.path, port: port, in: folder.url) }
                } else if isRun, block.words.contains("received") {
                    try await Self.look(block, of: page.path, control: control, in: folder.url)
                }
            }
        }
    }

    /// Holds the inbox of a simulator to a block: it has the entry, or for `not received` it has none.
    private static func look(_ block: Block, of page: String, control: String, in folder: URL) async throws {
        let platform = try #require(block.words.last)
        let wanted = try JSONValue(parsing: Array(block.text.utf8))
        let isWanted = block.info.hasPrefix("json received")
        let script = "curl -s --noproxy '*' '\(control)/\(platform)/inbox?limit=1000'"
        var text = ""
        var isThere = false
        let deadline = ContinuousClock.now + .seconds(isWanted ? 30 : 0)
        repeat {
            text = try await Script.run(script, in: folder, path: "/usr/bin:/bin")
            let items = try JSONValue(parsing: Array(text.utf8))["items"]?.arrayValue ?? []
            isThere = items.contains { Inbox.holds($0, wanted) }
            if isThere != isWanted { try await Task.sleep(for: .milliseconds(100)) }
        } while isThere != isWanted && ContinuousClock.now < deadline
        #expect(isThere == isWanted, "\(page): \(block.info)\n\(block.text)\nThe inbox of \(platform):\n\(text)")
    }

    /// Runs the commands of a block: one shell, so that a variable lives on; a mark after each command parts their
    /// output.
    private static func run(_ block: Block, of page: String, port: String, in folder: URL) async throws {
        let path =
            Program.url.deletingLastPathComponent().path + ":" + (ProcessInfo.processInfo.environment["PATH"] ?? "")
        let script = block.commands.map {
            $0.text.replacingOccurrences(of: "8080", with: port) + "\necho; echo ==="
        }
        .joined(separator: "\n")
        let output = try await Script.run(script, in: folder, path: path)
        let parts = output.components(separatedBy: "\n===\n")
        for (command, part) in zip(block.commands, parts) {
            #expect(
                Pattern.matches(command.output, part.split(separator: "\n").map(String.init)),
                "\(page): \(command.text)\nprinted:\n\(part)\nthe page says:\n\(command.output.joined(separator: "\n"))"
            )
        }
        #expect(parts.count > block.commands.count, "\(page): a command ended the shell: \(output)")
    }

    @Test("Every block says what is done with it, and every program that a page starts is one of the README's")
    func infos() throws {
        let pages = try Page.all()
        let started = pages.filter { $0.path == "README.md" }.flatMap(\.blocks)
            .filter { $0.isShell("start") }.flatMap(\.commands).map(\.text)
        #expect(started.count == 2)
        let known =
            #/sh run( \w+)*|sh (start|make|shown|clients|java)|json (not )?received \w+|yaml check|yaml \S+\.yaml|(nginx|caddy) deploy/\S+|swift|swift \S+\.swift|swift manifest|python \S+\.py|javascript \S+\.mjs|kotlin \S+\.kt|java \S+\.java|http|json|mermaid|text/#
        for page in pages {
            let fences = page.text.split(separator: "\n").count { $0.drop { $0 == " " }.hasPrefix("```") }
            #expect(fences == 2 * page.blocks.count, "\(page.path): a block is not closed")
            for block in page.blocks {
                let isKnown = block.info.wholeMatch(of: known) != nil
                #expect(isKnown || Self.shown[page.path] != nil, "\(page.path): a block \"\(block.info)\"")
                let isMarked = block.text.split(separator: "\n").contains { $0.hasPrefix("$ ") }
                #expect(!isMarked, "\(page.path): a command with a mark before it cannot be copied: \(block.text)")
                if block.isShell("start") {
                    for command in block.commands { #expect(started.contains(command.text), "\(page.path)") }
                }
            }
        }
    }

    @Test("Every configuration is good")
    func configurations() async throws {
        let pages = try Page.all()
        #expect(pages.flatMap(\.blocks).count { $0.info == "yaml check" } >= 3)
        try await SandboxRig.run { rig in
            try rig.writeSampleFiles()
            for page in pages {
                for block in page.blocks where block.info == "yaml check" {
                    guard Platforms.missing.isDisjoint(with: block.kinds) else { continue }
                    let file = rig.folder.appending(path: "page.yaml").path
                    try block.text.write(toFile: file, atomically: true, encoding: .utf8)
                    let result = try await Program.run(["check", "--config", file])
                    #expect(result.status == 0, "\(page.path): \(result.errors)")
                }
            }
        }
    }

    @Test("Every piece of code stands in an example, and every make command in the Makefile")
    func code() throws {
        let examples = try Self.examples()
        let manifest = try String(contentsOf: Self.root.appending(path: "Package.swift"), encoding: .utf8)
        let makefile = try String(contentsOf: Self.root.appending(path: "Makefile"), encoding: .utf8)
        for page in try Page.all() {
            for block in page.blocks {
                let text = Self.squeezed(block.text)
                switch (block.words.first, block.words.last) {
                case ("swift", "manifest") where Platforms.missing.isEmpty:
                    for product in block.text.matches(of: #/name: "(\w+)", package: "chapar"/#) {
                        #expect(manifest.contains("(name: \"\(product.output.1)\""), "\(page.path)")
                    }
                case ("swift", "swift") where Platforms.missing.isEmpty:
                    #expect(examples.contains { $0.contains(text) }, "\(page.path): \(block.text)")
                case ("swift", let name?) where name != "swift", ("python", let name?), ("java", let name?),
                    ("kotlin", let name?), ("javascript", let name?), ("nginx", let name?), ("caddy", let name?),
                    ("yaml", let name?) where name != "check":
                    let file = Self.root.appending(path: name)
                    if !Platforms.missing.isEmpty, !FileManager.default.fileExists(atPath: file.path) { continue }
                    let example = Self.squeezed(try String(contentsOf: file, encoding: .utf8))
                    #expect(example.contains(text), "\(page.path): \(block.text)")
                case ("sh", "make"):
                    for command in block.commands {
                        let words = command.text.split(separator: " ").drop { $0 == "sudo" }
                        let target = try #require(words.dropFirst().first)
                        #expect(makefile.contains("\n\(target):"), "\(page.path)")
                    }
                default: break
                }
            }
        }
    }

    @Test("Every request goes to a route of the API, and every piece of JSON is JSON")
    func requests() throws {
        let file = Self.root.appending(path: "Sources/ChaparServer/OpenAPI/openapi.json")
        let description = try JSONValue(parsing: [UInt8](Data(contentsOf: file)))
        let paths = (description["paths"]?.objectValue ?? [:]).members
        for page in try Page.all() {
            for block in page.blocks where block.info == "json" || block.info == "http" {
                var lines = block.text.split(separator: "\n").map(String.init)
                if block.info == "http" {
                    let words = lines.removeFirst().split(separator: " ").map(String.init)
                    try #require(words.count == 2, "\(page.path): \(block.text)")
                    let path = words[1].prefix { $0 != "?" }.split(separator: "/")
                    let route = paths.first { route in
                        let parts = route.name.split(separator: "/")
                        return parts.count == path.count
                            && zip(parts, path).allSatisfy { $0 == $1 || $0.hasPrefix("{") }
                    }
                    #expect(route?.value[words[0].lowercased()] != nil, "\(page.path): \(words)")
                }
                let text = lines.joined(separator: "\n")
                guard !text.isEmpty else { continue }
                #expect(throws: Never.self, "\(page.path): \(text)") { try JSONValue(parsing: Array(text.utf8)) }
            }
        }
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

extension SandboxRig {
    /// The files that the configurations of the pages name, beside those that the sandbox wrote.
    func writeSampleFiles() throws {
        let server = try SandboxCertificateAuthority().serverIdentity()
        for (name, text) in [
            ("AuthKey.p8", sandbox.apns.key.pem), ("server.pem", server.certificatePEM),
            ("server.key", server.privateKeyPEM),
            ("huawei.json", sandbox.hms.serviceAccountFile),
        ] {
            try text.write(to: folder.appending(path: name), atomically: true, encoding: .utf8)
        }
    }
}

/// A fenced block of a Markdown file.
struct Block: Sendable {
    struct Command: Sendable {
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

    /// Whether it holds commands of this use: `run`, `start` or `make`.
    func isShell(_ use: String) -> Bool {
        let words = words
        return words.count > 1 && words[0] == "sh" && words[1] == use
    }

    /// The commands of a block with what they print, which begins with `#`; a quotation or a `\` carries a command on to
    /// the next line.
    var commands: [Command] {
        var commands: [Command] = []
        var isOpen = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if isOpen {
                commands[commands.count - 1].text += "\n" + line
            } else if !line.isEmpty, !line.hasPrefix("#") {
                commands.append(Command(text: line, output: []))
            } else if !commands.isEmpty, line.count > 2 {
                commands[commands.count - 1].output.append(String(line.dropFirst(2)))
                continue
            } else {
                continue
            }
            let command = commands[commands.count - 1].text
            isOpen = command.hasSuffix("\\") || command.count(where: { $0 == "'" }) % 2 == 1
        }
        return commands
    }

    /// The blocks of a page; those of a list stand further in.
    static func all(in text: String) -> [Block] {
        var blocks: [Block] = []
        var open: (block: Block, indent: Int)?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let start = line.drop { $0 == " " }
            guard start.hasPrefix("```") else {
                let indent = min(open?.indent ?? 0, line.count - start.count)
                open?.block.text += line.dropFirst(indent) + "\n"
                continue
            }
            if let block = open?.block {
                blocks.append(block)
                open = nil
            } else {
                open = (Block(info: String(start.dropFirst(3)), text: ""), line.count - start.count)
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

/// Compares what a simulator received with what a page says.
private enum Inbox {
    /// Whether a value has the other one: an object has at least its members, anything else is equal.
    ///
    /// Simulators keep some payloads as text: it is read as JSON where the page shows an object.
    static func holds(_ value: JSONValue, _ wanted: JSONValue) -> Bool {
        guard let members = wanted.objectValue else { return value == wanted }
        let read = value.stringValue.flatMap { try? JSONValue(parsing: Array($0.utf8)) } ?? value
        guard let object = read.objectValue else { return false }
        return members.allSatisfy { name, inner in object[name].map { holds($0, inner) } ?? false }
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
