package import Foundation
import GRDB
import ChaparCore

/// Replaces a store's database with a backup, while no gateway has the store.
///
/// The backup is copied beside the store and checked there; only a good copy takes the place, in one step. The previous
/// database is kept under another name.
package struct StoreRestore: Sendable {
    /// The result of a restoration.
    package struct Result: Sendable {
        /// A summary of the restored store.
        package var summary: StoreSummary
        /// The name of the database that was there before; nil when there was none.
        package var previous: String?
    }

    /// The backup.
    package var backup: String
    /// The store's database.
    package var target: String
    /// Whether deliveries that wait in the backup expire, so that none is sent a second time.
    package var expiresWaiting = false

    /// Makes a restoration of `backup` to `target`; nothing happens before ``run(now:isCancelled:)``.
    package init(of backup: String, to target: String) {
        self.backup = backup
        self.target = FileLink.target(of: target)
    }

    /// Restores; blocks until it is done.
    ///
    /// - Parameters:
    ///   - now: The time in the new name of the old database.
    ///   - isCancelled: Checked until the old database is touched; when it returns true nothing is changed.
    /// - Returns: A summary of the restored store, and the name of the old database.
    /// - Throws: `StoreError.failed` when a process has the store, otherwise the reason why nothing was restored.
    package func run(now: Date, isCancelled: () -> Bool = { false }) throws -> Result {
        let ownership = try FileOwnership(of: target)
        defer { ownership.release() }
        let source = try openBackup()
        defer { close(source) }
        let staged = try StagedFile(for: target)
        defer { staged.discard() }
        try staged.fill(from: source, isCancelled: isCancelled)
        do {
            try simplify(staged.path)
        } catch {
            throw StoreFileError.failed(
                "\(backup) is damaged, or no database: \(Self.reason(error)); nothing was changed"
            )
        }
        let summary: StoreSummary
        do {
            summary = try StoreSummary.verify(staged.path)
        } catch {
            throw StoreFileError.failed("\(backup) cannot be used, nothing was changed: \(error)")
        }
        do {
            try finish(staged.path)
        } catch {
            throw StoreFileError.failed("cannot finish the copy, nothing was changed: \(Self.reason(error))")
        }
        try staged.takeOwner(of: target)
        if isCancelled() { throw StoreFileError.cancelled }
        let previous = try moveAside(now)
        do {
            try staged.takePlace(replacing: true)
        } catch {
            guard let previous else { throw error }
            throw StoreFileError.failed("\(error); the database that was there is \(previous)")
        }
        ownership.forgetCommitted()
        return Result(summary: summary, previous: previous)
    }

    private func openBackup() throws(StoreFileError) -> Int32 {
        let source = open(backup, O_RDONLY | O_CLOEXEC)
        guard source >= 0 else { throw .failure("cannot read \(backup)") }
        var (found, own, beside) = (stat(), stat(), stat())
        var refusal: StoreFileError?
        if fstat(source, &found) != 0 || found.st_mode & S_IFMT != S_IFREG {
            refusal = .failed("\(backup) is no plain file")
        } else if stat(target, &own) == 0, own.st_ino == found.st_ino, own.st_dev == found.st_dev {
            refusal = .failed("\(backup) is the store itself")
        } else if ["-wal", "-journal"].contains(where: { stat(backup + $0, &beside) == 0 && beside.st_size > 0 }) {
            refusal = .failed(
                "\(backup) has a log beside it, so it is no finished backup but a database in use: make a backup of it first"
            )
        }
        guard let refusal else { return source }
        close(source)
        throw refusal
    }

    /// Converts a copy that another program made to the form without a log beside it.
    private func simplify(_ path: String) throws {
        let file = try DatabaseQueue(path: path)
        defer { try? file.close() }
        try file.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
    }

    /// Makes a store of the checked copy: removes its mark as a backup, and expires what waits if that is wanted.
    private func finish(_ path: String) throws {
        let file = try DatabaseQueue(path: path)
        defer { try? file.close() }
        if expiresWaiting { try Schema.migrator.migrate(file) }
        try file.write { db in
            try db.execute(sql: "DELETE FROM state WHERE name = ?", arguments: [StoreSummary.takenName])
            guard expiresWaiting else { return }
            try OpenedStore.writeOutStagedRows(db)
            // The gateway ends them itself, with their events. Deliveries of one notification share the expiry in the
            // row of its number.
            try db.execute(
                sql: """
                    UPDATE deliveries SET expires = min(expires, coalesce((SELECT value FROM marks WHERE name = 'steady'), 1))
                    WHERE state = 0 OR id IN (SELECT head FROM deliveries WHERE state = 0 AND head IS NOT NULL)
                    """
            )
        }
    }

    /// Gives the existing database another name, and returns that; until the new database takes its place, the old one
    /// has both names.
    private func moveAside(_ now: Date) throws(StoreFileError) -> String? {
        guard access(target, F_OK) == 0 else { return nil }
        try foldLog()
        let stamp = RFC3339.string(now).prefix(19).filter { $0 != "-" && $0 != ":" }
        var old = "\(target).before-\(stamp)Z"
        var number = 1
        while access(old, F_OK) == 0 {
            number += 1
            old = "\(target).before-\(stamp)Z-\(number)"
        }
        // Present only when the log could not be folded in: the old database still needs it, and the new one must not
        // read it.
        for suffix in ["-wal", "-shm", "-journal"] where access(target + suffix, F_OK) == 0 {
            guard rename(target + suffix, old + suffix) == 0 else { throw .failure("cannot rename \(target)\(suffix)") }
        }
        // A hard link leaves no moment without a database; where links are not supported the file is renamed.
        guard link(target, old) == 0 || rename(target, old) == 0 else { throw .failure("cannot rename \(target)") }
        chmod(old, 0o600)
        return old
    }

    /// Moves the content of the old database's log into it, so that it is one file.
    ///
    /// A database that is too damaged for that is left as it is. One that another program has open must not be
    /// replaced.
    private func foldLog() throws(StoreFileError) {
        do {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            let file = try DatabaseQueue(path: target, configuration: configuration)
            defer { try? file.close() }
            try file.writeWithoutTransaction { db in
                guard try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE") == "delete" else {
                    throw DatabaseError(resultCode: .SQLITE_BUSY)
                }
            }
        } catch let error as DatabaseError where [.SQLITE_BUSY, .SQLITE_LOCKED].contains(error.resultCode) {
            throw .failed("another program has \(target) open: close it first; nothing was changed")
        } catch {}  // Damaged: perhaps the reason for restoring.
    }

    private static func reason(_ error: any Error) -> String { (error as? DatabaseError)?.message ?? "\(error)" }
}
