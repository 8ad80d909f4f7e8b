import ArgumentParser
import Foundation
import ChaparCore

/// `chapar manual`: writes the manual pages, made from the help of every command.
struct ManualCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "manual",
        abstract: "Write the manual pages.",
        discussion: "One page for the program and one for each command, section 1, in mdoc.",
        shouldDisplay: false
    )

    @Option(help: "Where the pages go; made when it is not there.", completion: .directory)
    var dir: String

    @OptionGroup var form: OutputForm

    func run() throws {
        let pages = try ManualPages(dump: RootCommand._dumpHelp(), version: GatewayProgram.current.version)
        let folder = URL(filePath: dir)
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            for page in pages.all {
                let file = folder.appending(path: page.file)
                try Data(page.text.utf8).write(to: file, options: .atomic)
                form.isJSON ? Shell.print(["file": .string(file.path)]) : Shell.print(file.path)
            }
        } catch {
            throw CommandFailure("cannot write to \(dir): \(error.localizedDescription)")
        }
    }
}

/// The manual pages of a program, from the description that ArgumentParser makes of it.
struct ManualPages {
    /// The pages, the program's own first.
    let all: [(file: String, text: String)]

    /// Reads the description; `version` stands in every page's footer.
    init(dump: String, version: String) throws {
        let root = try JSONValue(parsing: Array(dump.utf8))["command"] ?? .null
        let name = Self.text(root, "commandName")
        let commands = Self.shown(root["subcommands"])
        let own = Page(
            root,
            of: name,
            version: version,
            others: commands.map { "\(name)-\(Self.text($0, "commandName"))" }
        )
        let pages = commands.map {
            Page($0, of: "\(name)-\(Self.text($0, "commandName"))", version: version, others: [name])
        }
        all = ([own] + pages).map { ("\($0.name).1", $0.text) }
    }

    fileprivate static func text(_ value: JSONValue, _ member: String) -> String { value[member]?.stringValue ?? "" }

    fileprivate static func shown(_ list: JSONValue?) -> [JSONValue] {
        (list?.arrayValue ?? []).filter { $0["shouldDisplay"]?.boolValue != false && $0["commandName"] != "help" }
    }
}

/// The text of one page.
///
/// It is made, in the macros of mdoc, from the description that the argument parser gives of a command. No command is
/// named here, so a new one has its page without a change here.
private struct Page {
    let name: String
    private(set) var text: String

    init(_ command: JSONValue, of name: String, version: String, others: [String]) {
        self.name = name
        text = ".Dd \\&\n.Dt \(name.uppercased()) 1\n.Os \"\(Self.plain(version))\"\n"
        add("Sh", "NAME")
        text += ".Nm \(name)\n.Nd \(Self.plain(ManualPages.text(command, "abstract")))\n"
        add("Sh", "SYNOPSIS")
        synopsis(command, called: name.split(separator: "-", maxSplits: 1).joined(separator: " "))
        add("Sh", "DESCRIPTION")
        paragraphs(ManualPages.text(command, "abstract") + "\n\n" + ManualPages.text(command, "discussion"))
        options(command)
        // The program's page lists its commands; a command's page lists its subcommands.
        if command["superCommands"] == nil {
            add("Sh", "COMMANDS")
            text += ".Bl -tag -width Ds\n"
            for sub in ManualPages.shown(command["subcommands"]) {
                text += ".It Cm \(ManualPages.text(sub, "commandName"))\n"
                text += Self.plain(ManualPages.text(sub, "abstract")) + "\n"
            }
            text += ".El\n"
        } else {
            for sub in ManualPages.shown(command["subcommands"]) {
                let path = name.split(separator: "-", maxSplits: 1).joined(separator: " ")
                let called = "\(path) \(ManualPages.text(sub, "commandName"))"
                add("Sh", called.uppercased())
                synopsis(sub, called: called)
                text += ".Pp\n"
                paragraphs(ManualPages.text(sub, "abstract") + "\n\n" + ManualPages.text(sub, "discussion"))
                options(sub)
            }
        }
        add("Sh", "SEE ALSO")
        text += others.enumerated().map { ".Xr \($1) 1\($0 == others.count - 1 ? "" : " ,")\n" }.joined()
    }

    private mutating func add(_ macro: String, _ title: String) { text += ".\(macro) \(title)\n" }

    private mutating func synopsis(_ command: JSONValue, called name: String) {
        text += ".Nm \(name)\n"
        if !ManualPages.shown(command["subcommands"]).isEmpty { text += ".Ar command\n" }
        for argument in Self.arguments(command) {
            let value = Self.plain(ManualPages.text(argument, "valueName"))
            let dots = argument["isRepeating"]?.boolValue == true ? " ..." : ""
            let isOptional = argument["isOptional"]?.boolValue == true
            let isPositional = ManualPages.text(argument, "kind") == "positional"
            var line = isPositional ? "Ar \(value)\(dots)" : Self.flag(argument)
            if isOptional { line = "Op \(line)" }
            text += ".\(line)\n"
        }
    }

    private mutating func options(_ command: JSONValue) {
        let arguments = Self.arguments(command)
        guard !arguments.isEmpty else { return }
        text += ".Bl -tag -width Ds\n"
        for argument in arguments {
            let isPositional = ManualPages.text(argument, "kind") == "positional"
            let value = Self.plain(ManualPages.text(argument, "valueName"))
            text += ".It \(isPositional ? "Ar \(value)" : Self.flag(argument))\n"
            text += Self.plain(ManualPages.text(argument, "abstract")) + "\n"
            let fallback = ManualPages.text(argument, "defaultValue")
            if !fallback.isEmpty { text += "The default is \(Self.plain(fallback)).\n" }
        }
        text += ".El\n"
    }

    /// Adds text as it is: indented lines are examples.
    private mutating func paragraphs(_ discussion: String) {
        for part in discussion.components(separatedBy: "\n\n") where !part.isEmpty {
            let lines = part.components(separatedBy: "\n")
            let isExample = lines.allSatisfy { $0.hasPrefix("  ") }
            text += isExample ? ".Bd -literal -offset indent\n" : ".Pp\n"
            for line in lines { text += Self.plain(line.trimmingCharacters(in: .whitespaces)) + "\n" }
            if isExample { text += ".Ed\n" }
        }
    }

    private static func arguments(_ command: JSONValue) -> [JSONValue] {
        (command["arguments"]?.arrayValue ?? []).filter {
            $0["shouldDisplay"]?.boolValue != false && !["help", "version"].contains(text($0))
        }
    }

    private static func text(_ argument: JSONValue) -> String {
        argument["preferredName"]?["name"]?.stringValue ?? ""
    }

    /// Returns a flag's names, with the value that it takes.
    private static func flag(_ argument: JSONValue) -> String {
        let names = (argument["names"]?.arrayValue ?? []).map { name in
            let isShort = ManualPages.text(name, "kind") == "short"
            // The macro writes the first dash.
            return "Fl " + (isShort ? "" : "\\-") + plain(ManualPages.text(name, "name"))
        }
        let value =
            ManualPages.text(argument, "kind") == "option"
            ? " Ar \(plain(ManualPages.text(argument, "valueName")))" : ""
        return names.joined(separator: " , ") + value
    }

    /// Returns the text with all macros escaped.
    private static func plain(_ text: String) -> String {
        let line = text.replacing("\\", with: "\\e").replacing("\n", with: " ")
        let ascii = line.unicodeScalars.map { scalar in
            scalar.isASCII
                ? String(scalar) : "\\[u\(String(scalar.value, radix: 16, uppercase: true).leftPadded(to: 4))]"
        }.joined()
        return ascii.hasPrefix(".") || ascii.hasPrefix("'") ? "\\&" + ascii : ascii
    }
}

extension String {
    /// Returns the text, padded on the left with zeros to `length`.
    fileprivate func leftPadded(to length: Int) -> String {
        String(repeating: "0", count: max(0, length - count)) + self
    }
}
