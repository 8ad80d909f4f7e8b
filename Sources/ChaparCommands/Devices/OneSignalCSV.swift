import Foundation
import ChaparCore

/// The rows of OneSignal's export of subscriptions (`csv_export`), as devices of the registry.
///
/// An unsubscribed one becomes a device without user and token, so that nothing reaches it, also when an earlier import
/// had it subscribed. A type of device that no backend takes is left out.
enum OneSignalCSV {
    /// The member of an object that stands for a subscription that is left out: the reason.
    static let leftOut = "left_out"

    /// The types of devices that can be imported, by OneSignal's number.
    private static let types: [Int: (platform: String, service: String)] = [
        0: ("ios", "ios-apns"), 1: ("android", "android-firebase"), 13: ("android", "android-huawei"),
    ]
    /// The names of the other types, which no backend takes the tokens of.
    private static let others: [Int: String] = [
        2: "fire_os", 3: "windows_phone", 4: "chrome_extension", 5: "web", 6: "windows", 7: "web", 8: "web", 9: "macos",
        10: "alexa", 11: "email", 14: "sms", 17: "web",
    ]
    /// The types of browsers with Web Push, which are imported where the export has the keys of the subscription.
    private static let browsers: Set<Int> = [5, 8, 17]
    /// Columns that become attributes, with the attribute's name.
    private static let attributes = ["device_os": "os_version", "device_model": "model", "country": "country"]

    /// Throws for headings that are not those of an export; unknown columns are left out.
    static func check(_ headings: [String], _ place: String) throws(CommandFailure) {
        for needed in ["id", "identifier", "device_type"] where !headings.contains(needed) {
            throw CommandFailure(
                "\(place): there is no column \(needed), so it is not OneSignal's export of subscriptions",
                .usage
            )
        }
        guard headings.contains("invalid_identifier") || headings.contains("notification_types") else {
            throw CommandFailure(
                "\(place): there is neither invalid_identifier nor notification_types, so nothing says who unsubscribed: "
                    + "export again, all columns",
                .usage
            )
        }
        for (position, heading) in headings.enumerated() where headings[..<position].contains(heading) {
            throw CommandFailure("\(place): the heading \"\(heading)\" stands twice", .usage)
        }
    }

    /// Returns the device of a row, or an object with ``leftOut`` alone.
    static func device(_ headings: [String], _ fields: [String]) throws(CommandFailure) -> JSONObject {
        let filled = zip(headings, fields).filter { !$0.1.isEmpty }
        var row = Dictionary(filled.map { ($0.0, $0.1) }) { first, _ in first }
        guard let id = row["id"] else { throw CommandFailure("has no id", .usage) }
        guard let number = row["device_type"].flatMap({ Int($0) }) else {
            throw CommandFailure("device_type must be a number", .usage)
        }
        var found = types[number]
        if browsers.contains(number), let subscription = subscription(row) {
            found = ("web", "web-push")
            row["identifier"] = subscription
        }
        guard let type = found else { return [leftOut: .string(others[number] ?? "unknown_type")] }
        guard try isSubscribed(row) else {
            return [
                "id": .string(id), "platform": .string(type.platform), "attributes": ["notifications_allowed": false],
            ]
        }
        guard let token = row["identifier"] else { return [leftOut: "no_token"] }
        let seen = try time("last_active", row)
        // Of the same token on two devices the one that was active later keeps it, in any order of the rows.
        var held: JSONObject = ["token": .string(try checked(token, of: type.service))]
        held["registered_at"] = seen
        var device: JSONObject = [
            "id": .string(id), "platform": .string(type.platform), "tokens": [type.service: .object(held)],
        ]
        device["user"] = row["external_user_id"].map { .string($0) }
        device["locale"] = row["language"].map { .string($0) }
        device["time_zone"] = row["timezone_id"].map { .string($0) }
        device["app_version"] = row["game_version"].map { .string($0) }
        device["last_seen"] = seen
        device["created_at"] = try time("created_at", row)
        device["tags"] = try tags(row["tags"])
        var values = JSONObject()
        for (column, name) in attributes.sorted(by: { $0.value < $1.value }) {
            values[name] = row[column].map { .string($0) }
        }
        // An offset alone says nothing of summer time, so it is no time zone.
        if row["timezone_id"] == nil { values["utc_offset"] = row["timezone"].map { .string($0) } }
        if !values.isEmpty { device["attributes"] = .object(values) }
        return device
    }

    /// Returns a browser's subscription as the text of its JSON; nil without an address or the keys.
    private static func subscription(_ row: [String: String]) -> String? {
        guard let endpoint = row["identifier"], endpoint.hasPrefix("https://"), let auth = row["web_auth"],
            let point = row["web_p256"]
        else { return nil }
        let keys: JSONValue = ["p256dh": .string(point), "auth": .string(auth)]
        return JSONValue.object(["endpoint": .string(endpoint), "keys": keys]).text
    }

    /// Returns whether nothing in a row says that it is unsubscribed; throws when nothing says anything.
    private static func isSubscribed(_ row: [String: String]) throws(CommandFailure) -> Bool {
        guard row["notification_types"] != nil || row["invalid_identifier"] != nil else {
            throw CommandFailure("does not say whether it is subscribed: invalid_identifier is empty", .usage)
        }
        if let text = row["notification_types"] {
            guard let number = Int(text) else {
                throw CommandFailure("notification_types must be a whole number", .usage)
            }
            if number <= 0 { return false }
        }
        switch row["invalid_identifier"]?.lowercased() {
        case nil, "f", "false", "0": return true
        case "t", "true", "1": return false
        default: throw CommandFailure("invalid_identifier must be t or f", .usage)
        }
    }

    private static func checked(_ token: String, of service: String) throws(CommandFailure) -> String {
        guard service == "ios-apns" else {
            guard !token.contains(where: \.isWhitespace) else {
                throw CommandFailure("identifier has a blank and is no token of \(service)", .usage)
            }
            return token
        }
        let bytes = token.utf8
        let isHexadecimal = bytes.allSatisfy { Character(UnicodeScalar($0)).isHexDigit }
        guard isHexadecimal, bytes.count >= 64, bytes.count % 2 == 0 else {
            throw CommandFailure("identifier is no token of APNs, which has 64 or more hexadecimal digits", .usage)
        }
        return token.lowercased()
    }

    /// Returns the tags, `key:value` each, or the key alone for an empty value.
    private static func tags(_ text: String?) throws(CommandFailure) -> JSONValue? {
        guard let text else { return nil }
        guard let object = try? JSONValue(parsing: Array(text.utf8)), let members = object.objectValue else {
            throw CommandFailure("tags must be a JSON object", .usage)
        }
        let tags = members.compactMap { name, value -> JSONValue? in
            switch value {
            case .null, .string(""): .string(name)
            case .string(let text): .string("\(name):\(text)")
            case .bool, .integer, .double: .string("\(name):\(value.text)")
            case .array, .object: nil
            }
        }
        guard tags.count == members.count else {
            throw CommandFailure("the value of a tag must be a text or a number", .usage)
        }
        return tags.isEmpty ? nil : .array(tags)
    }

    /// Returns a time as the API takes it; without a zone it is UTC.
    private static func time(_ column: String, _ row: [String: String]) throws(CommandFailure) -> JSONValue? {
        guard let text = row[column] else { return nil }
        if let time = RFC3339.parse(text) { return .string(RFC3339.string(time)) }
        if let seconds = Int64(text), (0..<253_402_300_800).contains(seconds) {
            return .string(RFC3339.string(Date(timeIntervalSince1970: Double(seconds))))
        }
        var plain = text
        for zone in [" UTC", " +0000"] where plain.hasSuffix(zone) { plain.removeLast(zone.count) }
        guard let blank = plain.firstIndex(of: " ") else { throw wrong(column) }
        plain.replaceSubrange(blank...blank, with: "T")
        guard let time = RFC3339.parse(plain + "Z") else { throw wrong(column) }
        return .string(RFC3339.string(time))
    }

    private static func wrong(_ column: String) -> CommandFailure {
        CommandFailure("\(column) is no time such as 2026-11-21 07:44:06 UTC", .usage)
    }
}

extension InputFile.Rows {
    /// The meaning of rows of OneSignal's export.
    static var oneSignal: InputFile.Rows {
        InputFile.Rows(check: OneSignalCSV.check, object: OneSignalCSV.device, option: "--from onesignal")
    }
}
