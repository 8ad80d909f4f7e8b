internal import Foundation

/// The machine's uptime, which setting its clock does not change; it measures the time between two processes.
package struct BootTime: Sendable, Hashable {
    /// The start of the machine that it counts from.
    package var boot: Int64
    /// The milliseconds since then, time asleep included.
    package var uptime: Int64

    /// Makes a time.
    package init(boot: Int64, uptime: Int64) { (self.boot, self.uptime) = (boot, uptime) }

    /// The machine's own; nil where the system does not identify its starts (`proc_sys_kernel(5)`, random/boot_id).
    static var current: BootTime? {
        guard let boot = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8),
            let uptime = CLibrary.uptime
        else { return nil }
        return BootTime(boot: Int64(bitPattern: StableHash.of(boot)), uptime: uptime.inMilliseconds)
    }
}

/// A clock that knows its machine's uptime.
package protocol BootTimeSource: TimeSource {
    /// The time since the machine was started; nil where that is unknown.
    var bootTime: BootTime? { get }
}

extension SystemTime: BootTimeSource {
    package var bootTime: BootTime? { BootTime.current }
}
