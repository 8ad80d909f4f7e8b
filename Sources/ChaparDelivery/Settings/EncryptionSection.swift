internal import Foundation
public import ChaparCore

extension GatewayConfiguration {
    /// The section `store.encryption`: the keys that encrypt credentials in the store.
    public struct Encryption: Sendable, Hashable {
        /// `key`, `key_file` or `key_command`: the key that encrypts new values.
        public var key: Source?
        /// `old_keys`: keys that older values were encrypted with; a list of maps with the same fields.
        public var oldKeys: [Source] = []
        /// Makes a section without keys: nothing is encrypted.
        public init() {}

        /// The source of a key.
        @nonexhaustive
        public enum Source: Sendable, Hashable {
            /// The key itself, from the configuration or a file.
            case key(Secret)
            /// A program that prints it, with its arguments.
            case command([String])
        }

        /// Reads the keys, and runs the programs that print them.
        ///
        /// - Throws: ``KeyUnavailable``, which contains no part of a key.
        public func keys() throws(KeyUnavailable) -> SealingKeys {
            let current = try key.map { (source) throws(KeyUnavailable) in try Self.key(source, "store.encryption") }
            var old: [SealingKey] = []
            for (index, source) in oldKeys.enumerated() {
                old.append(try Self.key(source, "store.encryption.old_keys[\(index)]"))
            }
            return SealingKeys(current: current, old: old)
        }

        private static func key(_ source: Source, _ path: String) throws(KeyUnavailable) -> SealingKey {
            let text: Secret
            switch source {
            case .key(let key): text = key
            case .command(let arguments):
                do {
                    text = try KeyCommand(arguments).run()
                } catch {
                    throw KeyUnavailable("\(path).key_command gave no key: \(error)")
                }
            }
            guard let key = SealingKey(text) else {
                throw KeyUnavailable("what \(path) gives \(SealingKey.problem(with: text) ?? "is no key")")
            }
            return key
        }
    }
}

/// A key of the store cannot be read; the sentence says why and contains no part of the key.
public struct KeyUnavailable: Error, CustomStringConvertible {
    /// The reason, as a sentence.
    public let description: String

    init(_ description: String) { self.description = description }
}

extension GatewayConfiguration.Encryption {
    /// Reads the section; mistakes are added to its report.
    package init(_ section: ConfigSection) {
        key = Self.source(section)
        if key == nil, !section.has("old_keys"), !section.keys.contains(where: Self.keyNames.contains) {
            section.missing(
                "key",
                "32 random bytes in base64 (openssl rand -base64 32), as key, key_file or key_command"
            )
        }
        oldKeys = section.sections("old_keys").compactMap { own in
            defer { own.finish() }
            let source = Self.source(own)
            if source == nil, !own.keys.contains(where: Self.keyNames.contains) {
                own.missing("key", "the key, as key, key_file or key_command")
            }
            return source
        }
        section.finish()
    }

    private static let keyNames = ["key", "key_file", "key_command"]

    /// Returns the key that a map names; nil when it names none, or after an issue.
    private static func source(_ section: ConfigSection) -> Source? {
        let key = section.secret("key")
        let file = section.file("key_file").map { Secret(String(decoding: $0, as: UTF8.self)) }
        let command = section.strings("key_command")
        let given = keyNames.filter { section.keys.contains($0) }
        if given.count > 1 {
            section.reject(
                given[1],
                "there is \(given[0]) as well",
                fix: "Write one of \(keyNames.joined(separator: ", "))."
            )
        }
        if let text = key ?? file, let problem = SealingKey.problem(with: text) {
            section.reject(key == nil ? "key_file" : "key", problem, fix: "Make one: openssl rand -base64 32")
            return nil
        }
        if let command, command.first?.hasPrefix("/") != true {
            let fix = "Write a list: the program's full path, then its arguments, one each."
            section.reject("key_command", "does not begin with a path", fix: fix)
            return nil
        }
        return (key ?? file).map { .key($0) } ?? command.map { .command($0) }
    }
}
