internal import Foundation

/// How long the machine has been up, which setting its clock does not change: the measure for the time between two
/// processes.
package struct BootTime: Sendable, Hashable {
    /// Which start of the machine it counts from.
    package var boot: Int64
    /// What has passed since then, in milliseconds, time asleep included.
    package var uptime: Int64

    /// Makes a time.
    package init(boot: Int64, uptime: Int64) { (self.boot, self.uptime) = (boot, uptime) }

    /// The machine's own; nil where the system does not tell its starts apart (`proc_sys_kernel(5)`, random/boot_id).
    static var current: BootTime? {
        guard let boot = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8),
            let uptime = CLibrary.uptime
        else { return nil }
        return BootTime(boot: Int64(bitPattern: StableHash.of(boot)), uptime: uptime.inMilliseconds)
    }
}

/// A clock that knows for how long its machine has been up.
package protocol BootTimeSource: TimeSource {
    /// The time since the machine was started; nil where that is not known.
    var bootTime: BootTime? { get }
}

extension SystemTime: BootTimeSource {
    package var bootTime: BootTime? { BootTime.current }
}
