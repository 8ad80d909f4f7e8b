import ChaparCore

/// Turns the neutral notification into Apple's JSON: straight into bytes, once for each text variant of a request.
///
/// The texts are under `aps.alert`, the caller's `data` beside `aps`. Values for which Apple has no field, and which
/// only the app's own code can use (picture, tap address, buttons), are under `chapar`. Overrides are merged into the
/// result.
enum APNsPayload {
    /// Returns the payload for recipients with this language.
    static func encode(
        _ notification: PushNotification,
        language: String?,
        pushType: APNsPushType,
        overrides: APNsOverrides?
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.beginObject()
        if pushType != .mdm { aps(notification, language, pushType, &writer) }
        if pushType != .background { extras(notification, &writer) }
        for (name, value) in notification.data {
            writer.name(name)
            writer.value(value)
        }
        writer.endObject()
        guard let changes = overrides?.payload else { return writer.bytes }
        guard case .object(let object)? = try? JSONValue(parsing: writer.bytes) else { return writer.bytes }
        return JSONValue.object(untranslated(object, changes).merging(changes)).bytes
    }

    /// Returns the payload without the texts for which the changes name a text of the app (`loc-key`): Apple wants one
    /// of the two.
    private static func untranslated(_ payload: JSONObject, _ changes: JSONObject) -> JSONObject {
        guard let keys = changes["aps"]?["alert"]?.objectValue, var aps = payload["aps"]?.objectValue,
            var alert = aps["alert"]?.objectValue
        else { return payload }
        for (key, text) in [("title-loc-key", "title"), ("subtitle-loc-key", "subtitle"), ("loc-key", "body")]
        where keys[key] != nil { alert[text] = nil }
        aps["alert"] = .object(alert)
        var payload = payload
        payload["aps"] = .object(aps)
        return payload
    }

    private static func aps(
        _ notification: PushNotification,
        _ language: String?,
        _ pushType: APNsPushType,
        _ writer: inout JSONWriter
    ) {
        writer.name("aps")
        writer.beginObject()
        switch pushType {
        case .background:
            writer.field("content-available", 1)
        case .widgets:
            writer.field("content-changed", true)
        case .liveactivity: activityAlert(notification, language, &writer)
        default:
            alert(notification, language, &writer)
            writer.field("badge", notification.badge)
            writer.field("sound", notification.sound)
            writer.field("category", notification.category)
            if needsExtension(notification), pushType == .alert {
                writer.field("mutable-content", 1)
            }
            if notification.isSilent {
                writer.field("content-available", 1)
            }
        }
        writer.endObject()
    }

    private static func alert(_ notification: PushNotification, _ language: String?, _ writer: inout JSONWriter) {
        guard notification.hasText else { return }
        writer.name("alert")
        writer.beginObject()
        if let title = notification.title {
            writer.field("title", title.resolved(for: language))
        }
        if let subtitle = notification.subtitle {
            writer.field("subtitle", subtitle.resolved(for: language))
        }
        if let body = notification.body {
            writer.field("body", body.resolved(for: language))
        }
        writer.endObject()
    }

    /// Writes the alert that lights up the device with a change of a Live Activity: its sound is within, and it has no
    /// subtitle.
    private static func activityAlert(_ notification: PushNotification, _ language: String?, _ writer: inout JSONWriter)
    {
        guard notification.title != nil || notification.body != nil else { return }
        writer.name("alert")
        writer.beginObject()
        for (name, text) in [("title", notification.title), ("body", notification.body)] {
            guard let text else { continue }
            writer.name(name)
            writer.string(text.resolved(for: language))
        }
        writer.field("sound", notification.sound)
        writer.endObject()
    }

    /// Whether the app must have a notification service extension to make use of all parts.
    static func needsExtension(_ notification: PushNotification) -> Bool {
        notification.image != nil || !notification.actions.isEmpty || notification.data[receipt] != nil
    }

    /// The id with which the app reports that the message arrived, which its extension sees first.
    private static let receipt = "chapar_receipt"

    private static func extras(_ notification: PushNotification, _ writer: inout JSONWriter) {
        guard notification.image != nil || notification.clickURL != nil || !notification.actions.isEmpty else { return }
        writer.name("chapar")
        writer.beginObject()
        writer.field("image", notification.image)
        writer.field("click_url", notification.clickURL)
        if !notification.actions.isEmpty {
            writer.name("actions")
            writer.beginArray()
            for action in notification.actions {
                writer.beginObject()
                writer.field("id", action.id)
                writer.field("title", action.title)
                writer.field("url", action.url)
                writer.endObject()
            }
            writer.endArray()
        }
        writer.endObject()
    }

    // MARK: Languages and sizes

    /// Returns an upper bound of the payload's size in bytes: cheap, since most messages are far below the limit.
    static func upperBound(_ notification: PushNotification, overrides: APNsOverrides?) -> Int {
        var texts = size(notification.title) + size(notification.subtitle) + size(notification.body)
        texts += size(notification.sound) + size(notification.category)
        texts += size(notification.image) + size(notification.clickURL)
        for action in notification.actions {
            texts += 40 + action.id.utf8.count + action.title.utf8.count + (action.url?.utf8.count ?? 0)
        }
        var bound = 300 + 6 * texts  // A byte takes six at worst, as \u00XX.
        bound += upperBound(notification.data)
        if let payload = overrides?.payload { bound += upperBound(payload) }
        return bound
    }

    private static func size(_ text: LocalizedText?) -> Int {
        switch text {
        case nil: 0
        case .plain(let text)?: text.utf8.count
        case .localized(let fallback, let languages)?:
            max(fallback.utf8.count, languages.values.map(\.utf8.count).max() ?? 0)
        }
    }

    private static func size(_ text: String?) -> Int { text?.utf8.count ?? 0 }

    private static func upperBound(_ object: JSONObject) -> Int {
        var bound = 2
        for (name, value) in object { bound += 4 + 6 * name.utf8.count + upperBound(value) }
        return bound
    }

    private static func upperBound(_ value: JSONValue) -> Int {
        switch value {
        case .null, .bool: 6
        case .integer, .double: 32
        case .string(let text): 3 + 6 * text.utf8.count
        case .array(let values): values.reduce(2) { $0 + 1 + upperBound($1) }
        case .object(let object): upperBound(object)
        }
    }
}
