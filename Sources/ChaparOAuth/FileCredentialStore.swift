internal import Foundation
import ChaparCore

/// A store of the credential in a file of its own, readable by its owner only.
///
/// It is written to a temporary file beside it and renamed, so that a crash leaves the old or the new one. A file that
/// others can read is refused. Several processes may share it: a lock file beside it prevents them from refreshing at
/// the same time, and the kernel releases the lock when a process dies.
public struct FileCredentialStore: CredentialStore {
    private let path: String
    private let style: OAuthCredential.KeyStyle
    private let allowsInsecurePermissions: Bool
    private let lockTimeout: Duration

    /// Makes a store; nothing is read or written yet.
    ///
    /// - Parameters:
    ///   - path: The file. Its folder is made with mode 0700 when it does not exist.
    ///   - style: The form in which it is written; both forms are read.
    ///   - allowsInsecurePermissions: Whether a file that others can read is used nevertheless.
    ///   - lockTimeout: The longest time another process may hold the lock.
    public init(
        path: String,
        style: OAuthCredential.KeyStyle = .long,
        allowsInsecurePermissions: Bool = false,
        lockTimeout: Duration = .seconds(60)
    ) {
        self.path = path
        self.style = style
        self.allowsInsecurePermissions = allowsInsecurePermissions
        self.lockTimeout = lockTimeout
    }

    /// Reads the file; without a file there is no credential, and a malformed file is an error that names the wrong
    /// key.
    public func load() async throws(OAuth2Error) -> StoredCredential? { try read() }

    /// Compares the revision and writes.
    public func save(
        _ credential: OAuthCredential,
        expecting expected: CredentialRevision?
    ) async throws(OAuth2Error) -> CredentialRevision? {
        guard try readRevision() == expected else { return nil }
        let bytes = credential.stored(style).bytes
        try write(bytes, to: path)
        return Self.revision(bytes)
    }

    /// Compares the revision and removes.
    public func remove(expecting expected: CredentialRevision?) async throws(OAuth2Error) {
        guard let current = try readRevision(), current == expected else { return }
        guard unlink(path) == 0 || errno == ENOENT else { throw Self.failure("remove", path) }
    }

    /// Waits for the lock file, at most `lockTimeout`, and holds it while `body` runs.
    public func exclusively<Value: Sendable>(
        _ body: @Sendable () async throws(OAuth2Error) -> Value
    ) async throws(OAuth2Error) -> Value {
        try makeFolder()
        let lock = path + ".lock"
        let descriptor = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.failure("open", lock) }
        defer { close(descriptor) }
        let end = ContinuousClock.now + lockTimeout
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR else { throw Self.failure("lock", lock) }
            guard ContinuousClock.now < end else { throw .storeFailed("another process holds \(lock)") }
            // It fails only when the task is cancelled, and a refresh is not.
            try? await Task.sleep(for: .milliseconds(20))
        }
        return try await body()
    }

    /// Returns the content of the file beside it that ends in `.seed`.
    public func usedSeed() async throws(OAuth2Error) -> String? {
        try bytes(of: seedPath).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Writes the file beside it that ends in `.seed`.
    public func keepUsedSeed(_ fingerprint: String) async throws(OAuth2Error) {
        try write(Array(fingerprint.utf8), to: seedPath)
    }

    private var seedPath: String { path + ".seed" }

    private func read() throws(OAuth2Error) -> StoredCredential? {
        guard let bytes = try bytes(of: path) else { return nil }
        guard let json = try? JSONValue(parsing: bytes) else { throw .storeFailed("\(path) is not JSON") }
        do throws(OAuth2Error) {
            return StoredCredential(try OAuthCredential(stored: json), revision: Self.revision(bytes))
        } catch {
            throw .storeFailed("\(path): \(error)")
        }
    }

    private func readRevision() throws(OAuth2Error) -> CredentialRevision? { try bytes(of: path).map(Self.revision) }

    private func bytes(of path: String) throws(OAuth2Error) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw Self.failure("open", path)
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.failure("examine", path) }
        guard allowsInsecurePermissions || status.st_mode & 0o077 == 0 else {
            throw .storeFailed("\(path) can be read by others: chmod 600 \(path)")
        }
        do {
            return try Array(file.read(upToCount: 1 << 20) ?? Data())
        } catch {
            throw .storeFailed("\(path) cannot be read")
        }
    }

    private func makeFolder() throws(OAuth2Error) {
        let folder = URL(filePath: path).deletingLastPathComponent()
        do {
            try FileManager.default.createDirectory(
                at: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw .storeFailed("\(folder.path) cannot be made")
        }
    }

    private func write(_ bytes: [UInt8], to path: String) throws(OAuth2Error) {
        try makeFolder()
        let temporary = "\(path).\(MessageID.random()).new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.failure("write", temporary) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try file.write(contentsOf: Data(bytes))
            try file.synchronize()
            try file.close()
        } catch {
            unlink(temporary)
            throw .storeFailed("\(path) cannot be written: the disk may be full")
        }
        guard rename(temporary, path) == 0 else {
            unlink(temporary)
            throw Self.failure("replace", path)
        }
    }

    /// Returns the content itself as the revision.
    private static func revision(_ bytes: [UInt8]) -> CredentialRevision {
        CredentialRevision(String(decoding: bytes, as: UTF8.self))
    }

    private static func failure(_ verb: String, _ path: String) -> OAuth2Error {
        .storeFailed("cannot \(verb) \(path): \(String(cString: strerror(errno)))")
    }
}
