import Foundation
import Logging
import PushCore

/// Writes log lines to stderr: for people, or one JSON object a line.
///
/// Values arrive as text already: secrets are types that print redacted.
struct LogOutput: LogHandler {
    /// The form of a line.
    enum Format {
        case text
        case json
    }

    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level
    private let label: String
    private let format: Format

    init(label: String, format: Format, level: Logger.Level) {
        self.label = label
        self.format = format
        logLevel = level
    }

    /// A logger that writes this way.
    static func logger(_ label: String, _ format: Format, _ level: Logger.Level) -> Logger {
        Logger(label: label) { LogOutput(label: $0, format: format, level: level) }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        switch format {
        case .json: Shell.complain(json(event, all))
        case .text: Shell.complain(text(event, all))
        }
    }

    private func json(_ event: LogEvent, _ metadata: [(key: String, value: Logger.MetadataValue)]) -> String {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("at")
        RFC3339.write(Date(), to: &writer)
        writer.name("level")
        writer.string(event.level.rawValue)
        writer.name("label")
        writer.string(label)
        writer.name("message")
        writer.string("\(event.message)")
        for (key, value) in metadata {
            writer.name(key)
            writer.string("\(value)")
        }
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private func text(_ event: LogEvent, _ metadata: [(key: String, value: Logger.MetadataValue)]) -> String {
        let level = event.level.rawValue.padding(toLength: 8, withPad: " ", startingAt: 0)
        let pairs = metadata.map { " \($0.key)=\(Self.quoted("\($0.value)"))" }.joined()
        return "\(RFC3339.string(Date())) \(level) \(event.message)\(pairs)"
    }

    /// The value in quotes when it has blanks or control characters, so that a line stays one line.
    private static func quoted(_ value: String) -> String {
        let isPlain = value.unicodeScalars.allSatisfy { $0.value > 32 && $0 != "\"" }
        return isPlain && !value.isEmpty ? value : JSONValue.string(value).text
    }
}
