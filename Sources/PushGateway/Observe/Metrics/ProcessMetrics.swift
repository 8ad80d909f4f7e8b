internal import Foundation

/// What every Prometheus client shows of its process, under the names that dashboards expect.
enum ProcessMetrics {
    /// Writes them; what the system does not provide is left out.
    static func write(to text: inout PrometheusText, startedAt: Date) {
        text.family("process_start_time_seconds", .gauge, "When the gateway started, in seconds since 1970.")
        text.sample("process_start_time_seconds", startedAt.timeIntervalSince1970)
        if let pages = residentPages() {
            text.family("process_resident_memory_bytes", .gauge, "Memory in use.")
            text.sample("process_resident_memory_bytes", Double(pages * sysconf(Int32(_SC_PAGESIZE))))
        }
        text.family("process_cpu_seconds_total", .counter, "Processor time used.")
        text.sample("process_cpu_seconds_total", Double(clock()) / 1e6)  // POSIX fixes CLOCKS_PER_SEC.
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
