import Foundation

/// How many files and connections the process may have open.
enum OpenFiles {
    /// Takes as many as the system grants without more rights: the soft limit is often 1,024 for the sake of old programs.
    static func raiseLimit() {
        guard var limit = limits, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(files, &limit)
    }

    /// The most that the process can have; nil when that cannot be read.
    static var most: UInt64? { limits.map { UInt64(clamping: $0.rlim_max) } }

    private static let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)

    private static var limits: rlimit? {
        var limit = rlimit()
        return getrlimit(files, &limit) == 0 ? limit : nil
    }
}
