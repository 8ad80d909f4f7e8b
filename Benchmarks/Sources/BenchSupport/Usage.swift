import Foundation

/// What the process has used: CPU seconds and the peak of its memory in MiB.
public func used() -> (cpu: Double, memory: Double) {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    let seconds = Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
    return (seconds + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6, Double(usage.ru_maxrss) / 1024)
}

/// Prints one JSON line.
public func show(_ line: [String: Any]) throws {
    let text = try JSONSerialization.data(withJSONObject: line, options: .sortedKeys)
    try FileHandle.standardOutput.write(contentsOf: text + [UInt8(ascii: "\n")])
}
