import Foundation
import Logging
import SimulationDisk

/// The events of a run, line by line; its hash is the run's.
final class Trace: @unchecked Sendable {
    private var sum = FNV1a()
    var hash: UInt64 { sum.value }
    var scheduler: Scheduler?
    private let isPrinted: Bool

    init(isPrinted: Bool = false) { self.isPrinted = isPrinted }

    func record(_ text: String) {
        // The folder has the number of the process in its name.
        let text = text.contains("/tmp/") ? text.replacing(FaultyDisk.folder, with: "") : text
        sum.add(UInt64(scheduler?.now ?? 0))
        sum.add(UInt64(scheduler?.steps ?? 0))
        sum.add(text)
        guard isPrinted else { return }
        let seconds = Double((scheduler?.now ?? 0) - 1_000_000_000_000) / 1e9
        print("\(String(format: "%10.4f", seconds)) \(scheduler?.steps ?? 0)  \(text)")
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
            trace.record("log \(event.level): \(event.message) \(words.joined(separator: " "))")
        }
    }
}
