import Foundation
import PushCore
import Synchronization

/// Watches the free space of the store's disk: asked for each commit, it looks at most once a second.
final class DiskGuard: Sendable {
    private struct Reading {
        var free: Int64?
        var at: Int64 = .min
    }

    private let path: String
    private let minimum: Int64
    private let measure: @Sendable (String) -> Int64?
    private let last = Mutex(Reading())

    init(_ options: SQLiteStoreOptions) {
        path = options.path
        minimum = options.minimumFreeBytes
        measure = options.freeBytes
    }

    /// The free bytes as of at most a second ago; nil when they cannot be known.
    func free(now: Int64) -> Int64? {
        last.withLock { last in
            if last.at == .min || abs(now - last.at) >= 1_000 {
                last = Reading(free: measure(path), at: now)
            }
            return last.free
        }
    }

    /// Why no new work fits; nil when it does.
    func refusal(now: Int64) -> String? {
        guard let free = free(now: now), free < minimum else { return nil }
        return "the disk of \(path) has \(free >> 20) MiB left, below the \(minimum >> 20) MiB that are kept back; "
            + "make room or lower minimum_free_bytes"
    }

    /// What the file system says.
    @Sendable static func freeBytes(at path: String) -> Int64? {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        return Int64(status.f_bavail) * Int64(status.f_frsize)
    }
}
