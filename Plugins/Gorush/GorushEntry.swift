import ChaparCore

/// One entry of a request's `notifications`, read as gorush reads it.
///
/// Source: gorush 1.22, `notify/notification.go` and its README, read 2026-07.
struct GorushEntry {
    /// The platform that an entry names.
    enum Platform: Int64 {
        case apple = 1
        case google = 2
        case huawei = 3

        /// The word in logs.
        var word: String {
            switch self {
            case .apple: "ios"
            case .google: "android"
            case .huawei: "huawei"
            }
        }
    }

    let object: GoObject
    let platform: Platform?
    let notifID: String?
    let tokens: [String]
    let to: String?
    let message: String?
    let title: String?
    let image: String?
    let topic: String?
    let condition: String?
    let priority: String?
    let isContentAvailable: Bool
    let isContentMutable: Bool
    let data: JSONObject?

    /// Reads an entry, and the types of all its members.
    init(_ json: JSONObject) throws(GoObject.WrongType) {
        object = GoObject(json)
        platform = try object.integer("platform").flatMap { Platform(rawValue: $0) }
        notifID = try object.someText("notif_id")
        tokens = try object.texts("tokens") ?? []
        to = try object.someText("to")
        message = try object.someText("message")
        title = try object.someText("title")
        image = try object.someText("image")
        topic = try object.someText("topic")
        condition = try object.someText("condition")
        priority = try object.someText("priority")
        isContentAvailable = try object.flag("content_available")
        isContentMutable = try object.flag("mutable_content")
        data = try object.object("data")
        try Self.checkTypes(of: object)
        if let alert = try object.object("alert") { try Self.checkAlert(GoObject(alert)) }
    }

    /// The number of its targets, as gorush counts them.
    var count: Int { tokens.count + (topic == nil ? 0 : 1) }

    /// The tokens that it is sent to: `to` of Google's and Huawei's entries is one more, unless it names a topic.
    var recipients: [String] {
        guard platform != .apple, let to, !to.hasPrefix(Self.topicPath) else { return tokens }
        return tokens + [to]
    }

    /// The names of the topics that an entry of Google's or Huawei's is sent to: `topic`, and a topic in `to`.
    var topics: [String] {
        guard platform != .apple else { return [] }
        let named = [topic, to.flatMap { $0.hasPrefix(Self.topicPath) ? $0 : nil }].compactMap { $0 }
        let names = named.map { $0.hasPrefix(Self.topicPath) ? String($0.dropFirst(Self.topicPath.count)) : $0 }
        return names.count == 2 && names[0] == names[1] ? [names[0]] : names
    }

    /// The beginning of a topic's name in Firebase's older API, and in the README's example of `to`.
    private static let topicPath = "/topics/"

    private static let texts = [
        "apns_id", "collapse_id", "push_type", "category", "thread-id", "interruption_level", "name", "event",
        "attributes-type", "huawei_data", "huawei_ttl", "bi_tag", "app_id", "app_secret",
    ]
    private static let integers = [
        "retry", "expiration", "badge", "timestamp", "stale-date", "dismissal-date", "huawei_collapse_key",
        "fast_app_target",
    ]
    private static let objects = [
        "content-state", "attributes", "notification", "android", "webpush", "apns", "fcm_options",
        "huawei_notification",
    ]

    private static func checkTypes(of object: GoObject) throws(GoObject.WrongType) {
        for name in texts { _ = try object.text(name) }
        for name in integers { _ = try object.integer(name) }
        for name in objects { _ = try object.object(name) }
        for name in ["production", "development"] { _ = try object.flag(name) }
        for name in ["volume", "relevance-score"] { _ = try object.number(name) }
        _ = try object.texts("url-args")
    }

    private static func checkAlert(_ alert: GoObject) throws(GoObject.WrongType) {
        for name in [
            "title", "body", "subtitle", "action", "action-loc-key", "launch-image", "loc-key", "title-loc-key",
            "summary-arg",
        ] {
            _ = try alert.text(name)
        }
        for name in ["loc-args", "title-loc-args"] { _ = try alert.texts(name) }
        _ = try alert.integer("summary-arg-count")
    }
}

/// A request to `/api/push`.
enum GorushRequest {
    /// A body that gorush refuses, with its words.
    enum Refusal: Error, Equatable {
        case missing
        case empty
        /// The gateway's own limit; Go reads deeper.
        case tooDeep
        case tooMany(Int, limit: Int)

        var message: String {
            switch self {
            case .missing: "Missing notifications field."
            case .empty: "Notifications field is empty."
            case .tooDeep: "The JSON nests more than \(JSONScanner.maximumDepth) levels deep."
            case .tooMany(let count, let limit): "Number of notifications(\(count)) over limit(\(limit))"
            }
        }
    }

    /// Reads the entries of a body.
    static func entries(_ body: [UInt8], limit: Int) throws(Refusal) -> [GorushEntry] {
        guard let object = GoBody.firstValue(body)?.objectValue,
            let list = GoObject(object).value("notifications")?.arrayValue
        else { throw GoBody.isTooDeep(body) ? .tooDeep : .missing }
        if list.isEmpty { throw .empty }
        var entries: [GorushEntry] = []
        do throws(GoObject.WrongType) {
            // A wrong type is found before the number is looked at: the body is decoded as a whole.
            for element in list {
                if element == .null {
                    entries.append(try GorushEntry(JSONObject()))
                } else if let object = element.objectValue {
                    entries.append(try GorushEntry(object))
                } else {
                    throw GoObject.WrongType()
                }
            }
        } catch {
            throw .missing
        }
        guard entries.count <= limit else { throw .tooMany(entries.count, limit: limit) }
        return entries
    }
}
