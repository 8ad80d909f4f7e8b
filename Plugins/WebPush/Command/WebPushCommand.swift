public import ArgumentParser
internal import ChaparCommands
internal import ChaparCore
internal import ChaparWebPush
internal import Foundation

/// `chapar webpush`: the keys of Web Push.
///
/// A program that has the backend `webPush` gives it to `GatewayProgram` among its commands.
public struct WebPushCommand: AsyncParsableCommand {
    /// Its name and what it does.
    public static let configuration = CommandConfiguration(
        commandName: "webpush",
        abstract: "Make and rotate the VAPID keys of Web Push.",
        subcommands: [WebPushKeysCommand.self]
    )

    /// Makes the command; the parser fills it in.
    public init() {}
}

/// `chapar webpush keys`: makes a VAPID key, rotates one, or shows the public half of one.
struct WebPushKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Make a VAPID key, rotate one, or show its public half.",
        discussion: """
            Writes the private key to FILE, for its owner only, and prints the public key that pages give to
            subscribe() as applicationServerKey. Without FILE both are printed. --rotate keeps the present key beside
            FILE as FILE.previous, for subscriptions that were made with it. --show makes no key.
            """
    )

    @Argument(help: "The file of the private key, PEM.", completion: .file())
    var file: String?
    @Flag(help: "Replace the key in FILE, and keep it as FILE.previous.")
    var rotate = false
    @Flag(help: "Show the public half of the key in FILE.")
    var show = false
    @Flag(help: "Write JSON.")
    var json = false

    func validate() throws {
        if rotate, show { throw ValidationError("Give --rotate or --show, not both.") }
        if rotate || show, file == nil { throw ValidationError("Name the file of the key.") }
    }

    func run() async throws {
        guard let file else {
            let key = WebPushKey()
            return write(key, [("private_key", key.privateKey.reveal())], "vapid_key: \"\(key.privateKey.reveal())\"")
        }
        if show { return write(try read(file), [], nil) }
        let key = WebPushKey()
        guard rotate else {
            try create(file, key)
            return write(key, [("file", file)], "vapid_key_file: \(file)")
        }
        _ = try read(file)
        let previous = file + ".previous"
        let fresh = file + ".new"
        guard !FileManager.default.fileExists(atPath: previous) else {
            throw CommandFailure(
                "\(previous) exists: subscriptions may still need it. Move it, and name it in previous_vapid_keys"
            )
        }
        try create(fresh, key)
        // A second name first, then one rename: at each moment the file holds a whole key.
        guard link(file, previous) == 0 else {
            let words = String(cString: strerror(errno))
            unlink(fresh)
            throw CommandFailure("cannot keep \(previous): \(words)")
        }
        guard Foundation.rename(fresh, file) == 0 else {
            let words = String(cString: strerror(errno))
            unlink(previous)
            unlink(fresh)
            throw CommandFailure("cannot write \(file): \(words)")
        }
        write(
            key,
            [("file", file), ("previous_file", previous)],
            "vapid_key_file: \(file)\nprevious_vapid_keys: [{ file: \(previous) }]"
        )
    }

    private func write(_ key: WebPushKey, _ more: [(String, String)], _ lines: String?) {
        if json {
            var object: JSONObject = ["public_key": .string(key.publicKey)]
            for (name, value) in more { object[name] = .string(value) }
            return Shell.print(.object(object))
        }
        Shell.print("applicationServerKey: \(key.publicKey)")
        for line in lines?.split(separator: "\n") ?? [] { Shell.print(String(line)) }
    }

    private func read(_ file: String) throws -> WebPushKey {
        let text: String
        do {
            text = try String(contentsOf: URL(filePath: file), encoding: .utf8)
        } catch {
            throw CommandFailure("cannot read \(file)")
        }
        do throws(WebPushKey.Mistake) {
            return try WebPushKey(Secret(text))
        } catch {
            throw CommandFailure("the key in \(file) \(error.problem). \(error.fix)")
        }
    }

    /// Writes a key to a file that does not exist yet, for its owner only.
    private func create(_ file: String, _ key: WebPushKey) throws {
        let descriptor = open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let isThere = errno == EEXIST
            let words = isThere ? "it exists; --rotate replaces it" : String(cString: strerror(errno))
            throw CommandFailure("cannot write \(file): \(words)")
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: Data(key.pem.reveal().utf8))
            try handle.synchronize()
            try handle.close()
        } catch {
            unlink(file)
            throw CommandFailure("cannot write \(file): \(error.localizedDescription)")
        }
    }
}
