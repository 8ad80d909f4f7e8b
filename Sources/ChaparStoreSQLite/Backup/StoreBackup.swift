import Foundation
import GRDB
import ChaparCore

/// Copies a store's database to a file of its own, also while a gateway in another process writes to it.
///
/// The copy is a snapshot of the store, taken by SQLite's online backup under a read transaction: it blocks no commit,
/// and commits do not make it start again. Memory is bounded by SQLite's page cache. The copy is checked before it gets
/// its name.
package struct StoreBackup: Sendable {
    /// The store's database.
    package var source: String
    /// The file to write; its folder must exist.
    package var target: String
    /// Whether a file that has the target's name is replaced.
    package var replaces = false
    /// The number of bytes that must stay free on the target's disk.
    package var minimumFreeBytes: Int64 = 0
    /// The size of the store's write-ahead log, in bytes, above which the copy is given up.
    ///
    /// Commits during the copy stay in the log, and the gateway takes no new work when the log exceeds
    /// ``SQLiteStoreOptions/largestLogBytes``.
    package var largestLogBytes: Int64 = 384 << 20
    /// The number of pages that are copied before the size of the log and cancellation are checked again.
    var pagesPerStep: CInt = 1_024

    /// Makes a backup of `source` in `target`; nothing happens before ``write(progress:isCancelled:)``.
    package init(of source: String, to target: String) {
        self.source = source
        self.target = target
    }

    /// Makes the copy; blocks until it is in its place.
    ///
    /// - Parameters:
    ///   - progress: Gets the part that is copied, from 0 to 1.
    ///   - isCancelled: Checked now and then; when it returns true, the copy ends and leaves no file behind.
    /// - Returns: A summary of the copy.
    /// - Throws: The reason why there is no copy; the target is then as it was before.
    package func write(
        progress: @escaping (Double) -> Void = { _ in },
        isCancelled: @escaping () -> Bool = { false }
    ) throws(StoreFileError) -> StoreSummary {
        try checkPlaces()
        let staged = try StagedFile(for: target)
        defer { staged.discard() }
        do {
            try copy(to: staged, progress: progress, isCancelled: isCancelled)
        } catch let error as StoreFileError {
            throw error
        } catch {
            throw .failed("cannot copy \(source): \(error)")
        }
        let summary: StoreSummary
        do throws(StoreFileError) {
            summary = try StoreSummary.verify(staged.path)
        } catch {
            throw .failed("no backup was made of \(source): \(error)")
        }
        if isCancelled() { throw .cancelled }
        try staged.takePlace(replacing: replaces)
        return summary
    }

    /// Rejects targets that are not a file of their own.
    private func checkPlaces() throws(StoreFileError) {
        guard access(source, F_OK) == 0 else { throw .failure("cannot read the store \(source)") }
        let destination = StoreFiles.canonical(target)
        let store = StoreFiles.canonical(source)
        if StoreFiles.suffixes.contains(where: { destination == store + $0 }) {
            throw .failed("\(target) is the store's own file: name another one")
        }
        var found = stat()
        guard lstat(target, &found) == 0 else { return }
        guard found.st_mode & S_IFMT == S_IFREG else { throw .failed("\(target) is no plain file: name another one") }
        var own = stat()
        if stat(source, &own) == 0, own.st_ino == found.st_ino, own.st_dev == found.st_dev {
            throw .failed("\(target) is the store itself: name another file")
        }
        guard replaces else { throw .exists(target) }
    }

    private func copy(to staged: StagedFile, progress: @escaping (Double) -> Void, isCancelled: @escaping () -> Bool)
        throws
    {
        var reading = Configuration()
        reading.readonly = true
        reading.busyMode = .timeout(10)
        let from = try DatabaseQueue(path: source, configuration: reading)
        defer { try? from.close() }
        // A half-written copy is discarded: nothing of it has to wait for the disk before its end.
        var writing = Configuration()
        writing.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = OFF") }
        let to = try DatabaseQueue(path: staged.path, configuration: writing)
        defer { try? to.close() }
        let taken = Date()
        try from.read { source in
            // The first read fixes the moment that is copied.
            let pages = try Int64.fetchOne(source, sql: "PRAGMA page_count") ?? 0
            let pageBytes = try Int64.fetchOne(source, sql: "PRAGMA page_size") ?? 0
            try checkFreeBytes(for: pages.multiplied(clamping: pageBytes))
            try to.writeWithoutTransaction { target in
                try source.backup(to: target, pagesPerStep: pagesPerStep) { step in
                    if isCancelled() { throw StoreFileError.cancelled }
                    try checkLog()
                    try staged.flush()
                    progress(Double(step.completedPageCount) / Double(max(1, step.totalPageCount)))
                }
            }
        }
        try to.writeWithoutTransaction { db in
            // Makes it one file, without a log beside it.
            guard try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE") == "delete" else {
                throw StoreFileError.failed("cannot finish \(staged.path)")
            }
            try db.execute(
                sql: "INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)",
                arguments: [StoreSummary.takenName, Data(RFC3339.string(taken).utf8)]
            )
        }
    }

    /// Keeps a copy on the gateway's own disk from taking the space that the gateway needs.
    private func checkFreeBytes(for bytes: Int64) throws(StoreFileError) {
        guard let free = FileSystemSpace.freeBytes(at: FolderPath.place(of: target)) else { return }
        guard free.subtracting(clamping: bytes) >= minimumFreeBytes else {
            let reserve =
                minimumFreeBytes > 0 ? ", of which \(StoreFiles.size(minimumFreeBytes)) are to stay free" : ""
            throw .failed(
                "the copy takes \(StoreFiles.size(bytes)) and \(StoreFiles.size(free)) are free there\(reserve): name a file on "
                    + "another disk"
            )
        }
    }

    private func checkLog() throws(StoreFileError) {
        var log = stat()
        guard stat(source + "-wal", &log) == 0, Int64(clamping: log.st_size) > largestLogBytes else { return }
        throw .failed(
            "more was written meanwhile than the store's log may hold (\(largestLogBytes >> 20) MiB): make the copy on a "
                + "faster disk or at a quieter time"
        )
    }
}

/// The names of a store's files.
enum StoreFiles {
    /// The suffixes of the database's name in the names of its files.
    static let suffixes = ["", "-wal", "-shm", "-journal", ".lock"]

    /// Returns a number of bytes as text: in KiB, rounded up, where MiB would hide the difference.
    static func size(_ bytes: Int64) -> String {
        bytes >= 16 << 20 ? "\(bytes >> 20) MiB" : "\(max(0, bytes).adding(clamping: 1_023) >> 10) KiB"
    }

    /// Returns the path with its folder's links resolved, so that two names of one file compare equal.
    static func canonical(_ path: String) -> String {
        let folder = FolderPath.place(of: path)
        let name = (path as NSString).lastPathComponent
        guard let resolved = realpath(folder, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved) + "/" + name
    }
}
