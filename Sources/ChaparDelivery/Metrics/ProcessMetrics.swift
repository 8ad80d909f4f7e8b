package import Foundation

/// The metrics of the process that every Prometheus client has, under the names that dashboards expect.
package enum ProcessMetrics {
    /// Writes them, without those that the system does not provide.
    package static func write(to text: inout PrometheusText, startedAt: Date) {
        text.begin(.processStart)
        text.sample(.processStart, startedAt.timeIntervalSince1970)
        if let pages = residentPages() {
            text.begin(.processMemory)
            text.sample(.processMemory, Double(pages * sysconf(Int32(_SC_PAGESIZE))))
        }
        text.begin(.processCPU)
        text.sample(.processCPU, Double(clock()) / 1e6)  // POSIX fixes CLOCKS_PER_SEC.
    }

    private static func residentPages() -> Int? {
        guard let file = fopen("/proc/self/statm", "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, Int32(clamping: line.count), file) != nil else { return nil }
        let fields = line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }.split(separator: UInt8(ascii: " "))
        return fields.count > 1 ? Int(String(decoding: fields[1], as: UTF8.self)) : nil
    }
}
