internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

extension Device {
    /// Writes the fields of the device into an object that the caller has begun.
    ///
    /// Unknown fields are left out, and a caller may send the object back unchanged. This is not possible with
    /// `fingerprint`, which replaces a token that the caller may not see.
    func write(to writer: inout JSONWriter, for caller: Caller) {
        writer.field("id", name)
        writer.field("app", app.rawValue)
        writer.member("user", userName)
        writer.member("platform", platform)
        writer.name("tokens")
        writer.beginObject()
        for token in tokens {
            writer.name(token.slot.description)
            writer.beginObject()
            token.write(to: &writer, for: caller)
            writer.endObject()
        }
        writer.endObject()
        writer.name("tags")
        writer.beginArray()
        for tag in tags { writer.string(tag) }
        writer.endArray()
        writer.member("locale", locale)
        writer.member("app_version", appVersion)
        writer.member("time_zone", timeZone)
        if !attributes.isEmpty {
            writer.name("attributes")
            writer.object(attributes)
        }
        writer.name("created_at")
        RFC3339.write(createdAt, to: &writer)
        writer.name("updated_at")
        RFC3339.write(updatedAt, to: &writer)
        guard let lastSeen else { return }
        writer.name("last_seen")
        RFC3339.write(lastSeen, to: &writer)
    }
}

extension RegisteredToken {
    fileprivate func write(to writer: inout JSONWriter, for caller: Caller) {
        let showsToken = caller.isAdministrator
        writer.name(showsToken ? "token" : "fingerprint")
        writer.string(showsToken ? token.value : TokenFingerprint.of(token.value))
        writer.name("registered_at")
        RFC3339.write(registeredAt, to: &writer)
        writer.field("alive", isAlive)
        if kind != .device {
            writer.field("kind", kind.typeName)
        }
        switch kind {
        case .liveActivityStart(let type):
            writer.field("attributes_type", type)
        case .liveActivityUpdate(let activity):
            writer.field("activity", activity)
        default: break
        }
        if environment != .unknown {
            writer.field("environment", environment.rawValue)
        }
        let shown = refusals.filter { caller.mayUse(backend: $0.backend) }
        if !shown.isEmpty {
            writer.name("refused_by")
            writer.beginObject()
            for refusal in shown {
                writer.name(refusal.backend)
                writer.beginObject()
                writer.field("reason", refusal.reason)
                writer.name("as_of")
                RFC3339.write(refusal.asOf, to: &writer)
                writer.endObject()
            }
            writer.endObject()
        }
        guard let tombstone else { return }
        writer.name("tombstone")
        writer.beginObject()
        writer.name("as_of")
        RFC3339.write(tombstone.asOf, to: &writer)
        writer.name("at")
        RFC3339.write(tombstone.at, to: &writer)
        if caller.mayUse(backend: tombstone.backend) {
            writer.field("backend", tombstone.backend)
        }
        writer.field("reason", tombstone.reason)
        writer.field("quarantined", tombstone.isQuarantined)
        writer.field(FormerName.quarantined.former, tombstone.isQuarantined)
        writer.endObject()
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: StaticString, _ value: String?) {
        guard let value else { return }
        self.name(name)
        string(value)
    }
}
