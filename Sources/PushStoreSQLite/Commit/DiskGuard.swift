import Foundation
import PushCore
import Synchronization

/// Watches the space that the store's files have and take: it looks at most once a second.
///
/// The commit loop asks it before it stores new work, and `health` for its figures. It refuses nothing that ends work.
final class DiskGuard: Sendable {
    /// What the writer found in the database file.
    struct Usage: Sendable {
        /// Bytes of pages that hold something.
        var used: Int64 = 0
        /// Bytes of pages that are free, which new rows take up first.
        var free: Int64 = 0
    }

    private struct Reading {
        /// The free bytes of the file system.
        var free: Int64?
        /// The bytes of the write-ahead log.
        var log: Int64 = 0
        var at: Int64 = .min
        var usage = Usage()
        var usageAt: Int64 = .min
    }

    /// How long a look is good for, in milliseconds.
    private static let interval: Int64 = 1_000

    private let options: SQLiteStoreOptions
    private let last = Mutex(Reading())

    init(_ options: SQLiteStoreOptions) { self.options = options }

    /// Whether the writer is to say what is in the file.
    func wantsUsage(now: Int64) -> Bool {
        last.withLock { $0.usageAt == .min || abs(now - $0.usageAt) >= Self.interval }
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
    func used(now: Int64) -> Int64 {
        let reading = reading(now: now)
        return reading.usage.used + reading.log
    }

    private func reading(now: Int64) -> Reading {
        last.withLock { last in
            if last.at == .min || abs(now - last.at) >= Self.interval {
                last.free = options.freeBytes(options.path)
                last.log = Self.bytes(of: options.path + "-wal")
                last.at = now
            }
            return last
        }
    }

    /// Why no new work fits; nil when it does.
    func refusal(now: Int64) -> String? {
        let reading = reading(now: now)
        if options.maximumBytes > 0, reading.usage.used + reading.log >= options.maximumBytes {
            return
                "the store uses \((reading.usage.used + reading.log) >> 20) MiB of the \(options.maximumBytes >> 20) MiB "
                + "of max_bytes; wait until older notifications are removed, shorten retention or raise max_bytes"
        }
        if reading.log >= options.largestLogBytes {
            return "the store's write-ahead log has \(reading.log >> 20) MiB, since something reads the file for long"
        }
        guard let free = reading.free, free < options.minimumFreeBytes else { return nil }
        // Rows fit into free pages of the file; what is written first, the log, needs some room outside.
        if free >= options.minimumFreeBytes / 4, free + reading.usage.free >= options.minimumFreeBytes { return nil }
        return
            "the disk of \(options.path) has \(free >> 20) MiB left, below the \(options.minimumFreeBytes >> 20) MiB "
            + "that are kept back; make room or lower min_free_bytes"
    }

    /// What the file system says.
    @Sendable static func freeBytes(at path: String) -> Int64? {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        return Int64(status.f_bavail) * Int64(status.f_frsize)
    }

    private static func bytes(of path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }
}
