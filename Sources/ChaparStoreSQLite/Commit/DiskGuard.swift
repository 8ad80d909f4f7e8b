import Foundation
import ChaparCore
import Synchronization

/// Checks, at most once a second, the space that the store's files have and take, and that they are still the files
/// that were opened (``LogWatch``).
///
/// The commit loop asks it before it stores new work, and `health` for its figures. It never refuses work that ends
/// deliveries.
final class DiskGuard: Sendable {
    /// The space in the database file, as the writer found it.
    struct Usage: Sendable {
        /// Bytes of pages that hold something.
        var used: Int64 = 0
        /// Bytes of pages that are free, which new rows take up first.
        var free: Int64 = 0
    }

    /// The identity of the file that a name refers to.
    private struct Identity: Equatable {
        let device: dev_t
        let number: ino_t
        let isEmpty: Bool

        /// Nil without a file.
        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            (device, number, isEmpty) = (status.st_dev, status.st_ino, status.st_size == 0)
        }

        /// Whether it is still the file that was opened; a database is never emptied to the last page.
        func isStill(_ opened: Identity) -> Bool {
            device == opened.device && number == opened.number && (!isEmpty || opened.isEmpty)
        }
    }

    /// A file that was lost while the gateway goes on.
    struct Loss {
        enum Part {
            /// The database itself.
            case file
            /// The name of the write-ahead log, which the connections still have open.
            case logName
            /// The content of the write-ahead log.
            case logContent
        }

        var part: Part
        /// The sentence that says what happened, and the fix.
        var sentence: String
    }

    private struct Reading {
        /// The database as it was first seen; nil where it is no file.
        var opened: Identity?
        /// Whether its name refers to no file any more, to another one, or to an emptied one.
        var isLost = false
        var watch: LogWatch
        /// The free bytes of the file system.
        var free: Int64?
        /// The bytes of the write-ahead log.
        var log: Int64 = 0
        var at: Int64 = .min
        var usage = Usage()
        var usageAt: Int64 = .min

        /// The bytes in use, those of the write-ahead log included.
        var used: Int64 { usage.used.adding(clamping: log) }
    }

    /// The time for which a reading is used, in milliseconds.
    private static let interval: Int64 = 1_000

    private let options: SQLiteStoreOptions
    private let last: Mutex<Reading>

    /// Starts with the file as it has just been opened.
    init(_ options: SQLiteStoreOptions) {
        self.options = options
        let watch = LogWatch(options.path + "-wal", keptBytes: Int64(clamping: options.logBytes))
        last = Mutex(Reading(opened: Identity(options.path), watch: watch))
    }

    /// Whether the writer should report the space in the file.
    func wantsUsage(now: Int64) -> Bool {
        last.withLock { now.distance(clamping: $0.usageAt) >= Self.interval }
    }

    func note(_ usage: Usage, now: Int64) {
        last.withLock { last in
            last.usage = usage
            last.usageAt = now
        }
    }

    /// The free bytes as of at most a second ago; nil when they cannot be known.
    func free(now: Int64) -> Int64? { reading(now: now).free }

    /// The bytes in use, those of the write-ahead log included.
    func used(now: Int64) -> Int64 { reading(now: now).used }

    private func reading(now: Int64) -> Reading {
        last.withLock { last in
            if now.distance(clamping: last.at) >= Self.interval {
                last.free = options.freeBytes(options.path)
                last.log = Self.bytes(of: options.path + "-wal")
                lookForFile(&last)
                last.at = now
            }
            return last
        }
    }

    private func lookForFile(_ last: inout Reading) {
        let identity = Identity(options.path)
        if let opened = last.opened { last.isLost = !(identity?.isStill(opened) ?? false) }
        if !last.isLost { last.opened = identity }
        last.watch.look()
    }

    /// Checks the files now, and returns what was lost; nil while they are those that were opened.
    func loss() -> Loss? {
        last.withLock { last in
            lookForFile(&last)
            return loss(last)
        }
    }

    /// Whether the write-ahead log was found empty and was not empty before.
    ///
    /// Either a checkpoint emptied it, or another program cut it; only a commit can show which.
    func hasEmptyLog(now: Int64) -> Bool { reading(now: now).watch.finding == .empty }

    /// The same, as of the last check.
    var foundEmptyLog: Bool { last.withLock { $0.watch.finding == .empty } }

    /// Checks the files again, after a commit to an empty log.
    func lookAgain() { last.withLock { lookForFile(&$0) } }

    /// The loss when an empty log could not be moved into the file.
    var lossOfContent: Loss { loss(of: .logContent) }

    private func loss(_ reading: Reading) -> Loss? {
        if reading.isLost { return loss(of: .file) }
        switch reading.watch.finding {
        case .gone: return loss(of: .logName)
        case .cut: return lossOfContent
        case .whole, .empty: return nil
        }
    }

    private func loss(of part: Loss.Part) -> Loss {
        let log = options.path + "-wal"
        let sentence =
            switch part {
            case .file:
                "the store's file \(options.path) was removed, emptied or replaced under the running gateway, which goes on with one that "
                    + "no other program sees; what is taken would be lost: stop the gateway, and put a backup in its place (chapar restore)"
            case .logName:
                "the store's write-ahead log \(log) was removed or replaced under the running gateway, which goes on with one that no "
                    + "other program sees: stop the gateway in order (SIGTERM), which moves what it has into the store; after a kill it is lost"
            case .logContent:
                "the store's write-ahead log \(log) was cut, emptied or written over under the running gateway; what was in it is lost, "
                    + "and what is taken would be: stop the gateway, and put a backup in the store's place (chapar restore)"
            }
        return Loss(part: part, sentence: sentence)
    }

    /// Returns why no new work fits; nil when it does.
    func refusal(now: Int64) -> String? {
        let reading = reading(now: now)
        if let loss = loss(reading) { return loss.sentence }
        if options.maximumBytes > 0, reading.used >= options.maximumBytes {
            return
                "the store uses \(reading.used >> 20) MiB of the \(options.maximumBytes >> 20) MiB "
                + "of max_bytes; wait until older notifications are removed, shorten retention or raise max_bytes"
        }
        if reading.log >= options.largestLogBytes {
            return "the store's write-ahead log has \(reading.log >> 20) MiB, since something reads the file for long"
        }
        guard let free = reading.free, free < options.minimumFreeBytes else { return nil }
        // Rows fit into free pages of the file; the log, which is written first, needs some space outside.
        let room = free.adding(clamping: reading.usage.free)
        if free >= options.minimumFreeBytes / 4, room >= options.minimumFreeBytes { return nil }
        return
            "the disk of \(options.path) has \(free >> 20) MiB left, below the \(options.minimumFreeBytes >> 20) MiB "
            + "that are kept back; make room or lower min_free_bytes"
    }

    private static func bytes(of path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(clamping: status.st_size) : 0
    }
}

/// The space that a file system reports.
package enum FileSystemSpace {
    /// The free bytes of the file system that holds a path; nil when they cannot be known.
    @Sendable package static func freeBytes(at path: String) -> Int64? {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        return freeBytes(of: status)
    }

    /// The free bytes in a result of `statvfs`; nil when it has no sizes, since some network and user-space file
    /// systems report no blocks at all.
    static func freeBytes(of status: statvfs) -> Int64? {
        guard status.f_blocks > 0 else { return nil }
        return Int64(clamping: status.f_bavail).multiplied(clamping: Int64(clamping: status.f_frsize))
    }
}
