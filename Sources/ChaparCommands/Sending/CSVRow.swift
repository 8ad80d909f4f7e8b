import ChaparCore

/// The request of the API that is made from a row of a table with headings.
///
/// An empty field sets nothing.
enum CSVRow {
    private static let audience = ["service", "token", "to", "user", "device"]
    private static let content = ["title", "subtitle", "body", "image", "sound", "category", "click_url"]
    private static let options = ["priority", "collapse_id", "send_at"]
    private static let names = audience + content + options + ["badge", "ttl", "app", "route", "backend"]

    /// Throws for headings that have no meaning.
    static func check(_ headings: [String], _ place: String) throws(CommandFailure) {
        for heading in headings where !names.contains(heading) && !heading.hasPrefix("data.") {
            let isAudience = ["topic", "topics", "tag", "tags", "segment"].contains(heading.lowercased())
            let meant = isAudience ? nil : CSVHeading.meant(by: heading, among: names)
            var hint = meant.map { "Did you mean \"\($0)\"? " } ?? ""
            if isAudience {
                hint = "A table has people and devices; for a topic or a segment write NDJSON, one request a line. "
            } else if meant == nil, !headings.contains(where: { names.contains($0) || $0.hasPrefix("data.") }) {
                hint = "The first line names the columns. "
            }
            throw CommandFailure(
                "\(place): unknown heading \"\(heading)\". \(hint)Known: \(names.joined(separator: ", ")), data.NAME.",
                .usage
            )
        }
        var seen: Set<String> = []
        for heading in headings where !seen.insert(heading).inserted {
            throw CommandFailure("\(place): the heading \"\(heading)\" stands twice", .usage)
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
        request["to"] = try audience(values)
        if !content.isEmpty { request["content"] = .object(content) }
        if !options.isEmpty { request["options"] = .object(options) }
        request["app"] = values["app"].map { .string($0) }
        request["route"] = values["route"].map { .string($0) }
        request["backend"] = values["backend"].map { .string($0) }
        return request
    }

    private static func audience(_ values: [String: String]) throws(CommandFailure) -> JSONValue? {
        let forms = ["to", "token", "user", "device"].filter { values[$0] != nil }
        guard forms.count < 2 else {
            throw CommandFailure("say in one column who gets it, not in \(forms.joined(separator: " and "))", .usage)
        }
        if let user = values["user"] { return ["users": [.string(user)]] }
        if let device = values["device"] { return ["devices": [.string(device)]] }
        return try recipient(values).map { ["tokens": [$0]] }
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

/// Headings of other programs' exports that mean one of ours.
enum CSVHeading {
    private static let others: [String: [String]] = [
        "device_id": ["device", "id"], "deviceid": ["device", "id"], "player_id": ["device", "id"],
        "subscription_id": ["device", "id"], "user_id": ["user"], "userid": ["user"],
        "external_id": ["user"], "external_user_id": ["user"], "device_token": ["token"], "push_token": ["token"],
        "registration_id": ["token"], "message": ["body"], "text": ["body"], "content": ["body"], "subject": ["title"],
        "heading": ["title"], "url": ["click_url"], "picture": ["image"], "timezone": ["time_zone"],
        "language": ["locale"], "provider": ["service"],
    ]

    /// Returns the known heading that another one stands for, or is a misspelling of; nil for none.
    static func meant(by heading: String, among known: [String]) -> String? {
        let plain = String(heading.lowercased().map { $0 == " " || $0 == "-" ? "_" : $0 })
        if known.contains(plain) { return plain }
        if let other = others[plain]?.first(where: known.contains) { return other }
        return Suggestion.nearest(to: heading, among: known)
    }
}
