public import ChaparCore

/// Reads the payload of a clicked notification.
///
/// A pure function of the payload, which never fails.
public enum ChabokPayloadParser {
    /// Reads a payload.
    ///
    /// - Parameters:
    ///   - userInfo: The payload as the app received it.
    ///   - actionIdentifier: The platform's identifier of what was tapped; nil for a report of display.
    ///   - isTolerant: Whether data may also be a text that holds JSON.
    /// - Returns: The notification, read.
    public static func parse(
        _ userInfo: JSONObject,
        actionIdentifier: String? = nil,
        isTolerant: Bool = false
    ) -> ChabokNotification {
        parse(userInfo, action: .init(identifier: actionIdentifier), isTolerant: isTolerant)
    }

    /// Reads a payload with a given action.
    public static func parse(
        _ userInfo: JSONObject,
        action: ChabokNotification.Action,
        isTolerant: Bool = false
    ) -> ChabokNotification {
        let message = userInfo["message"]?.objectValue  // An object: Android's pushes have a text under this name.
        let data = object(message == nil ? userInfo["data"] : message?["data"], isTolerant)
        let isOverride = message == nil && userInfo["aps"]?.objectValue == nil && isMessage(data)
        let whole = isOverride ? data?.objectValue : message
        let aps = userInfo["aps"]
        let shown = whole?["notification"]
        let isKnown = message != nil || aps?.objectValue != nil || userInfo["data"] != nil || userInfo["message"] != nil
        return ChabokNotification(
            source: message == nil ? .apns : .chabokMessage,
            isLocalOverride: isOverride,
            isUnrecognised: !isKnown,
            messageData: data,
            customData: isOverride ? object(whole?["data"], isTolerant) : data,
            messageID: first(whole?["id"], userInfo["messageId"], userInfo["id"]),
            trackID: first(whole?["trackId"], userInfo["trackId"]),
            channel: first(whole?["channel"], userInfo["channel"]),
            title: first(shown?["title"], aps?["alert"]?["title"]),
            body: first(
                shown?["body"],
                shown?["text"],
                whole?["content"],
                aps?["alert"]?["body"],
                aps?["alert"],
                userInfo["message"]
            ),
            action: action,
            url: url(userInfo, message, action),
            raw: userInfo
        )
    }

    /// Returns the data, which must be an object; in tolerant mode a text that holds an object is read too.
    private static func object(_ value: JSONValue?, _ isTolerant: Bool) -> JSONValue? {
        switch value {
        case .object?: return value
        case .string(let text)? where isTolerant:
            let parsed = try? JSONValue(parsing: Array(text.utf8))
            return parsed?.objectValue == nil ? nil : parsed
        default: return nil
        }
    }

    /// Whether data is a whole message, as the documentation's sample of an override puts it there.
    private static func isMessage(_ data: JSONValue?) -> Bool {
        data?["content"] != nil && ["id", "channel", "createdAt", "publishId"].contains { data?[$0] != nil }
    }

    /// Returns the address of the button, else that of the notification; the place that fits the source is read first.
    private static func url(
        _ userInfo: JSONObject,
        _ message: JSONObject?,
        _ action: ChabokNotification.Action
    ) -> String? {
        guard action != .dismissed else { return nil }
        let inner = message?["notification"]?.objectValue ?? userInfo["data"]?["notification"]?.objectValue
        let places = message == nil ? [userInfo, inner] : [inner, userInfo]
        if let id = action.actionID {
            for place in places {
                let actions = place?["actions"]?.arrayValue ?? []
                if let own = actions.first(where: { $0["id"]?.stringValue == id }), let url = first(own["url"]) {
                    return url
                }
            }
        }
        for place in places { if let url = first(place?["clickUrl"]) { return url } }
        return nil
    }

    /// Returns the first value that is a text or a number.
    private static func first(_ values: JSONValue?...) -> String? {
        for value in values { if let text = ChabokAnswer.text(value) { return text } }
        return nil
    }
}
