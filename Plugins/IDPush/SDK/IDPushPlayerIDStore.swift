import Foundation
import Synchronization

/// Keeps the one player id of the facade; the seed keeps it in the user defaults.
public protocol PlayerIDStore: Sendable {
    /// Returns the id; nil when none was kept.
    func read() throws -> String?
    /// Keeps an id instead of the previous one.
    func write(_ playerID: String) throws
}

/// The key that the seed keeps the id under.
public let playerIDKey = "IDPush_PreviousPlayerID"

/// Keeps the id in memory.
public final class MemoryPlayerIDStore: PlayerIDStore {
    private let id: Mutex<String?>

    /// Makes a store, with an id to begin with.
    public init(_ id: String? = nil) { self.id = Mutex(id) }

    /// Returns the id.
    public func read() -> String? { id.withLock { $0 } }

    /// Keeps an id.
    public func write(_ playerID: String) { id.withLock { $0 = playerID } }
}

/// Keeps the id in a file that only its owner can read: a JSON object with the seed's key.
public struct FilePlayerIDStore: PlayerIDStore {
    private let path: String

    /// Makes a store; nothing is read yet.
    public init(_ path: String) { self.path = path }

    /// Returns the id; nil when there is no file.
    public func read() throws -> String? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        let object = try JSONDecoder().decode([String: String].self, from: Data(contentsOf: URL(filePath: path)))
        return object[playerIDKey]
    }

    /// Keeps an id: written beside the file and renamed, so that a crash leaves the old or the new one.
    public func write(_ playerID: String) throws {
        let file = URL(filePath: path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try JSONEncoder().encode([playerIDKey: playerID]).write(to: file, options: .atomic)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }
}
