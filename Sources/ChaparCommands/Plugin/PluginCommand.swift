import ArgumentParser
import Foundation
import ChaparCore

/// `chapar plugin`: commands for the author of a plugin.
struct PluginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plugin",
        abstract: "Begin a platform of your own.",
        subcommands: [PluginNewCommand.self]
    )
}

extension PluginAuth: ExpressibleByArgument {}
extension PluginRecipient: ExpressibleByArgument {}

/// `chapar plugin new`: writes a package with a plugin that builds and passes the conformance kit at once.
struct PluginNewCommand: ParsableCommand {
    /// The language that a plugin is written in.
    enum Language: String, ExpressibleByArgument, CaseIterable {
        case swift, python
    }

    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "new",
            abstract: "Write a package with a backend, its simulator, tests and a gateway program.",
            discussion: """
                The package builds and its tests pass as it is; then the made-up platform's words are replaced, in the order that its
                README.md says. With --here the plugin becomes a part of the Chapar tree in the current folder. With --language
                python it is a service behind the backend http.

                  \(program) plugin new pager --chapar ../chapar
                  \(program) plugin new pager --language python
                  \(program) plugin new pager --recipient url --auth oauth2
                """
        )
    }

    @Argument(help: "The platform's name: letters, digits and -, such as pager or MyChat.")
    var name: String

    @Option(help: "swift or python.")
    var language = Language.swift

    @Option(help: "How the platform knows the account: key, or oauth2 for access tokens.")
    var auth = PluginAuth.key

    @Option(help: "What a recipient is: word, or url for an address to connect to, as with Web Push and WNS.")
    var recipient = PluginRecipient.word

    @Option(help: "The folder to write, which must not be there. Default: push-NAME.", completion: .directory)
    var dir: String?

    @Option(help: "What the gateway program is called. Default: NAME-gateway.")
    var program: String?

    @Option(help: "Where Chapar is: a folder or a git URL. Default: the tree that holds the current folder.")
    var chapar: String?

    @Flag(help: "Write a target into the Chapar tree in the current folder, and register it.")
    var here = false

    @OptionGroup var form: OutputForm

    func validate() throws {
        _ = try PluginNames(name, program: program)
        if auth != .key, here || language == .python {
            throw ValidationError("--auth oauth2 goes with a package in Swift: leave --here or --language python out.")
        }
        if recipient != .word, language == .python {
            throw ValidationError("--recipient url goes with a plugin in Swift: leave --language python out.")
        }
        if here, language == .python || dir != nil || program != nil || chapar != nil {
            throw ValidationError("--here takes no --language python, --dir, --program or --chapar.")
        }
    }

    func run() throws {
        let names = try PluginNames(name, program: program)
        let written = here ? try PluginTree(names).write(recipient) : try writePackage(names)
        for file in written where form.isJSON { Shell.print(["file": .string(file)]) }
        if form.isJSON { return }
        for file in written { Shell.print(file) }
        Shell.print("")
        switch (here, language) {
        case (true, _):
            Shell.print(
                "next: swift test --filter Chapar\(names.type)Tests, then the files of Plugins/\(names.type), then .ci/docs --write"
            )
        case (_, .swift): Shell.print("next: swift test --package-path \(folder(names)), then its README.md")
        case (_, .python): Shell.print("next: cd \(folder(names)) && python3 -m unittest, then its README.md")
        }
    }

    private func folder(_ names: PluginNames) -> String { dir ?? "push-\(names.kind)" }

    private func writePackage(_ names: PluginNames) throws -> [String] {
        let folder = folder(names)
        guard !FileManager.default.fileExists(atPath: folder) else {
            throw CommandFailure("\(folder) exists: nothing is written into it. Give another with --dir.", .usage)
        }
        let template: PluginTemplate
        switch language {
        case .python: template = .python
        case .swift: template = .swift
        }
        var words = names.words
        words["chapar"] = language == .swift ? try dependency(of: folder) : ""
        return try template.filled(words, auth: auth, recipient: recipient).map { path, text in
            let file = "\(folder)/\(path)"
            try PluginTemplate.write(text, to: file)
            return file
        }
    }

    /// Returns the manifest's line that names Chapar.
    private func dependency(of folder: String) throws -> String {
        if let chapar, chapar.contains("://") || chapar.hasPrefix("git@") {
            return ".package(url: \(JSONValue.string(chapar).text), branch: \"main\")"
        }
        let root: String
        if let chapar {
            guard PluginTree.isRoot(chapar) else { throw CommandFailure("\(chapar) holds no package chapar", .usage) }
            root = chapar
        } else {
            guard let found = PluginTree.rootAbove() else {
                throw CommandFailure("say where Chapar is: --chapar, a folder or a git URL", .usage)
            }
            root = found
        }
        let path = PluginTemplate.path(from: folder, to: root)
        return ".package(name: \"chapar\", path: \(JSONValue.string(path).text))"
    }
}
