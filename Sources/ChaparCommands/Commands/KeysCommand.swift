import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway

/// `chapar keys`: commands on the API keys of a gateway.
///
/// Keys live in the configuration file, as hashes.
struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Make, list, rotate and revoke the API keys of a configuration; show their use at a running gateway.",
        subcommands: [
            Create.self, List.self, Rotate.self, Retire.self, Revoke.self, KeysOwnCommand.self, KeysUseCommand.self,
        ]
    )

    /// `chapar keys create`: makes an API key.
    ///
    /// It is shown once; only its hash goes into the file.
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create",
            abstract: "Make a key: prints it once, and the line for auth.api_keys; --write adds the line.",
            discussion: "The key is never stored. With --key-file it goes to a file of its owner instead of the screen."
        )

        @Option(help: "A name for logs: letters, digits, - and _.")
        var name: String

        @Option(
            name: .customLong("scope"),
            help: "What it may be used for. Repeat it."
        )
        var scopes: [Scope] = [.send, .read]

        @Option(help: "Write the key to this new file (mode 600) instead of printing it.", completion: .file())
        var keyFile: String?

        @Flag(inversion: .prefixedNo, help: "Add the line to the configuration file.")
        var write = false

        @OptionGroup var file: ConfigOption
        @OptionGroup var form: OutputForm

        func validate() throws {
            guard BackendRegistry.isName(name) else {
                throw ValidationError("\"\(name)\" is not a name. Use letters, digits, - and _, at most 64.")
            }
        }

        func run() async throws {
            let new = NewAPIKey()
            let key = new.key.reveal()
            let words = scopes.map(\.rawValue)
            let line = new.line(name: name, scopes: words)
            let edited = write ? try edited(new, words) : nil
            if let keyFile { try SecretFile.write(key + "\n", to: keyFile) }
            if let edited { try KeysCommand.write(edited, orRemove: keyFile) }
            if form.isJSON {
                var result: JSONObject = [
                    "name": .string(name), "key": keyFile == nil ? .string(key) : .null, "hash": .string(new.hash),
                    "scopes": .array(words.map { .string($0) }), "line": .string(line),
                ]
                if write { result["file"] = .string(file.path) }
                return Shell.print(.object(result))
            }
            Shell.print("Key, shown this once:     \(keyFile.map { "written to \($0)" } ?? key)")
            Shell.print("Line for auth.api_keys:   \(line)")
            Shell.print(
                write
                    ? "\(file.path) has the line now. Reload: kill -HUP <pid of serve>"
                    : "No file was changed. Put the line into the configuration, or let --write do it."
            )
        }

        /// Returns the configuration with the new key; throws unless it has that one more, and all others as before.
        private func edited(_ new: NewAPIKey, _ words: [String]) throws -> ConfigurationFile {
            let before = try file.load().configuration
            guard !before.apiKeys.contains(where: { $0.name == name }) else {
                throw CommandFailure(
                    "\(file.path) has a key \"\(name)\" already: give it a new value with keys rotate",
                    .usage
                )
            }
            var text = try ConfigurationFile(file.path)
            let isJSON = text.text.first { !$0.isWhitespace } == "{"
            let entry = new.line(name: name, scopes: words).dropFirst(2)
            try text.add(key: isJSON ? new.json(name: name, scopes: words) : String(entry))
            let hashes = [String(new.hash.dropFirst(7))]
            try KeysCommand.check(text, has: KeysCommand.hashes(before.apiKeys).merging([name: hashes]) { $1 })
            if FirstKey.isNeeded(before) {
                Shell.complain("the first key, which the gateway made, opens nothing after the reload")
            }
            return text
        }
    }

    /// `chapar keys list`: lists the keys of a configuration.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the keys of a configuration, with the beginning of their hashes."
        )

        @OptionGroup var file: ConfigOption
        @OptionGroup var form: OutputForm

        func run() async throws {
            let configuration = try file.load().configuration
            var keys = configuration.apiKeys
            if FirstKey.isNeeded(configuration), configuration.store.kind == .sqlite,
                let first = try FirstKey.read(
                    FirstKey.path(of: configuration.store),
                    unreadable: "run the command as the gateway's user"
                )
            {
                keys = [FirstKey.entry(first)]
            }
            if form.isJSON {
                for key in keys {
                    Shell.print([
                        "name": .string(key.name), "hash": .array(key.hashes.map { .string("sha256:" + $0) }),
                        "scopes": .array(key.scopes.map(\.rawValue).sorted().map { .string($0) }),
                    ])
                }
                return
            }
            var table = TextTable("NAME", "SCOPES", "BACKENDS", "NOT AFTER", "HASH")
            for key in keys {
                let scopes = key.scopes.map(\.rawValue).sorted().joined(separator: ",")
                table.add(
                    key.name,
                    scopes,
                    key.backends?.sorted().joined(separator: ",") ?? "all",
                    key.notAfter.map(RFC3339.string) ?? "",
                    key.hashes.map { "sha256:\($0.prefix(8))…" }.joined(separator: " ")
                )
            }
            keys.isEmpty
                ? Shell.complain(
                    "\(file.path) has no keys: "
                        + (configuration.isKeyless
                            ? "auth.keyless lets every program on the machine in." : "the first start makes one.")
                ) : table.print()
        }
    }

    /// `chapar keys rotate`: gives a key a second value beside the one in use, so that callers change over without a
    /// gap.
    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rotate",
            abstract: "Give a key a new value beside the one in use, until you retire that; --write changes the file.",
            discussion: """
                With --write the key's hash in the configuration file becomes a list of both, and nothing else changes in it; \
                without it the list is printed, and no file is edited. Then reload (kill -HUP), \
                give callers the new value, and look with "chapar keys list" and GET /v1/keys before you run "chapar keys retire".
                """
        )

        @Argument(help: "The key's name.", completion: NameCompletion.keys.kind)
        var name: String

        @Option(help: "Write the key to this new file (mode 600) instead of printing it.", completion: .file())
        var keyFile: String?

        @Flag(inversion: .prefixedNo, help: "Change the configuration file.")
        var write = false

        @OptionGroup var file: ConfigOption
        @OptionGroup var form: OutputForm

        func run() async throws {
            let old = try KeysCommand.key(name, in: file).hashes
            let new = NewAPIKey()
            var text = try ConfigurationFile(file.path)
            let hashes = [String(new.hash.dropFirst(7)), old[0]]
            try text.replace(hashes: old, with: hashes)
            try KeysCommand.check(text, key: name, has: hashes)
            if let keyFile { try SecretFile.write(new.key.reveal() + "\n", to: keyFile) }
            if write { try KeysCommand.write(text, orRemove: keyFile) }
            if form.isJSON {
                var result: JSONObject = [
                    "name": .string(name), "key": keyFile == nil ? .string(new.key.reveal()) : .null,
                    "hash": .string(new.hash), "hashes": .array(hashes.map { .string("sha256:" + $0) }),
                ]
                if write { result["file"] = .string(file.path) }
                return Shell.print(.object(result))
            }
            Shell.print("New key, shown this once: \(keyFile.map { "written to \($0)" } ?? new.key.reveal())")
            Shell.print(
                write
                    ? "\(file.path) has both now. Reload: kill -HUP <pid of serve>; in the end: chapar keys retire \(name)"
                    : "No file was changed. The key's hash becomes \(KeysCommand.list(hashes)); or let --write do it."
            )
        }
    }

    /// `chapar keys retire`: ends a rotation.
    struct Retire: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "retire",
            abstract: "End a key's rotation, so that only its newest value opens; --write changes the file.",
            discussion: "Without --write the hash to keep is printed, and no file is edited. Then reload (kill -HUP)."
        )

        @Argument(help: "The key's name.", completion: NameCompletion.keys.kind)
        var name: String

        @Flag(inversion: .prefixedNo, help: "Change the configuration file.")
        var write = false

        @OptionGroup var file: ConfigOption
        @OptionGroup var form: OutputForm

        func run() async throws {
            let hashes = try KeysCommand.key(name, in: file).hashes
            guard hashes.count > 1 else { throw CommandFailure("the key \"\(name)\" has one value only") }
            var text = try ConfigurationFile(file.path)
            try text.replace(hashes: hashes, with: [hashes[0]])
            try KeysCommand.check(text, key: name, has: [hashes[0]])
            if write { try text.write() }
            if form.isJSON {
                Shell.print(["name": .string(name), "retired": .integer(Int64(write ? hashes.count - 1 : 0))])
            } else {
                Shell.print(
                    write
                        ? "\(file.path) has the newest value only. Reload: kill -HUP <pid of serve>"
                        : "No file was changed. The key's hash becomes \(KeysCommand.list([hashes[0]])); or let --write do it."
                )
            }
        }
    }

    /// `chapar keys revoke`: names the entry to remove, or removes it.
    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Find the entry of a key, so that you can remove it and reload; --write removes it.",
            discussion: """
                Without --write the file is not edited: comments and templates in it are yours. What was sent with the key and waits \
                still goes out; "chapar cancel --key NAME" with a key of the scope "admin" ends it.
                """
        )

        @Argument(help: "The key's name.", completion: NameCompletion.keys.kind)
        var name: String

        @Flag(inversion: .prefixedNo, help: "Remove the entry from the configuration file.")
        var write = false

        @OptionGroup var file: ConfigOption
        @OptionGroup var form: OutputForm

        func run() async throws {
            let loaded = try file.load()
            let entry = loaded.settings.first {
                $0.path.hasPrefix("auth.api_keys[") && $0.path.hasSuffix(".name") && $0.value == name
            }
            guard let entry else { throw KeysCommand.unknown(name, loaded, file) }
            let position = "\(entry.origin.file):\(entry.origin.line)"
            if write { try remove(entry, from: loaded) }
            if form.isJSON {
                var result: JSONObject = [
                    "name": .string(name), "path": .string(String(entry.path.dropLast(5))),
                    "file": .string(entry.origin.file), "line": .integer(Int64(entry.origin.line)),
                ]
                if write { result["removed"] = true }
                Shell.print(.object(result))
            } else {
                let what = "the entry \(entry.path.dropLast(5)) at \(position)"
                Shell.print(
                    write
                        ? "Removed \(what). Reload: kill -HUP <pid of serve>"
                        : "Remove \(what), then reload: kill -HUP <pid of serve>. No file was changed; --write removes it."
                )
                Shell.print(
                    "What was sent with it and waits still goes out, scheduled messages included. "
                        + "After the reload this ends it: chapar cancel --key \(name)"
                )
            }
        }

        /// Removes the entry from the file, unless anything but this key would change.
        private func remove(_ entry: ConfigReport.Setting, from loaded: LoadedConfiguration) throws {
            var kept = KeysCommand.hashes(loaded.configuration.apiKeys)
            kept[name] = nil
            guard !kept.isEmpty else {
                throw CommandFailure(
                    "\"\(name)\" is the only key: make another one first (keys create --write), or remove it by hand",
                    .usage
                )
            }
            var text = try ConfigurationFile(file.path)
            try text.removeEntry(at: entry.origin.line)
            try KeysCommand.check(text, has: kept)
            try text.write()
        }
    }

    /// A scope, as an argument.
    enum Scope: String, ExpressibleByArgument, CaseIterable {
        case send, broadcast, devices, read
        case readAll = "read_all"
        case readContent = "read_content"
        case metrics, webhooks, admin
    }

    /// Returns the key of this name in a configuration.
    private static func key(_ name: String, in file: ConfigOption) throws -> GatewayConfiguration.APIKey {
        let loaded = try file.load()
        guard let key = loaded.configuration.apiKeys.first(where: { $0.name == name }) else {
            throw unknown(name, loaded, file)
        }
        return key
    }

    /// Throws when a changed file would not give the key these hashes: one stands in a list over several lines, or
    /// behind an anchor.
    private static func check(_ text: ConfigurationFile, key name: String, has hashes: [String]) throws {
        let loaded = try? BackendLoader.offline().check(text.text, as: text.path)
        let key = loaded?.configuration.apiKeys.first { $0.name == name }
        guard key?.hashes != hashes else { return }
        throw CommandFailure(
            "the hash of the key \"\(name)\" cannot be replaced where it stands, and \(text.path) was left as it is: write it as one text or "
                + "as a list in one line, hash: [\"sha256:…\"], and run the command again",
            .usage
        )
    }

    /// Returns the hashes of each key by its name.
    private static func hashes(_ keys: [GatewayConfiguration.APIKey]) -> [String: [String]] {
        Dictionary(keys.map { ($0.name, $0.hashes) }) { $1 }
    }

    /// Throws when a changed file would not have exactly these keys.
    private static func check(_ text: ConfigurationFile, has keys: [String: [String]]) throws {
        let loader = try BackendLoader.offline()
        let loaded: LoadedConfiguration
        do throws(ConfigurationError) {
            loaded = try loader.check(text.text, as: text.path)
        } catch {
            throw CommandFailure(
                "\(text.path) was left as it is, since the change would make it wrong: \(error)",
                .usage
            )
        }
        guard hashes(loaded.configuration.apiKeys) == keys else {
            throw CommandFailure(
                "\(text.path) was left as it is: its keys stand in a form that cannot be edited. Change auth.api_keys by hand",
                .usage
            )
        }
    }

    /// Writes a changed file; when that fails, removes the new file of a key that opens nothing.
    private static func write(_ text: ConfigurationFile, orRemove keyFile: String?) throws(CommandFailure) {
        do throws(CommandFailure) {
            try text.write()
        } catch {
            // It would block the name for the next attempt.
            if let keyFile { unlink(keyFile) }
            throw error
        }
    }

    /// Returns hashes as they stand in the file.
    private static func list(_ hashes: [String]) -> String {
        let quoted = hashes.map { "\"sha256:\($0)\"" }
        return quoted.count == 1 ? quoted[0] : "[\(quoted.joined(separator: ", "))]"
    }

    private static func unknown(_ name: String, _ loaded: LoadedConfiguration, _ file: ConfigOption) -> CommandFailure {
        let names = loaded.configuration.apiKeys.map(\.name)
        let hint = Suggestion.nearest(to: name, among: names).map { " Did you mean \"\($0)\"?" } ?? ""
        return CommandFailure("\(file.path) has no key \"\(name)\".\(hint)")
    }
}
