import PushCore

/// Tags as OneSignal takes them: texts, an empty one removes, some names are taken.
enum OneSignalTags {
    /// Names that collide with templates.
    static let reserved: Set<String> = [
        "message", "notification", "subscription", "user", "template", "app", "org", "dynamic_content", "data_feed",
        "journey", "custom_data",
    ]
    /// The most changes in one request.
    static let limit = 100
    /// The longest value, in bytes; OneSignal advises about 1 KB for all.
    static let longestValue = 1_024

    /// The requests that set the tags, in the order of their names; throws with the name of a tag that cannot be set.
    static func requests(_ tags: JSONObject) throws(PushError) -> [JSONObject] {
        var requests: [JSONObject] = []
        for (name, value) in tags.sorted(by: { $0.name < $1.name }) {
            guard !name.allSatisfy(\.isWhitespace), name.utf8.count <= 128 else {
                throw PushError(.invalidRequest, "a tag's name has 1 to 128 bytes", reason: "bad_tag_name")
            }
            guard !reserved.contains(name) else {
                throw PushError(
                    .invalidRequest,
                    "OneSignal keeps the tag name \(name) for itself",
                    reason: "reserved_tag"
                )
            }
            guard let text = DeviceRecord.tagText(value) else {
                throw PushError(
                    .invalidRequest,
                    "the tag \(name) holds a list or an object: OneSignal takes texts, numbers, true and false",
                    reason: "bad_tag_value"
                )
            }
            guard text.utf8.count <= longestValue else {
                throw PushError(
                    .invalidRequest,
                    "the tag \(name) has \(text.utf8.count) bytes: at most \(longestValue)",
                    reason: "bad_tag_value"
                )
            }
            if requests.last.map({ $0.count == limit }) ?? true { requests.append(JSONObject()) }
            requests[requests.count - 1][name] = .string(text)
        }
        return requests
    }
}
