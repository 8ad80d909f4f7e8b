import Foundation
import ChaparCore

/// Devices as rows of a CSV file.
///
/// Tags share a field, separated by `|`; each service has a column for its token.
enum DeviceCSV {
    private static let texts = [
        "id", "user", "platform", "locale", "app_version", "time_zone", "last_seen", "created_at",
    ]
    private static let services = TokenService.known.map(\.rawValue)

    /// The headings.
    static let columns = texts + ["tags"] + services

    /// Throws for headings that have no meaning.
    static func check(_ headings: [String], _ place: String) throws(CommandFailure) {
        if headings.contains("identifier"), headings.contains("device_type") {
            let sentence = "looks like OneSignal's export of subscriptions: add --from onesignal"
            throw CommandFailure("\(place): \(sentence)", .usage)
        }
        for (position, heading) in headings.enumerated() {
            guard columns.contains(heading) || TokenService.named(heading) != nil else {
                let isNone = !headings.contains { columns.contains($0) || TokenService.named($0) != nil }
                let hint =
                    CSVHeading.meant(by: heading, among: columns).map { "Did you mean \"\($0)\"? " }
                    ?? (isNone ? "The first line names the columns. " : "")
                throw CommandFailure(
                    "\(place): unknown heading \"\(heading)\". \(hint)Known: \(columns.joined(separator: ", ")).",
                    .usage
                )
            }
            if headings[..<position].contains(heading) {
                throw CommandFailure("\(place): the heading \"\(heading)\" stands twice", .usage)
            }
        }
        guard headings.contains("id") else { throw CommandFailure("\(place): there is no column id", .usage) }
    }

    /// Returns the device of a row; an empty field sets nothing.
    static func device(_ headings: [String], _ fields: [String]) throws(CommandFailure) -> JSONObject {
        var device = JSONObject()
        var tokens = JSONObject()
        for (heading, field) in zip(headings, fields) where !field.isEmpty {
            switch heading {
            case "tags":
                let tags = plain(field).unicodeScalars.split(separator: "|").map { JSONValue.string(String($0)) }
                device["tags"] = .array(tags)
            case _ where TokenService.named(heading) != nil: tokens[heading] = .string(plain(field))
            default: device[heading] = .string(plain(field))
            }
        }
        if !tokens.isEmpty { device["tokens"] = .object(tokens) }
        return device
    }

    /// Returns the row of a device; its dead tokens are left out and counted.
    static func row(_ device: JSONValue, _ dead: inout Int) throws -> String {
        var fields = texts.map { device[$0]?.stringValue ?? "" }
        let tags = (device["tags"]?.arrayValue ?? []).compactMap(\.stringValue)
        if let tag = tags.first(where: { $0.utf8.contains(UInt8(ascii: "|")) }) {
            throw CommandFailure("the tag \"\(tag)\" holds a |, which separates tags in CSV: export as NDJSON", .usage)
        }
        fields.append(tags.joined(separator: "|"))
        let others = (device["tokens"]?.objectValue ?? JSONObject()).map(\.name).filter { !services.contains($0) }
        if let other = others.first {
            throw CommandFailure("\(other) has no column in CSV: export as NDJSON", .usage)
        }
        for service in services {
            let token = device["tokens"]?[service]
            if token?["alive"]?.boolValue == false {
                dead += 1
                fields.append("")
            } else {
                fields.append(token?["token"]?.stringValue ?? "")
            }
        }
        return fields.map(inert).map(CSV.quoted).joined(separator: ",")
    }

    /// The first characters that make a spreadsheet treat a field as a formula, and the mark that makes it text.
    private static let active: Set<UInt8> = Set("=+-@\t\r'".utf8)

    /// Returns the field, with the mark of a text before it where a spreadsheet would calculate it.
    private static func inert(_ field: String) -> String {
        field.utf8.first.map(active.contains) ?? false ? "'" + field : field
    }

    /// Returns the field without the mark that ``inert(_:)`` put before it.
    private static func plain(_ field: String) -> String {
        let bytes = field.utf8
        guard bytes.first == UInt8(ascii: "'"), let second = bytes.dropFirst().first, active.contains(second) else {
            return field
        }
        return String(field.unicodeScalars.dropFirst())
    }
}

extension InputFile.Rows {
    /// The meaning of rows that hold devices.
    static var devices: InputFile.Rows {
        InputFile.Rows(check: DeviceCSV.check, object: DeviceCSV.device, option: "--format csv")
    }
}
