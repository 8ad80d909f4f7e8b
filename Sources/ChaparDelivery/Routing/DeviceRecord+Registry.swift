package import ChaparCore
package import ChaparQueue

/// The devices of the registry in the form that platforms get.
extension DeviceRecord {
    /// Makes the record that a platform gets: the app's own live tokens, the preferred one first, and everything that
    /// the app reported.
    ///
    /// - Parameters:
    ///   - device: The device.
    ///   - user: The key of the user who had the device when the operation was requested; the operation is sent with
    ///     this user's credentials.
    ///   - priority: The order in which tokens are preferred.
    package init(_ device: Device, user: String?, priority: [TokenService]) {
        let live = device.tokens.filter { $0.isAlive && $0.kind == .device }.map(\.token)
        let preferred = priority.compactMap { service in live.first { $0.service == service } }
        var attributes = device.attributes
        if let version = device.appVersion { attributes["app_version"] = .string(version) }
        if let zone = device.timeZone { attributes["time_zone"] = .string(zone) }
        self.init(
            id: device.name,
            user: user.map(device.app.name),
            tokens: preferred + live.filter { !priority.contains($0.service) },
            language: device.locale,
            tags: device.tags,
            attributes: attributes
        )
    }

    /// The record without its tags, which platforms get separately.
    var withoutTags: DeviceRecord {
        var record = self
        record.tags = []
        return record
    }

    /// The part of a device that an operation keeps, for a device that is gone when the operation is carried out.
    var stored: JSONObject {
        var object = JSONObject()
        if !tokens.isEmpty {
            object["tokens"] = .array(
                tokens.map { ["service": .string($0.service.rawValue), "token": .string($0.value)] }
            )
        }
        if let language { object["language"] = .string(language) }
        if !tags.isEmpty { object["tags"] = .array(tags.map { .string($0) }) }
        if !attributes.isEmpty { object["attributes"] = .object(attributes) }
        return object
    }

    /// Reads ``stored``.
    init(id: String, user: String?, stored: JSONObject) {
        self.init(
            id: id,
            user: user,
            tokens: (stored["tokens"]?.arrayValue ?? []).compactMap { token in
                guard let value = token["token"]?.stringValue, let service = token["service"]?.stringValue else {
                    return nil
                }
                return DeviceToken(value, service: TokenService(rawValue: service))
            },
            language: stored["language"]?.stringValue,
            tags: (stored["tags"]?.arrayValue ?? []).compactMap(\.stringValue),
            attributes: stored["attributes"]?.objectValue ?? JSONObject()
        )
    }
}
