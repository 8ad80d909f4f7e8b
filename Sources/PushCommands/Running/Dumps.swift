import CProcess
import PushCore

/// Keeps credentials out of files that nobody asked for.
enum Dumps {
    /// Lets the process end without a core dump, and lets no other process of its user read its memory.
    ///
    /// Every command begins with it, since nearly all read credentials. Debuggers need root after it.
    static func forbid() {
        _ = CLibrary.Limit.coreDump.set(now: 0, most: 0)
        _ = forbid_dumps()
    }
}
