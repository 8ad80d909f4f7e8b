internal import Glibc

/// How many file descriptors the process may have, and how they are shared: whoever calls must not take those with which
/// platforms are reached and files written.
enum FileDescriptors {
    /// Kept for platforms, the store, logs and the program itself: a quarter, and at least so many.
    private static let leastReserve = 256

    /// The process's limit; `.max` when there is none.
    static var limit: Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0,
            limit.rlim_cur < rlim_t(clamping: Int.max)
        else { return .max }
        return Int(limit.rlim_cur)
    }

    /// The most connections that are taken, of those that are wanted, under a limit.
    static func connections(wanted: Int, limit: Int) -> Int {
        guard limit < .max else { return wanted }
        return max(16, min(wanted, limit - max(leastReserve, limit / 4)))
    }
}
