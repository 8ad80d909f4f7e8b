import CoreFoundation  // Some builds of the toolchain take this for the module of `stat`.
import Foundation
import Logging
import ChaparCore
import ChaparGateway

/// The first API key of a gateway whose configuration has no section on keys.
///
/// The first start makes it, in a file beside the store that only the gateway's user can read. Later starts use it, and
/// commands on the same machine read it there to talk to the gateway. It counts until the configuration has keys. Where
/// such a file would not last or be shared, `serve --make-key` writes a key into the configuration instead.
enum FirstKey {
    /// The key's name in logs, records and lists.
    static let name = "first"

    /// Returns the path of the key's file.
    static func path(of store: GatewayConfiguration.Store) -> String { store.path + ".first-key" }

    /// Returns whether a gateway of this configuration needs it.
    static func isNeeded(_ configuration: GatewayConfiguration) -> Bool {
        configuration.apiKeys.isEmpty && !configuration.isKeyless
    }

    /// Returns the configuration entry of the key.
    static func entry(_ key: Secret) -> GatewayConfiguration.APIKey {
        let hash = NewAPIKey(key).hash.dropFirst("sha256:".count)
        var entry = GatewayConfiguration.APIKey(name: name, hashes: [String(hash)], scopes: [.admin])
        entry.isFirst = true
        return entry
    }
}

// MARK: - The gateway

extension FirstKey {
    /// Returns why a gateway cannot have one, with the command that gives it a key; nil when it can.
    static func refusal(
        _ configuration: GatewayConfiguration,
        _ file: String,
        container: Container = Container()
    ) -> CommandFailure? {
        guard isNeeded(configuration), let why = obstacle(configuration.store, container) else { return nil }
        let program = GatewayProgram.current.name
        return CommandFailure(
            "\(file) has no API keys, and \(why). Make one: \"\(program) serve --make-key --config \(file)\" writes it there, or "
                + "write the line of \"\(program) keys create --name admin --scope admin\" under auth.api_keys. Without keys it goes "
                + "on by auth: { keyless: true } only, on a loopback address or a Unix socket",
            .configuration
        )
    }

    private static func obstacle(_ store: GatewayConfiguration.Store, _ container: Container) -> String? {
        guard store.kind == .sqlite else {
            return "gateways that share a PostgreSQL database share no file for a first one"
        }
        if let sign = container.sign { return "in a container (\(sign)) a first one might not outlive it" }
        let place = FolderPath.place(of: store.path)
        guard !FileModes.takesFiles(place), [EACCES, EROFS].contains(errno) else { return nil }
        return "the store's folder \(place) cannot be written for a first one"
    }

    /// Puts the first key into a configuration without keys, makes it when there is none yet, and logs which key is in
    /// force.
    ///
    /// The caller must hold the store's lock by now: then no other gateway makes the file at the same time.
    static func put(
        into configuration: inout GatewayConfiguration,
        store: GatewayConfiguration.Store,
        logger: Logger
    ) throws(CommandFailure) {
        let path = path(of: store)
        guard isNeeded(configuration) else {
            if configuration.isKeyless {
                logger.warning(
                    "auth.keyless: every program of this machine may send, read and change everything, and so may callers behind a proxy or a forwarded port"
                )
            } else if store.kind == .sqlite, FileManager.default.fileExists(atPath: path) {
                logger.notice(
                    "the first API key is no longer valid, since auth.api_keys has keys: remove its file",
                    metadata: ["file": "\(path)"]
                )
            }
            return
        }
        let fix = "start the gateway as the user whose file it is, or remove it, and the next start makes a new key"
        if let key = try read(path, unreadable: fix) {
            configuration.apiKeys = [entry(key)]
            logger.notice(
                "no auth in the configuration: the first API key is needed, which commands on this machine find",
                metadata: ["file": "\(path)"]
            )
        } else {
            let new = NewAPIKey()
            try write(new.key, to: path)
            configuration.apiKeys = [entry(new.key)]
            logger.notice(
                "no auth in the configuration: the first API key was made, which commands on this machine find",
                metadata: ["file": "\(path)"]
            )
        }
    }

    private static func write(_ key: Secret, to path: String) throws(CommandFailure) {
        let file: PrivateFile
        do throws(CommandFailure) {
            file = try PrivateFile(path)
        } catch {
            throw CommandFailure(error.description, .configuration)
        }
        defer { close(file.descriptor) }
        let bytes = Array((key.reveal() + "\n").utf8)
        guard bytes.withUnsafeBytes({ Foundation.write(file.descriptor, $0.baseAddress, $0.count) }) == bytes.count,
            fsync(file.descriptor) == 0
        else {
            let reason = String(cString: strerror(errno))
            file.discard()
            throw CommandFailure("cannot write \(path): \(reason)", .configuration)
        }
        try file.publish()
    }
}

// MARK: - Its file

extension FirstKey {
    /// Reads the key; returns nil when there is no file.
    ///
    /// The file must be a plain file of this user, with a key in it, that no other user can read or change. Root may
    /// also read the file of another user who owns the folder. `unreadable` is the fix for a file that cannot be read,
    /// which depends on the command.
    static func read(
        _ path: String,
        unreadable fix: String = "run the command as the gateway's user, or give a key: --key-file or $CHAPAR_KEY"
    ) throws(CommandFailure) -> Secret? {
        func wrong(_ problem: String, _ fix: String) -> CommandFailure {
            CommandFailure("the first API key, \(path), \(problem): \(fix)", .configuration)
        }
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            switch errno {
            case ENOENT: return nil
            case ELOOP: throw wrong("is a symbolic link", "remove it, and the next start makes a new key")
            default:
                throw wrong("cannot be read (\(String(cString: strerror(errno))))", fix)
            }
        }
        defer { close(descriptor) }
        var (own, folder) = (stat(), stat())
        guard fstat(descriptor, &own) == 0, own.st_mode & S_IFMT == S_IFREG else {
            throw wrong("is no file", "remove it, and the next start makes a new key")
        }
        let isOwn =
            own.st_uid == geteuid()
            || geteuid() == 0 && stat(FolderPath.place(of: path), &folder) == 0 && own.st_uid == folder.st_uid
        guard isOwn else {
            throw wrong("belongs to another user", "run as that user; or remove it, and the next start makes a new key")
        }
        guard own.st_mode & 0o077 == 0 else {
            throw wrong(
                "can be read or changed by other users",
                "remove it, and the next start makes a new key; or, if no other user has read it, chmod 600 \(path)"
            )
        }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = bytes.withUnsafeMutableBytes { Foundation.read(descriptor, $0.baseAddress, $0.count) }
        let text = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).trimmingCharacters(in: .newlines)
        guard NewAPIKey.isKey(text) else {
            throw wrong(count == 0 ? "is empty" : "holds no key", "remove it, and the next start makes a new key")
        }
        return Secret(text)
    }

    /// Returns the first key for a command's gateway on this machine; nil when the configuration has another way in, is
    /// for another gateway, or has no key yet.
    ///
    /// The key goes only to the address in the configuration that the file belongs to, and only while every program
    /// that listens on the port runs as the file's owner: any user may listen on a free port, and on the other one of
    /// 127.0.0.1 and ::1.
    static func find(
        for endpoint: HTTPEndpoint,
        configuration path: String,
        listeners areAll: (_ user: uid_t, _ port: Int) -> Bool = Listeners.areAll(ownedBy:onPort:)
    ) throws -> Secret? {
        guard endpoint.isLoopback, let access = try BackendLoader.offline().access(path), access.needsFirstKey,
            access.store.kind == .sqlite, access.server.unixSocket == nil,
            access.server.port == 0 || access.server.port == endpoint.port
        else { return nil }
        let path = Self.path(of: access.store)
        guard let key = try read(path) else { return nil }
        var file = stat()
        guard stat(path, &file) == 0 else { return nil }
        guard areAll(file.st_uid, endpoint.port) else {
            throw CommandFailure(
                "the first API key was not sent: a program of another user listens on port \(endpoint.port), or none of the gateway's user "
                    + "does. Start the gateway, or give a key: --key-file or $CHAPAR_KEY",
                .configuration
            )
        }
        return key
    }
}

// MARK: - A key in the configuration

extension FirstKey {
    /// Makes a key for `serve --make-key`, adds its hash at the end of the configuration, and prints it; does nothing
    /// where there are keys.
    static func make(in file: ConfigOption, asJSON printsJSON: Bool = false) throws {
        // Off loopback a file without keys is a mistake, the very one that this fixes: so the text decides.
        var text = try ConfigurationFile(file.path)
        let isJSON = text.text.drop(while: \.isWhitespace).hasPrefix("{")
        let loader = try BackendLoader.offline()
        let before = loader.access(text.text, as: file.path)
        guard before?.hasAuth != true, !isJSON else {
            guard try file.load().configuration.apiKeys.isEmpty else { return }
            if isJSON {
                throw CommandFailure(
                    "\(file.path) is JSON, in which no section is added: make a key with \"chapar keys create --name admin --scope admin\" "
                        + "and write its hash there, as \"auth\": {\"api_keys\": [{\"name\": \"admin\", \"hash\": …, \"scopes\": [\"admin\"]}]}",
                    .usage
                )
            }
            throw CommandFailure(
                "\(file.path) has a section auth already: make a key with \"chapar keys create\" and write its line there",
                .usage
            )
        }
        let (new, name) = (NewAPIKey(), "admin")
        if before == nil { _ = try file.load() }
        text.append("auth:\n  api_keys:\n    \(new.line(name: name, scopes: ["admin"]))\n")
        guard let access = loader.access(text.text, as: file.path), !access.needsFirstKey else {
            throw CommandFailure(
                "\(file.path) takes no section at its end, since its own stand indented or in braces, and was left as it is: make a key "
                    + "with \"chapar keys create --name admin --scope admin\" and write its line there, as "
                    + "auth: { api_keys: [ { name: admin, hash: \"sha256:…\", scopes: [admin] } ] }",
                .usage
            )
        }
        try text.write()
        guard !printsJSON else {
            return Shell.print([
                "name": .string(name), "key": .string(new.key.reveal()), "scopes": ["admin"],
                "file": .string(file.path),
            ])
        }
        Shell.print("API key, shown this once: \(new.key.reveal())")
        Shell.print("Its hash is in \(file.path), under auth.api_keys, with the name \(name) and the scope admin.")
    }
}
