public import Logging
internal import Synchronization

/// A log that keeps its lines at every level, for checks that no secret is logged.
public final class RecordedLog: Sendable {
    private struct Handler: LogHandler {
        let log: RecordedLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let all = metadata.merging(event.metadata ?? [:]) { $1 }
            log.kept.withLock { $0.append("\(event.level) \(event.message) \(all)") }
        }
    }

    private let kept = Mutex<[String]>([])

    /// Makes an empty log.
    public init() {}

    /// A logger that writes here.
    public var logger: Logger { Logger(label: "recorded") { _ in Handler(log: self) } }

    /// The lines logged so far, each with level, message and metadata.
    public var lines: [String] { kept.withLock { $0 } }
}
