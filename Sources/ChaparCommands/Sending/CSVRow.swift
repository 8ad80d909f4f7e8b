import ChaparCore

/// Reads and writes records of comma-separated values (RFC 4180).
enum CSV {
    /// Returns the fields; doubled quotation marks within a quoted field stand for one.
    ///
    /// It works on Unicode scalars: to Swift a comma and a combining mark after it are one character, which is no
    /// comma.
    static func fields(_ record: String) -> [String] {
        var fields: [String] = []
        var field = String.UnicodeScalarView()
        var isQuoted = false
        var rest = record.unicodeScalars.makeIterator()
        var pending = rest.next()
        while let scalar = pending {
            pending = rest.next()
            switch (scalar, isQuoted) {
            case ("\"", true) where pending == "\"":
                field.append("\"")
                pending = rest.next()
            case ("\"", true): isQuoted = false
            case ("\"", false) where field.isEmpty: isQuoted = true
            case (",", false):
                fields.append(String(field))
                field = String.UnicodeScalarView()
            default: field.append(scalar)
            }
        }
        fields.append(String(field))
        return fields
    }

    /// Returns a field as it stands in a record: in quotation marks where it needs them.
    static func quoted(_ field: String) -> String {
        let needsMarks: [UInt8] = [UInt8(ascii: ","), UInt8(ascii: "\""), UInt8(ascii: "\n"), UInt8(ascii: "\r")]
        guard field.utf8.contains(where: needsMarks.contains) else { return field }
        var quoted = "\"".unicodeScalars
        for scalar in field.unicodeScalars {
            if scalar == "\"" { quoted.append(scalar) }
            quoted.append(scalar)
        }
        return String(quoted) + "\""
    }
}

/// The request of the API that a row with headings stands for.
///
/// An empty field sets nothing.
enum CSVRow {
    private static let audience = ["service", "token", "to"]
    private static let content = ["title", "subtitle", "body", "image", "sound", "category", "click_url"]
    private static let options = ["priority", "collapse_id", "send_at"]
    private static let names = audience + content + options + ["badge", "ttl", "app", "route", "backend"]

    /// Throws for headings that have no meaning.
    static func check(_ headings: [String], _ file: String) throws(CommandFailure) {
        for heading in headings where !names.contains(heading) && !heading.hasPrefix("data.") {
            let hint = Suggestion.nearest(to: heading, among: names).map { "Did you mean \"\($0)\"? " } ?? ""
            throw CommandFailure(
                "\(file):1: unknown heading \"\(heading)\". \(hint)Known: \(names.joined(separator: ", ")), data.NAME.",
                .usage
            )
        }
        var seen: Set<String> = []
        for heading in headings where !seen.insert(heading).inserted {
            throw CommandFailure("\(file):1: the heading \"\(heading)\" stands twice", .usage)
        }
    }

    /// Returns the request of one row.
    static func request(_ headings: [String], _ fields: [String]) throws(CommandFailure) -> JSONObject {
        var values: [String: String] = [:]
        var content = JSONObject()
        var options = JSONObject()
        var data = JSONObject()
        for (heading, field) in zip(headings, fields) where !field.isEmpty {
            values[heading] = field
            if Self.content.contains(heading) { content[heading] = .string(field) }
            if Self.options.contains(heading) { options[heading] = .string(field) }
            if heading.hasPrefix("data.") { data[String(heading.dropFirst(5))] = .string(field) }
        }
        content["badge"] = try number("badge", values)
        options["ttl"] = try number("ttl", values)
        if !data.isEmpty { content["data"] = .object(data) }
        var request = JSONObject()
        if let recipient = try recipient(values) { request["to"] = ["tokens": [recipient]] }
        if !content.isEmpty { request["content"] = .object(content) }
        if !options.isEmpty { request["options"] = .object(options) }
        request["app"] = values["app"].map { .string($0) }
        request["route"] = values["route"].map { .string($0) }
        request["backend"] = values["backend"].map { .string($0) }
        return request
    }

    private static func recipient(_ values: [String: String]) throws(CommandFailure) -> JSONValue? {
        if let to = values["to"] {
            guard let (service, token) = to.halves(at: ":") else {
                throw CommandFailure("\"to\" must be service:token", .usage)
            }
            return ["token": .string(token), "service": .string(service)]
        }
        guard let token = values["token"] else { return nil }
        guard let service = values["service"] else {
            throw CommandFailure("a token needs its service, such as ios-apns", .usage)
        }
        return ["token": .string(token), "service": .string(service)]
    }

    private static func number(_ name: String, _ values: [String: String]) throws(CommandFailure) -> JSONValue? {
        guard let text = values[name] else { return nil }
        guard let number = Int64(text) else {
            throw CommandFailure("\(name) must be a whole number, not \"\(text)\"", .usage)
        }
        return .integer(number)
    }
}
