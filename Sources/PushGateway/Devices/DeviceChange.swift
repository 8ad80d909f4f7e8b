internal import Foundation
internal import PushCore
internal import PushQueue

/// What a request changes of a device, member by member: the one form of registrations, merge patches and imports.
///
/// Made by ``DeviceChangeReader``; the device store applies it within its transaction. A value: it reads neither the
/// store nor the configuration.
struct DeviceChange: Sendable {
    /// What a request says about one member.
    enum Member<Value: Sendable>: Sendable {
        /// Nothing.
        case untouched
        /// `null`: it goes.
        case removed
        /// A value.
        case set(Value)

        /// The value, when there is one.
        var value: Value? { if case .set(let value) = self { value } else { nil } }

        /// What a member is afterwards.
        func applied(to old: Value?) -> Value? {
            switch self {
            case .untouched: old
            case .removed: nil
            case .set(let value): value
            }
        }
    }

    /// A token of the request, and whether it says when it was registered.
    struct Token: Sendable {
        var value: String
        /// The kind that it names itself.
        var kind: TokenKind?
        var environment = TokenEnvironment.unknown
        var registeredAt: Date?
        var tombstone: Tombstone?
        var refusals: [BackendRefusal] = []
    }

    /// The id, where the body has one.
    var id: String?
    /// The app, where the body names one.
    var app: String?
    var user = Member<String>.untouched
    var platform = Member<String>.untouched
    var tokens = Member<[(slot: TokenSlot, token: Member<Token>)]>.untouched
    var tags = Member<[String]>.untouched
    var locale = Member<String>.untouched
    var appVersion = Member<String>.untouched
    var timeZone = Member<String>.untouched
    /// Attributes by name; those that are removed have the value null.
    var attributes = Member<JSONObject>.untouched
    var lastSeen = Member<Date>.untouched
    /// When it was registered first, from an export; only a device that is new takes it over.
    var createdAt: Date?

    /// Notes what a registration cannot do: it leaves tokens of other kinds than the app's own as they are.
    func checkRegistration(_ issues: inout RequestIssues) {
        for (slot, token) in tokens.value ?? [] where slot.kind != .device {
            guard case .removed = token else { continue }
            let sentence = "A registration leaves tokens of this kind as they are; a PATCH with null removes one."
            issues.add("#/tokens/\(pointerStep(slot.description))", "null_in_registration", sentence)
        }
    }

    /// The device that this makes out of nothing.
    func device(_ id: String, of app: AppName, at now: Date) -> Device {
        var device = Device(id: app.key(id), createdAt: createdAt ?? now, updatedAt: now)
        apply(to: &device, at: now)
        return device
    }

    /// Changes a device: what the request leaves out stays, `null` removes (RFC 7396).
    func apply(to device: inout Device, at now: Date) {
        device.user = user.applied(to: device.userName).map(device.app.key)
        device.platform = platform.applied(to: device.platform)
        device.tags = tags.applied(to: device.tags) ?? []
        device.locale = locale.applied(to: device.locale)
        device.appVersion = appVersion.applied(to: device.appVersion)
        device.timeZone = timeZone.applied(to: device.timeZone)
        switch attributes {
        case .untouched: break
        case .removed: device.attributes = JSONObject()
        case .set(let members):
            for (name, value) in members {
                device.attributes[name] = value == .null ? JSONValue?.none : value
            }
        }
        device.lastSeen = lastSeen.applied(to: device.lastSeen)
        device.updatedAt = now
        switch tokens {
        case .untouched: break
        case .removed: device.tokens = []
        case .set(let list):
            for (slot, token) in list {
                switch token {
                case .untouched: break
                case .removed: device.removeToken(of: slot)
                case .set(let token):
                    device.setToken(
                        RegisteredToken(
                            DeviceToken(token.value, service: slot.service),
                            kind: slot.kind,
                            environment: token.environment,
                            registeredAt: token.registeredAt ?? now,
                            tombstone: token.tombstone,
                            refusals: token.refusals
                        )
                    )
                }
            }
        }
    }
}
