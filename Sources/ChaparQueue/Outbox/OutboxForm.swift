internal import Foundation
package import ChaparCore

/// The stored form of devices and entries in every store's outbox: JSON, with times as milliseconds since 1970.
extension Device {
    /// The device as JSON.
    package var outboxForm: JSONValue {
        var object: JSONObject = [
            "id": .string(id), "created": .integer(createdAt.millisecondsSince1970),
            "updated": .integer(updatedAt.millisecondsSince1970),
        ]
        object["user"] = user.map { .string($0) }
        object["platform"] = platform.map { .string($0) }
        if !tokens.isEmpty { object["tokens"] = .array(tokens.map { .object($0.outboxForm) }) }
        if !tags.isEmpty { object["tags"] = .array(tags.map { .string($0) }) }
        object["locale"] = locale.map { .string($0) }
        object["version"] = appVersion.map { .string($0) }
        object["zone"] = timeZone.map { .string($0) }
        if !attributes.isEmpty { object["attributes"] = .object(attributes) }
        object["seen"] = lastSeen.map { .integer($0.millisecondsSince1970) }
        return .object(object)
    }

    /// Reads ``outboxForm``; nil for any other object.
    package init?(outboxForm object: JSONObject) {
        guard let id = object["id"]?.stringValue, let created = object.date("created") else { return nil }
        self.init(
            id: id,
            user: object["user"]?.stringValue,
            platform: object["platform"]?.stringValue,
            tokens: (object["tokens"]?.arrayValue ?? []).compactMap { token in
                token.objectValue.flatMap { RegisteredToken(outboxForm: $0) }
            },
            locale: object["locale"]?.stringValue,
            appVersion: object["version"]?.stringValue,
            timeZone: object["zone"]?.stringValue,
            attributes: object["attributes"]?.objectValue ?? JSONObject(),
            createdAt: created,
            updatedAt: object.date("updated"),
            lastSeen: object.date("seen")
        )
        tags = (object["tags"]?.arrayValue ?? []).compactMap(\.stringValue)
    }
}

extension RegisteredToken {
    fileprivate var outboxForm: JSONObject {
        var object: JSONObject = [
            "service": .string(slot.description), "token": .string(token.value),
            "registered": .integer(registeredAt.millisecondsSince1970),
        ]
        if let tombstone {
            object["as_of"] = .integer(tombstone.asOf.millisecondsSince1970)
            object["buried"] = .integer(tombstone.at.millisecondsSince1970)
            object["backend"] = .string(tombstone.backend)
            object["reason"] = .string(tombstone.reason)
            object["held"] = .bool(tombstone.isQuarantined)
        }
        return object
    }

    fileprivate init?(outboxForm object: JSONObject) {
        guard let slot = object["service"]?.stringValue.flatMap({ TokenSlot($0) }),
            let value = object["token"]?.stringValue, let registered = object.date("registered")
        else { return nil }
        self.init(DeviceToken(value, service: slot.service), kind: slot.kind, registeredAt: registered)
        guard let asOf = object.date("as_of"), let at = object.date("buried") else { return }
        tombstone = Tombstone(
            asOf: asOf,
            at: at,
            backend: object["backend"]?.stringValue ?? "",
            reason: object["reason"]?.stringValue ?? "",
            isQuarantined: object["held"]?.boolValue ?? false
        )
    }
}

extension OutboxEntry {
    /// The entry as JSON.
    package var outboxForm: JSONValue {
        var object: JSONObject = [
            "id": .string(id.uuidString), "backend": .string(backend), "device": .string(device),
            "kind": .string(kind.rawValue), "at": .integer(at.millisecondsSince1970),
        ]
        object["user"] = user.map { .string($0) }
        if !body.isEmpty { object["body"] = .object(body) }
        return .object(object)
    }

    /// Reads ``outboxForm``; nil for any other object.
    package init?(outboxForm object: JSONObject) {
        guard let id = object["id"]?.stringValue.flatMap({ UUID(uuidString: $0) }),
            let backend = object["backend"]?.stringValue, let device = object["device"]?.stringValue,
            let kind = object["kind"]?.stringValue.flatMap({ Kind(rawValue: $0) }), let at = object.date("at")
        else { return nil }
        self.init(
            id: id,
            backend: backend,
            device: device,
            user: object["user"]?.stringValue,
            kind: kind,
            body: object["body"]?.objectValue ?? JSONObject(),
            at: at
        )
    }
}

extension JSONObject {
    fileprivate func date(_ name: String) -> Date? {
        self[name]?.integerValue.map { Date(millisecondsSince1970: $0) }
    }
}
