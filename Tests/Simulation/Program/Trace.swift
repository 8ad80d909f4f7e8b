import Foundation
import Logging

/// What happened in a run, line by line; its hash is the run's.
final class Trace: @unchecked Sendable {
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    var scheduler: Scheduler?
    private let isPrinted: Bool

    init(isPrinted: Bool = false) { self.isPrinted = isPrinted }

    func note(_ text: String) {
        let seconds = Double((scheduler?.now ?? 0) - 1_000_000_000_000) / 1e9
        // The folder has the number of the process in its name.
        let text = text.contains("/tmp/") ? text.replacing(WorldDisk.folder, with: "") : text
        let line = "\(String(format: "%10.4f", seconds)) \(scheduler?.steps ?? 0)  \(text)"
        for byte in line.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        if isPrinted { print(line) }
    }

    /// A logger whose lines are part of the trace.
    var logger: Logger {
        var logger = Logger(label: "simulation") { [self] _ in Handler(trace: self) }
        logger.logLevel = .notice
        return logger
    }

    private struct Handler: LogHandler {
        let trace: Trace
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.notice
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let words = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
            trace.note("log \(event.level): \(event.message) \(words.joined(separator: " "))")
        }
    }
}
