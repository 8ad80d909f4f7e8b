internal import Foundation
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The change of a device that a request asks for, field by field: one form for registrations, merge patches and
/// imports.
///
/// Made by ``DeviceChangeReader``; the device store applies it within its transaction. It is a value that reads neither
/// the store nor the configuration.
struct DeviceChange: Sendable {
    /// The change of one member.
    enum Member<Value: Sendable>: Sendable {
        /// The request does not mention it.
        case untouched
        /// The request has `null`: the member is removed.
        case removed
        /// The request has a value.
        case set(Value)

        /// The new value, if there is one.
        var value: Value? { if case .set(let value) = self { value } else { nil } }

        /// Returns the member's value after the change.
        func applied(to old: Value?) -> Value? {
            switch self {
            case .untouched: old
            case .removed: nil
            case .set(let value): value
            }
        }
    }

    /// A token of the request, with its time of registration if there is one.
    struct Token: Sendable {
        var value: String
        /// The kind that the token names itself.
        var kind: TokenKind?
        var environment = TokenEnvironment.unknown
        var registeredAt: Date?
        var tombstone: Tombstone?
        var refusals: [BackendRefusal] = []
    }

    /// The id, if the body has one.
    var id: String?
    /// The app, if the body names one.
    var app: String?
    var user = Member<String>.untouched
    var platform = Member<String>.untouched
    var tokens = Member<[(slot: TokenSlot, token: Member<Token>)]>.untouched
    var tags = Member<[String]>.untouched
    var locale = Member<String>.untouched
    var appVersion = Member<String>.untouched
    var timeZone = Member<String>.untouched
    /// The attributes by name; removed ones have the value null.
    var attributes = Member<JSONObject>.untouched
    var lastSeen = Member<Date>.untouched
    /// The time of the first registration, from an export; only a new device takes it over.
    var createdAt: Date?

    /// Reports tokens that a registration cannot set: it leaves tokens of other kinds than the app's own as they are.
    func checkRegistration(_ issues: inout RequestIssues) {
        for (slot, token) in tokens.value ?? [] where slot.kind != .device {
            guard case .removed = token else { continue }
            let sentence = "A registration leaves tokens of this kind as they are; a PATCH with null removes one."
            issues.add("#/tokens/\(pointerStep(slot.description))", "null_in_registration", sentence)
        }
    }

    /// Returns a new device with these members.
    func device(_ id: String, of app: AppName, at now: Date) -> Device {
        var device = Device(id: app.key(id), createdAt: createdAt ?? now, updatedAt: now)
        apply(to: &device, at: now)
        return device
    }

    /// Changes a device: members that the request leaves out stay, `null` removes one (RFC 7396).
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
