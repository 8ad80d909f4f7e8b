import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway
import ChaparModules

/// `chapar init`: writes a first configuration, and only one that passes `chapar check`.
struct InitCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "init",
            abstract: "Write a configuration: asks for what each platform needs, or takes it from flags.",
            discussion: """
                On a terminal it asks for what is missing; elsewhere it names it. Nothing is written before everything is there \
                and checked. A file that exists is never replaced; one with the line "backends: {}", as a package brings it, gets \
                the backends in place of that line, and keeps everything else with its owner and mode. Paths of key files are \
                written in full; what is typed as a secret goes to a file of its own that nobody else can read.

                  \(program) init
                  \(program) init --backend ios=apns --set ios.team_id=ABCDE12345 --set ios.key_id=KEY1234567 \
                --set ios.key_file=AuthKey.p8 --set ios.topic=com.example.app --key-file admin.key
                  \(program) init --from gorush.yml --set ios.topic=com.example.app --key-file admin.key

                Exit codes: 0 written, 2 usage or a file that exists, 3 something is missing or wrong.
                """
        )
    }

    @Option(name: .customLong("backend"), help: "A platform: its kind, or NAME=KIND. Repeat it.")
    var backends: [String] = []

    @Option(
        name: .customLong("set"),
        help: "A value, NAME.KEY=VALUE; ${VARIABLE} and ${file:/path} are written as they are. Repeat it."
    )
    var values: [String] = []

    @Option(
        help: "Convert this configuration of gorush; what cannot be converted is named with its line.",
        completion: .file(extensions: ["yml", "yaml", "json"])
    )
    var from: String?

    @Option(help: "The address to listen on; other machines need keys (--key-file). Default: 127.0.0.1.")
    var host: String?

    @Option(help: "The port to listen on. Default: 8080.")
    var port: Int?

    @Option(help: "The database file; relative to the configuration. Default: chapar.db.")
    var store: String?

    @Option(help: "Make an API key with the scope admin and write it to this new file (mode 600).", completion: .file())
    var keyFile: String?

    @Flag(help: "Ask for what is missing although stdin is no terminal.")
    var ask = false

    @OptionGroup var file: ConfigOption
    @OptionGroup var form: OutputForm

    func validate() throws {
        guard (0...65535).contains(port ?? 0) else { throw ValidationError("\(port ?? 0) is not a port: 0 to 65535.") }
    }

    func run() async throws {
        let existing = try existingFile()
        let questions = ask || Shell.isInputTerminal ? Questions() : nil
        let conversion = try converted()
        var draft = ConfigurationDraft(
            existing.map { .file($0) }
                ?? .settings(
                    host: host ?? conversion?.host ?? "127.0.0.1",
                    port: port ?? conversion?.port ?? 8080,
                    store: store ?? "chapar.db"
                )
        )
        conversion?.fill(&draft)
        if conversion == nil || !backends.isEmpty { try choose(into: &draft, questions) }
        for value in values { try draft.set(value) }
        if let conversion { share(&draft, of: conversion) }
        let key = keyFile.map { _ in NewAPIKey() }
        draft.keyLine = key?.line(name: "admin", scopes: ["admin"])
        var secrets: [String] = []
        do {
            for secret in conversion?.secrets ?? [] {
                try SecretFile.write(secret.text, to: secret.path)
                secrets.append(secret.path)
            }
            try complete(&draft, questions, &secrets)
            try write(draft, key, in: existing)
        } catch {
            for secret in secrets { unlink(secret) }
            throw error
        }
        show(draft, conversion, isNew: existing == nil)
    }

    /// Converts the file of `--from` and reports what cannot be converted; nil without one.
    private func converted() throws -> GorushConversion? {
        guard let from else { return nil }
        guard !FileManager.default.fileExists(atPath: file.path) else { throw Self.exists(file.path) }
        let conversion = GorushConversion(
            try GorushFile(from),
            target: file.path,
            hasKey: keyFile != nil,
            hasDoor: GatewayProgram.current.modules.contains { $0.key == "gorush" },
            environment: ProcessInfo.processInfo.environment
        )
        for remark in conversion.remarks { Shell.complain("not converted: \(remark)") }
        guard conversion.stops.isEmpty else { throw ConfigurationError(conversion.stops) }
        return conversion
    }

    /// Gives both backends for Apple one topic, which the file of gorush lacks.
    private func share(_ draft: inout ConfigurationDraft, of conversion: GorushConversion) {
        draft.share("topic", of: "ios", with: "ios-dev")
        draft.share("topic", of: "ios-dev", with: "ios")
        guard conversion.needsTopic, !draft.has("topic", of: "ios") else { return }
        Shell.complain(
            "gorush takes the app's bundle ID from each request: give it with --set ios.topic=com.example.app"
        )
    }

    /// Returns the configuration to which backends are added; nil when a new one is to be written.
    private func existingFile() throws(CommandFailure) -> ConfigurationFile? {
        if let keyFile, FileManager.default.fileExists(atPath: keyFile) { throw Self.exists(keyFile) }
        guard FileManager.default.fileExists(atPath: file.path) else { return nil }
        let existing = try ConfigurationFile(file.path)
        guard existing.takesBackends else { throw Self.exists(file.path) }
        guard host == nil, port == nil, store == nil else {
            throw CommandFailure("\(file.path) exists and says itself where it listens and keeps its store", .usage)
        }
        if keyFile != nil, existing.hasKeys {
            throw CommandFailure("\(file.path) has a section auth already: see keys create", .usage)
        }
        return existing
    }

    private static func exists(_ path: String) -> CommandFailure {
        CommandFailure("\(path) exists: it is not replaced. Give another name, or move it away.", .usage)
    }

    /// Adds the platforms of the flags; without flags, those of the answers to questions.
    private func choose(into draft: inout ConfigurationDraft, _ questions: Questions?) throws {
        let factories = GatewayProgram.current.backends
        var words = backends
        if words.isEmpty {
            guard let questions else { throw ValidationError("Say which platform: --backend KIND, or NAME=KIND.") }
            Shell.complain("Platforms:")
            for factory in factories { Shell.complain("  \(factory.kind.rawValue)  \(factory.summary)") }
            words = try questions.ask("Which (several with a space between)?")
                .split(whereSeparator: { $0.isWhitespace || $0 == "," }).map(String.init)
        }
        for word in words {
            let (name, kind) = word.halves(at: "=") ?? (word, word)
            guard factories.contains(where: { $0.kind.rawValue == kind }) else {
                let kinds = factories.map(\.kind.rawValue)
                let nearest = (try? BackendRegistry(factories))?.nearestKind(to: kind)
                let hint = nearest.map { "Did you mean \"\($0)\"? " } ?? ""
                throw ValidationError("\"\(kind)\" is no platform. \(hint)There are \(kinds.joined(separator: ", ")).")
            }
            guard BackendRegistry.isName(name), draft.add(name, kind: kind) else {
                throw ValidationError("\"\(name)\" is no name, or stands twice. Use letters, digits, - and _.")
            }
        }
        if words.isEmpty { throw ValidationError("Name a platform.") }
    }

    /// Checks the draft, asks for values that are missing or wrong, and checks again, until none is.
    private func complete(
        _ draft: inout ConfigurationDraft,
        _ questions: Questions?,
        _ secrets: inout [String]
    ) throws {
        let loader = try BackendLoader.offline()
        while true {
            do throws(ConfigurationError) {
                try loader.check(draft.text, as: file.path)
                return
            } catch {
                guard let questions else { throw error }
                var isAsked = false
                for issue in error.issues {
                    guard let (name, key) = draft.place(of: issue) else { continue }
                    isAsked = true
                    let value = try answer(to: issue, name, key, questions, &secrets)
                    draft.put(value, name, key)
                }
                if !isAsked { throw error }
            }
        }
    }

    private func answer(
        to issue: ConfigIssue,
        _ name: String,
        _ key: [String],
        _ questions: Questions,
        _ secrets: inout [String]
    ) throws -> String {
        let path = ([name] + key).joined(separator: ".")
        if issue.problem != "is missing" { Shell.complain("\(path) \(issue.problem). \(issue.fix ?? "")") }
        var meaning = issue.problem == "is missing" ? issue.fix?.dropFirst("Write ".count).description : nil
        if meaning?.hasSuffix(".") == true { meaning?.removeLast() }
        // For a secret the question shows how it is written, without the secret itself.
        guard let meaning, meaning.contains("${") else {
            return ConfigurationDraft.absolute(try questions.ask("\(path) (\(meaning ?? "another value")):"), key)
        }
        let words = meaning.firstRange(of: ", as \"").map { String(meaning[..<$0.lowerBound]) } ?? meaning
        let given = try questions.ask("\(path) (\(words)), the secret or a file that holds it:", isHidden: true)
        if FileManager.default.fileExists(atPath: given) { return "${file:\(URL(filePath: given).path)}" }
        let folder = URL(filePath: file.path).deletingLastPathComponent()
        let target = folder.appending(path: "\(path).secret").path
        try SecretFile.write(given + "\n", to: target)
        secrets.append(target)
        // Any reader of the configuration must be able to read this as well: with a package that is the service's user.
        if FileManager.default.fileExists(atPath: file.path) {
            try FileModes.copyAccess(from: file.path, to: target, mask: 0o640)
        }
        Shell.complain("written to \(target)")
        return "${file:\(target)}"
    }

    private func write(_ draft: ConfigurationDraft, _ key: NewAPIKey?, in existing: ConfigurationFile?) throws {
        if let key, let keyFile { try SecretFile.write(key.key.reveal() + "\n", to: keyFile) }
        do throws(CommandFailure) {
            if var existing {
                existing.text = draft.text
                try existing.write()
            } else {
                try SecretFile.write(draft.text, to: file.path)
            }
        } catch {
            if let keyFile { unlink(keyFile) }
            throw error
        }
    }

    private func show(_ draft: ConfigurationDraft, _ conversion: GorushConversion?, isNew: Bool) {
        let backends = draft.backends.map { (name: $0.name, kind: $0.kind) }
        guard !form.isJSON else {
            var result: JSONObject = [
                "file": .string(file.path), "key_file": keyFile.map { .string($0) } ?? .null,
                "backends": .array(backends.map { ["name": .string($0.name), "kind": .string($0.kind)] }),
            ]
            if let conversion { result["not_converted"] = .array(conversion.remarks.map(CheckCommand.json)) }
            return Shell.print(.object(result))
        }
        let program = GatewayProgram.current.name
        Shell.print("\(file.path): \(backends.map { "\($0.name) (\($0.kind))" }.joined(separator: ", ")), checked.")
        if let keyFile { Shell.print("\(keyFile): the API key, for CHAPAR_KEY or --key-file.") }
        Shell.print("next: \(program) doctor --config \(file.path)")
        Shell.print(
            isNew
                ? "      \(program) serve --config \(file.path)"
                : "      then let the gateway read it: systemctl reload \(program), or SIGHUP"
        )
    }
}

/// Questions on stderr with their answers from stdin.
struct Questions {
    /// Asks until there is an answer; an empty line is none.
    ///
    /// Throws when stdin ends.
    func ask(_ question: String, isHidden: Bool = false) throws -> String {
        while true {
            Shell.draw(question + (Shell.isInputTerminal ? " " : "\n"))
            guard let line = isHidden ? Self.hidden() : readLine() else {
                throw CommandFailure("stdin ended before everything was answered; nothing was written", .usage)
            }
            let answer = line.trimmingCharacters(in: .whitespaces)
            if !answer.isEmpty { return answer }
        }
    }

    /// Reads a line that the terminal does not show.
    private static func hidden() -> String? {
        var old = termios()
        guard tcgetattr(STDIN_FILENO, &old) == 0 else { return readLine() }
        var new = old
        new.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(STDIN_FILENO, TCSANOW, &new)
        defer {
            tcsetattr(STDIN_FILENO, TCSANOW, &old)
            Shell.draw("\n")
        }
        return readLine()
    }
}
