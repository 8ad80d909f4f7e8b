import CChaparProcess
import ChaparCore

/// Keeps credentials out of core dumps and away from other processes.
enum Dumps {
    /// Makes the process end without a core dump, and keeps other processes of its user from reading its memory.
    ///
    /// Every command begins with it, since nearly all read credentials. From then on a debugger needs root.
    static func forbid() {
        _ = CLibrary.Limit.coreDump.set(now: 0, most: 0)
        _ = forbid_dumps()
    }
}
