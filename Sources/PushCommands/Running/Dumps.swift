import CProcess
import Foundation

/// Keeps credentials out of files that nobody asked for.
enum Dumps {
    /// Lets the process end without a core dump, and lets no other process of its user read its memory.
    ///
    /// Every command begins with it, since nearly all read credentials. Debuggers need root after it.
    static func forbid() {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        _ = forbid_dumps()
    }
}
