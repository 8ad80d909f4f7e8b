import ArgumentParser
import Crypto
import Foundation
import PushCore
import PushGateway

/// `chapar keys`: who may call a gateway.
///
/// Keys live in the configuration file, as hashes.
struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Make, list and revoke the API keys of a configuration.",
        subcommands: [Create.self, List.self, Revoke.self]
    )

    /// `chapar keys create`: makes a key.
    ///
    /// It is shown once; only its hash goes into the file.
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create",
            abstract: "Make a key: prints it once, and the line for auth.api_keys.",
            discussion: "The key is never stored. With --key-file it goes to a file of its owner instead of the screen."
        )

        @Option(help: "A name for logs: letters, digits, - and _.")
        var name: String

        @Option(name: .customLong("scope"), help: "What it may be used for: send, devices, read, admin. Repeat it.")
        var scopes: [Scope] = [.send, .read]

        @Option(help: "Write the key to this new file (mode 600) instead of printing it.", completion: .file())
        var keyFile: String?

        @OptionGroup var form: OutputForm

        func validate() throws {
            guard BackendRegistry.isName(name) else {
                throw ValidationError("\"\(name)\" is not a name. Use letters, digits, - and _, at most 64.")
            }
        }

        func run() async throws {
            var random = SystemRandomNumberGenerator()
            let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            let key = "chp_" + Data(bytes).base64URL
            let hash = "sha256:" + SHA256.hash(data: Data(key.utf8)).map { String(format: "%02x", $0) }.joined()
            if let keyFile { try SecretFile.write(key + "\n", to: keyFile) }
            let words = scopes.map(\.rawValue)
            let line = "- { name: \(name), hash: \"\(hash)\", scopes: [\(words.joined(separator: ", "))] }"
            if form.isJSON {
                Shell.print([
                    "name": .string(name), "key": keyFile == nil ? .string(key) : .null, "hash": .string(hash),
                    "scopes": .array(words.map { .string($0) }), "line": .string(line),
                ])
                return
            }
            Shell.print("Key, shown this once:     \(keyFile.map { "written to \($0)" } ?? key)")
            Shell.print("Line for auth.api_keys:   \(line)")
        }
    }

    /// `chapar keys list`: the keys of a configuration.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the keys of a configuration, with the beginning of their hashes."
        )

        @OptionGroup var file: ConfigOption
        @OptionGroup var form: OutputForm

        func run() async throws {
            let keys = try file.load().configuration.apiKeys
            if form.isJSON {
                for key in keys {
                    Shell.print([
                        "name": .string(key.name), "hash": .string("sha256:" + key.sha256),
                        "scopes": .array(key.scopes.map(\.rawValue).sorted().map { .string($0) }),
                    ])
                }
                return
            }
            var table = TextTable("NAME", "SCOPES", "HASH")
            for key in keys {
                let scopes = key.scopes.map(\.rawValue).sorted().joined(separator: ",")
                table.add(key.name, scopes, "sha256:\(key.sha256.prefix(8))…")
            }
            keys.isEmpty
                ? Shell.complain("\(file.path) has no keys: the gateway listens on loopback only.") : table.print()
        }
    }

    /// `chapar keys revoke`: says which entry to remove.
    ///
    /// The file stays the operator's: nothing edits it behind their back.
    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Find the entry of a key, so that you can remove it and reload.",
            discussion: "The file is not edited: comments and templates in it are yours."
        )

        @Argument(help: "The key's name.")
        var name: String

        @OptionGroup var file: ConfigOption
        @OptionGroup var form: OutputForm

        func run() async throws {
            let loaded = try file.load()
            let entry = loaded.settings.first {
                $0.path.hasPrefix("auth.api_keys[") && $0.path.hasSuffix(".name") && $0.value == name
            }
            guard let entry else {
                let names = loaded.configuration.apiKeys.map(\.name)
                let hint = Suggestion.nearest(to: name, among: names).map { " Did you mean \"\($0)\"?" } ?? ""
                throw CommandFailure("\(file.path) has no key \"\(name)\".\(hint)")
            }
            let place = "\(entry.origin.file):\(entry.origin.line)"
            if form.isJSON {
                Shell.print([
                    "name": .string(name), "path": .string(String(entry.path.dropLast(5))),
                    "file": .string(entry.origin.file), "line": .integer(Int64(entry.origin.line)),
                ])
            } else {
                Shell.print(
                    "Remove the entry \(entry.path.dropLast(5)) at \(place), then reload: kill -HUP <pid of serve>"
                )
            }
        }
    }

    /// A scope on the command line.
    enum Scope: String, ExpressibleByArgument, CaseIterable {
        case send, devices, read, admin
    }
}

extension Data {
    /// Base 64 for addresses and headers (RFC 4648, section 5), without padding.
    fileprivate var base64URL: String {
        base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }
}
