import Foundation
import Logging
import ChaparCore
import ChaparGateway
import Synchronization

/// Writes log lines to stderr: for people, or one JSON object a line.
///
/// In JSON numbers and Booleans are values of these types, lists are arrays. Secrets are types that print redacted.
struct LogOutput: LogHandler {
    /// The level and format of logs, shared by all loggers of the program, so that a reload can change them.
    final class Settings: Sendable {
        private let current: Mutex<GatewayConfiguration.Log>

        init(_ log: GatewayConfiguration.Log = .init()) { current = Mutex(log) }

        /// Puts other settings in force.
        func replace(_ log: GatewayConfiguration.Log) { current.withLock { $0 = log } }

        var level: Logger.Level { Logger.Level(rawValue: current.withLock { $0.level }) ?? .info }
        var format: GatewayConfiguration.Log.Format { current.withLock { $0.format } }

        /// Returns a logger that follows these settings.
        func logger(_ label: String = "chapar") -> Logger {
            Logger(label: label) { LogOutput(label: $0, settings: self) }
        }
    }

    var metadata: Logger.Metadata = [:]
    private var ownLevel: Logger.Level?
    private let label: String
    private let settings: Settings

    init(label: String, settings: Settings) {
        self.label = label
        self.settings = settings
    }

    var logLevel: Logger.Level {
        get { ownLevel ?? settings.level }
        set { ownLevel = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { Shell.complain(line(event)) }

    /// Returns the line of an event, always a single line.
    func line(_ event: LogEvent) -> String {
        let all = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        let line =
            switch settings.format {
            case .json: json(event, all)
            case .text: text(event, all)
            }
        return line.withoutInvisibleControls
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
            writer.raw(Self.json(value).bytes)
        }
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Returns a value of metadata with its type; what has none of JSON's is a text.
    private static func json(_ value: Logger.MetadataValue) -> JSONValue {
        switch value {
        case .string(let text): .string(text)
        case .array(let values): .array(values.map(json))
        case .dictionary(let members):
            .object(
                members.sorted { $0.key < $1.key }.reduce(into: JSONObject()) { $0[$1.key] = json($1.value) }
            )
        case .stringConvertible(let value):
            switch value {
            case let flag as Bool: .bool(flag)
            case let number as any BinaryInteger: Int64(exactly: number).map { .integer($0) } ?? .string("\(number)")
            case let number as Double: number.isFinite ? .double(number) : .string("\(number)")
            default: .string("\(value)")
            }
        }
    }

    private func text(_ event: LogEvent, _ metadata: [(key: String, value: Logger.MetadataValue)]) -> String {
        let level = event.level.rawValue.padding(toLength: 8, withPad: " ", startingAt: 0)
        let pairs = metadata.map { " \($0.key)=\(Self.quoted("\($0.value)"))" }.joined()
        return "\(RFC3339.string(Date())) \(level) \(event.message)\(pairs)"
    }

    /// Returns the value, in quotes when it has blanks or control characters, so that a line stays one line.
    private static func quoted(_ value: String) -> String {
        let isPlain = value.unicodeScalars.allSatisfy { $0.value > 32 && $0 != "\"" }
        return isPlain && !value.isEmpty ? value : JSONValue.string(value).text
    }
}
