internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// The rules that decide which platforms get what when a device of the registry changes.
///
/// They are made once for a configuration. A platform with its own list of devices gets the devices that it accepts:
/// when a device is added, when a field that the platform gets changes, when its tags change, and when it is removed or
/// no longer accepted.
struct DeviceSync: Sendable {
    private struct Listener: Sendable {
        let backend: String
        let app: AppName
        let registrar: (any DeviceRegistrar)?
        let tags: (any TagEditor)?
    }

    private let listeners: [Listener]
    private let priority: [TokenService]

    init(_ backends: [BackendRegistry.ConfiguredBackend], priority: [TokenService]) {
        self.priority = priority
        listeners = backends.compactMap { configured in
            let backend = configured.backend
            guard configured.registersDevices, backend.devices != nil || backend.tags != nil else { return nil }
            return Listener(
                backend: configured.name,
                app: configured.app,
                registrar: backend.devices,
                tags: backend.tags
            )
        }
    }

    /// Whether any platform keeps devices, so that changes must be recorded.
    var isNeeded: Bool { !listeners.isEmpty }

    /// Returns the app whose devices a backend gets; nil when it gets none.
    func app(of backend: String) -> AppName? { listeners.first { $0.backend == backend }?.app }

    /// Returns the outbox entries of a change; asks plugins, which may take long.
    func operations(for change: OutboxChange) -> [OutboxEntry] {
        switch change.content {
        case .device(let old, let new):
            listeners.filter { $0.app == (new ?? old)?.app }.flatMap { operations($0, old, new, at: change.at) }
        case .introduction(let device, let backend):
            listeners.filter { $0.backend == backend && $0.app == device.app }.flatMap {
                operations($0, nil, device, at: change.at)
            }
        case .operation(let operation): [operation]
        }
    }

    private func operations(
        _ listener: Listener,
        _ old: Device?,
        _ new: Device?,
        at now: Date
    ) -> [OutboxEntry] {
        let before = old.map { DeviceRecord($0, user: $0.user, priority: priority) }
        let after = new.map { DeviceRecord($0, user: $0.user, priority: priority) }
        let wasThere = before.map { listener.registrar?.accepts($0) ?? true } ?? false
        let isThere = after.map { listener.registrar?.accepts($0) ?? true } ?? false
        var operations: [OutboxEntry] = []
        func add(_ kind: OutboxEntry.Kind, _ device: Device?, _ body: JSONObject = JSONObject()) {
            guard let device else { return }
            operations.append(
                OutboxEntry(
                    backend: listener.backend,
                    device: device.id,
                    user: device.user,
                    kind: kind,
                    body: body,
                    at: now
                )
            )
        }
        if let after, isThere {
            if let registrar = listener.registrar {
                let isNews = !wasThere || before?.withoutTags != after.withoutTags
                if isNews || Self.isRegisteredAgain(old, new) && registrar.awaits(after) { add(.register, new) }
            }
            var changes = Self.changes(from: wasThere ? before?.tags ?? [] : [], to: after.tags)
            // Where tags belong to the user, a new user has none of them yet.
            if before?.user != after.user { changes = changes.merging(Self.changes(from: [], to: after.tags)) }
            if let editor = listener.tags, !changes.isEmpty, editor.issues(in: changes, of: after).isEmpty {
                add(.tags, new, ["tags": .object(changes)])
            }
        } else if let before, wasThere, listener.registrar != nil {
            add(.remove, old, before.stored)
        }
        return operations
    }

    /// Whether the app has registered a token again that it had registered before.
    private static func isRegisteredAgain(_ old: Device?, _ new: Device?) -> Bool {
        guard let old, let new else { return false }
        return new.tokens.contains { token in
            old.tokens.contains { $0.token == token.token && $0.registeredAt < token.registeredAt }
        }
    }

    /// Returns a change of the registry's tags as a platform's keys and values.
    ///
    /// The tag `key:value` becomes this key and value, a tag without a colon has the value `1`, and a removed tag has
    /// null.
    static func changes(from old: [String], to new: [String]) -> JSONObject {
        let (old, new) = (pairs(old), pairs(new))
        var changes = JSONObject()
        for (key, value) in new.sorted(by: { $0.key < $1.key }) where old[key] != value {
            changes[key] = .string(value)
        }
        for key in old.keys.sorted() where new[key] == nil { changes[key] = .null }
        return changes
    }

    /// Returns tags as pairs; of several tags with one key the last counts.
    private static func pairs(_ tags: [String]) -> [String: String] {
        tags.reduce(into: [:]) { pairs, tag in
            let (key, value) = tag.halves(at: ":") ?? (tag, "1")
            pairs[key] = value
        }
    }
}
