import Foundation
import PushCore
import PushGateway

/// `chapar serve --make-key`: the first API key of a configuration that has none.
enum FirstKey {
    private static let name = "admin"

    /// Makes a key, adds its hash at the end of the file, and prints it; does nothing where there are keys.
    static func make(in file: ConfigOption, asJSON isJSON: Bool = false) throws {
        // Off loopback a file without keys is a mistake, which is the one that this ends: so the text decides.
        var text = try ConfigurationFile(file.path)
        guard !text.hasKeys, !text.text.drop(while: \.isWhitespace).hasPrefix("{") else {
            guard try file.load().configuration.apiKeys.isEmpty else { return }
            throw CommandFailure(
                "\(file.path) has a section auth already: make a key with \"chapar keys create\" and write its line there",
                .usage
            )
        }
        let new = NewAPIKey()
        text.append("auth:\n  api_keys:\n    \(new.line(name: name, scopes: ["admin"]))\n")
        try text.write()
        guard !isJSON else {
            return Shell.print([
                "name": .string(name), "key": .string(new.key.reveal()), "scopes": ["admin"],
                "file": .string(file.path),
            ])
        }
        Shell.print("API key, shown this once: \(new.key.reveal())")
        Shell.print("Its hash is in \(file.path), under auth.api_keys, with the name \(name) and the scope admin.")
    }
}
