internal import ChaparDelivery
package import ChaparCore

/// The writer of notifications in the form of the API: the opposite of ``NotificationReader``.
///
/// Notifications from code then take the path of every request, so there is one set of checks and one stored form.
/// Equal notifications give equal bytes, which identifies a repeated idempotency key.
package enum NotificationWriter {
    package static func body(
        _ notification: PushNotification,
        to recipients: [Recipient],
        route: String? = nil,
        backend: String? = nil,
        app: AppName? = nil
    ) -> [UInt8] {
        var request: JSONObject = ["to": .object(audience(recipients, notification.activity))]
        let content = content(notification)
        if !content.isEmpty { request["content"] = .object(content) }
        let options = options(notification)
        if !options.isEmpty { request["options"] = .object(options) }
        let overrides = notification.overrides.sorted { $0.key < $1.key }
        if !overrides.isEmpty { request["overrides"] = object(overrides.map { ($0.key, .object($0.value)) }) }
        request["route"] = route.map { .string($0) }
        request["backend"] = backend.map { .string($0) }
        request["app"] = app.map { .string($0.rawValue) }
        return JSONValue.object(request).bytes
    }

    /// Returns the field `to`.
    ///
    /// Recipients of several forms give several fields, which the reader refuses.
    private static func audience(_ recipients: [Recipient], _ activity: String?) -> JSONObject {
        var lists: [String: [JSONValue]] = [:]
        var audience = JSONObject()
        for recipient in recipients {
            switch recipient {
            case .token(let token):
                lists["tokens", default: []].append([
                    "token": .string(token.value), "service": .string(token.service.rawValue),
                ])
            case .device(let id): lists["devices", default: []].append(.string(id))
            case .user(let id): lists["users", default: []].append(.string(id))
            case .platformID(let id): lists["platform_ids", default: []].append(.string(id))
            case .topic(let name): lists["topic", default: []].append(.string(name))
            case .tags(let filter): lists["tags", default: []].append(tags(filter))
            case .everyone: lists["everyone", default: []].append(true)
            }
        }
        for (name, values) in lists.sorted(by: { $0.key < $1.key }) {
            let isSingle = name == "topic" || name == "tags" || name == "everyone"
            audience[name] = isSingle && values.count == 1 ? values[0] : .array(values)
        }
        audience["activity"] = activity.map { .string($0) }
        return audience
    }

    private static func tags(_ filter: TagFilter) -> JSONValue {
        var object = JSONObject()
        for (name, tags) in [("all", filter.all), ("any", filter.any), ("none", filter.none)] where !tags.isEmpty {
            object[name] = .array(tags.map { .string($0) })
        }
        return .object(object)
    }

    private static func content(_ notification: PushNotification) -> JSONObject {
        var content = JSONObject()
        content["title"] = notification.title.map(text)
        content["subtitle"] = notification.subtitle.map(text)
        content["body"] = notification.body.map(text)
        content["image"] = notification.image.map { .string($0) }
        content["sound"] = notification.sound.map { .string($0) }
        content["badge"] = notification.badge.map { .integer(Int64($0)) }
        content["category"] = notification.category.map { .string($0) }
        content["click_url"] = notification.clickURL.map { .string($0) }
        if !notification.actions.isEmpty {
            content["actions"] = .array(
                notification.actions.map { action in
                    var object: JSONObject = ["id": .string(action.id), "title": .string(action.title)]
                    object["url"] = action.url.map { .string($0) }
                    return .object(object)
                }
            )
        }
        if !notification.data.isEmpty { content["data"] = .object(notification.data) }
        return content
    }

    private static func text(_ text: LocalizedText) -> JSONValue {
        switch text {
        case .plain(let text): .string(text)
        case .localized(let fallback, let languages):
            object(
                languages.sorted { $0.key < $1.key }.map { ($0.key, .string($0.value)) }
                    + [("default", .string(fallback))]
            )
        }
    }

    private static func options(_ notification: PushNotification) -> JSONObject {
        var options = JSONObject()
        options["ttl"] = notification.timeToLive.map { span in
            // A fraction of a second is kept, so that the reader refuses it.
            span.components.attoseconds == 0 ? .integer(span.components.seconds) : .double(span.inSeconds)
        }
        if notification.priority != .high { options["priority"] = .string(notification.priority.rawValue) }
        options["collapse_id"] = notification.collapseID.map { .string($0) }
        options["send_at"] = notification.sendAt.map { .string(RFC3339.string($0)) }
        if notification.isSilent { options["silent"] = true }
        if notification.isDryRun { options["dry_run"] = true }
        return options
    }

    private static func object(_ members: [(String, JSONValue)]) -> JSONValue {
        var object = JSONObject()
        for (name, value) in members { object[name] = value }
        return .object(object)
    }
}
