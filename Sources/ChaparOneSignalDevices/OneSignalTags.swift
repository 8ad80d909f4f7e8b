package import ChaparCore

/// The rules of OneSignal's tags: values are texts, an empty one removes the tag, some names are reserved.
///
/// The registrars of OneSignal and IDPush check and cut tags with it.
package enum OneSignalTags {
    /// Names that collide with templates.
    package static let reserved: Set<String> = [
        "message", "notification", "subscription", "user", "template", "app", "org", "dynamic_content", "data_feed",
        "journey", "custom_data",
    ]
    /// The most changes in one request.
    package static let limit = 100
    /// The longest value, in bytes; OneSignal advises about 1 KB for all.
    package static let longestValue = 1_024

    /// Returns the findings about tags, each with its place.
    package static func issues(_ tags: JSONObject) -> [Finding] {
        tags.compactMap { name, value in
            fault(name, value).map {
                Finding(pointer: "#/\(name.jsonPointerStep)", code: $0.code, detail: $0.detail)
            }
        }
    }

    /// Returns the requests that set the tags, sorted by name; throws with the name of a tag that cannot be set.
    package static func requests(_ tags: JSONObject) throws(PushError) -> [JSONObject] {
        var requests: [JSONObject] = []
        for (name, value) in tags.sorted(by: { $0.name < $1.name }) {
            if let fault = fault(name, value) { throw PushError(.invalidRequest, fault.detail, reason: fault.code) }
            if requests.last.map({ $0.count == limit }) ?? true { requests.append(JSONObject()) }
            requests[requests.count - 1][name] = .string(DeviceRecord.tagText(value) ?? "")
        }
        return requests
    }

    private static func fault(_ name: String, _ value: JSONValue) -> (code: String, detail: String)? {
        guard !name.allSatisfy(\.isWhitespace), name.utf8.count <= 128 else {
            return ("bad_tag_name", "A tag's name has 1 to 128 bytes.")
        }
        guard !reserved.contains(name) else {
            return ("reserved_tag", "OneSignal keeps the tag name \(name) for itself.")
        }
        guard let text = DeviceRecord.tagText(value) else {
            return (
                "bad_tag_value",
                "The tag \(name) holds what is no single value: OneSignal takes texts, numbers, true and false."
            )
        }
        guard text.utf8.count <= longestValue else {
            return ("bad_tag_value", "The tag \(name) has \(text.utf8.count) bytes: at most \(longestValue).")
        }
        return nil
    }
}

extension DeviceRecord {
    /// Returns a tag value as text; nil for a value that cannot be one.
    package static func tagText(_ value: JSONValue) -> String? {
        switch value {
        case .null: ""
        case .bool(let flag): flag ? "true" : "false"
        case .integer(let number): String(number)
        case .double(let number): number.isFinite ? value.text : nil
        case .string(let text): text
        case .array, .object: nil
        }
    }
}
