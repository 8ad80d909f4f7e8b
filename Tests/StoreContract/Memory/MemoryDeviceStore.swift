package import Foundation
package import ChaparCore
package import ChaparQueue
import Synchronization

/// A device registry in memory, for tests: it keeps the whole contract, but nothing after its end.
///
/// The conformance suite runs on it too, and real stores are compared with it.
package final class MemoryDeviceStore: DeviceStore {
    /// A token of an app.
    struct Ownership: Hashable {
        var app: AppName
        var token: DeviceToken
    }

    struct Contents {
        /// The devices by their number in the order of registration.
        var devices: [Int: Device] = [:]
        var places: [String: Int] = [:]
        var owners: [Ownership: Int] = [:]
        var last = 0
        var failure: StoreError?
        /// The labels of users, and the own ones of devices, for audiences.
        var userLabels: [ExactText: Set<String>] = [:]
        var ownLabels: [Int: Set<String>] = [:]
        /// The outbox.
        var operations = MemoryOutbox()
    }

    let contents = Mutex(Contents())
    let time: any TimeSource

    /// Makes an empty registry, whose outbox uses this clock.
    package init(time: any TimeSource = SystemTime()) { self.time = time }

    /// Makes a registry with devices in it.
    package init(_ devices: [Device], time: any TimeSource = SystemTime()) {
        self.time = time
        contents.withLock { contents in for device in devices { _ = Self.put(device, &contents) } }
    }

    /// Makes every call fail from now on; nil ends that.
    package func fail(_ error: StoreError?) { contents.withLock { $0.failure = error } }

    /// Creates or replaces devices.
    package func put(_ devices: [Device], outbox: Date?) async throws(StoreError) -> [DevicePut] {
        try use(outbox) { contents in
            let results = devices.map { device in
                Self.put(contents.device(device.id).map(device.replacing) ?? device, &contents)
            }
            // A later device of the same call may have taken over a token.
            return results.map { DevicePut(contents.device($0.device.id) ?? $0.device, isNew: $0.isNew) }
        }
    }

    /// Changes a device.
    package func patch(
        _ id: String,
        outbox: Date?,
        _ change: @escaping @Sendable (inout Device) -> Void
    ) async throws(StoreError) -> Device? {
        try use(outbox) { contents in
            guard let old = contents.device(id) else { return nil }
            var new = old
            change(&new)
            new.id = old.id
            return Self.put(new, &contents).device
        }
    }

    /// Removes a device.
    package func delete(_ id: String, outbox: Date?) async throws(StoreError) -> Bool {
        try use(outbox) { contents in
            guard let place = contents.places.removeValue(forKey: id) else { return false }
            contents.ownLabels[place] = nil
            for token in contents.devices.removeValue(forKey: place)?.tokens ?? [] {
                contents.owners[Ownership(app: AppName(ofDevice: id), token: token.token)] = nil
            }
            return true
        }
    }

    /// Puts devices into the outbox as if they were new.
    package func backfill(_ ids: [String], to backend: String, at moment: Date) async throws(StoreError) -> Int {
        let devices = try use { contents in
            let devices = ids.compactMap { contents.device($0) }
            for device in devices { contents.operations.keep(.introduction(device, backend: backend), at: moment) }
            return devices
        }
        wake()
        return devices.count
    }

    /// Returns the devices with these ids.
    package func devices(_ ids: [String]) async throws(StoreError) -> [String: Device] {
        try use { contents in
            ids.reduce(into: [:]) { found, id in found[id] = contents.device(id) }
        }
    }

    /// Returns the devices of these users.
    package func devices(ofUsers users: [String], limit: Int) async throws(StoreError) -> [Device] {
        try use { contents in
            let ordered = contents.ordered
            return Array(
                users.flatMap { user in
                    ordered.filter { $0.device.user.map { ExactText($0) } == ExactText(user) }
                }.prefix(limit).map(\.device)
            )
        }
    }

    /// Returns the devices of an app that have a token of a kind.
    package func devices(
        withTokenOf kind: TokenKind,
        in app: AppName,
        limit: Int
    ) async throws(StoreError) -> [Device] {
        try use { contents in
            let found = contents.ordered.map(\.device).filter {
                $0.app == app && $0.tokens.contains { $0.kind == kind }
            }
            return Array(found.prefix(limit))
        }
    }

    /// Returns a page of devices.
    package func list(
        _ query: DeviceQuery,
        after cursor: DeviceCursor?,
        limit: Int
    ) async throws(StoreError) -> DevicePage {
        try use { contents in
            let start = cursor.map { Int($0.rawValue) } ?? 0
            let fitting = contents.ordered.filter { $0.place > start && query.fits($0.device) }
            let page = fitting.prefix(limit)
            return DevicePage(
                page.map(\.device),
                next: fitting.count > limit ? page.last.map { DeviceCursor(rawValue: Int64($0.place)) } : nil
            )
        }
    }

    /// Returns the device of an app that has a token.
    package func device(having token: DeviceToken, in app: AppName) async throws(StoreError) -> Device? {
        try use { contents in
            contents.owners[Ownership(app: app, token: token)].flatMap { contents.devices[$0] }
        }
    }

    /// Records refusals of single backends.
    package func record(_ refusals: [TokenRefusal]) async throws(StoreError) -> [TokenRefusal] {
        try use { contents in
            refusals.filter { refusal in
                guard let owner = contents.owners[Ownership(app: refusal.app, token: refusal.token)],
                    let token = contents.devices[owner]?.tokens.first(where: { $0.token == refusal.token })
                else { return refusal.isLast }
                switch token.effect(of: refusal) {
                case .none: return false
                case .refused(let new):
                    contents.devices[owner]?.setToken(new)
                    return false
                case .exhausted: return true
                }
            }
        }
    }

    /// Removes refusals of single backends.
    package func forgetRefusals(limit: Int) async throws(StoreError) -> Int {
        try use { contents in
            var count = 0
            for place in contents.devices.keys.sorted() {
                for token in contents.devices[place]?.tokens ?? [] where !token.refusals.isEmpty && count < limit {
                    var new = token
                    new.refusals = []
                    contents.devices[place]?.setToken(new)
                    count += 1
                }
            }
            return count
        }
    }

    /// Removes tokens from their devices.
    package func remove(_ tokens: [DeviceToken], in app: AppName) async throws(StoreError) {
        try use { contents in
            for token in tokens {
                guard let owner = contents.owners.removeValue(forKey: Ownership(app: app, token: token)) else {
                    continue
                }
                contents.devices[owner]?.tokens.removeAll { $0.token == token }
            }
        }
    }

    /// Adds tombstones.
    package func invalidate(_ refusals: [TokenRefusal], outbox: Date?) async throws(StoreError) -> [InvalidatedToken] {
        try use(outbox) { Self.refuse(refusals, isQuarantined: false, &$0) }
    }

    /// Adds quarantined tombstones.
    package func quarantine(_ refusals: [TokenRefusal]) async throws(StoreError) -> Int {
        try use { Self.refuse(refusals, isQuarantined: true, &$0).count }
    }

    /// Quarantines existing tombstones.
    package func quarantine(tombstonesOf backend: String, since moment: Date) async throws(StoreError) -> Int {
        try use { contents in
            contents.change(Int.max) { token in
                guard let tombstone = token.tombstone, tombstone.backend == backend, !tombstone.isQuarantined,
                    tombstone.at.millisecondsSince1970 >= moment.millisecondsSince1970
                else { return false }
                token.tombstone?.isQuarantined = true
                return true
            }.count
        }
    }

    /// Returns a summary of the quarantined tombstones of each backend.
    package func quarantined() async throws(StoreError) -> [QuarantinedTokens] {
        try use { contents in
            var found: [String: QuarantinedTokens] = [:]
            for (_, device) in contents.ordered {
                for tombstone in device.tokens.compactMap(\.tombstone) where tombstone.isQuarantined {
                    var sum =
                        found[tombstone.backend]
                        ?? QuarantinedTokens(
                            backend: tombstone.backend,
                            count: 0,
                            reasons: [:],
                            oldest: tombstone.at,
                            newest: tombstone.at
                        )
                    sum.count += 1
                    sum.reasons[tombstone.reason, default: 0] += 1
                    sum.oldest = min(sum.oldest, tombstone.at)
                    sum.newest = max(sum.newest, tombstone.at)
                    found[tombstone.backend] = sum
                }
            }
            return found.values.sorted { $0.backend < $1.backend }
        }
    }

    /// Returns the quarantined tokens.
    package func quarantined(
        of backend: String,
        after cursor: DeviceCursor?,
        limit: Int
    ) async throws(StoreError) -> (tokens: [InvalidatedToken], next: DeviceCursor?) {
        try use { contents in
            var found: [InvalidatedToken] = []
            for (place, device) in contents.ordered where place > cursor.map({ Int($0.rawValue) }) ?? 0 {
                let tokens = device.tokens.compactMap { token -> InvalidatedToken? in
                    guard let tombstone = token.tombstone, tombstone.isQuarantined, tombstone.backend == backend else {
                        return nil
                    }
                    return InvalidatedToken(device, token, tombstone)
                }
                if !tokens.isEmpty, found.count >= limit {
                    let last = found.last.flatMap { contents.places[$0.device] } ?? 0
                    return (found, DeviceCursor(rawValue: Int64(last)))
                }
                found += tokens
            }
            return (found, nil)
        }
    }

    /// Releases quarantined tombstones: they take effect.
    package func invalidate(
        quarantinedOf backend: String,
        limit: Int,
        outbox: Date?
    ) async throws(StoreError) -> [InvalidatedToken] {
        try use(outbox) { contents in
            contents.change(limit) { token in
                guard token.tombstone?.backend == backend, token.tombstone?.isQuarantined == true else { return false }
                token.tombstone?.isQuarantined = false
                return true
            }
        }
    }

    /// Discards quarantined tombstones.
    package func discard(quarantinedOf backend: String, limit: Int) async throws(StoreError) -> Int {
        try use { contents in
            contents.change(limit) { token in
                guard token.tombstone?.backend == backend, token.tombstone?.isQuarantined == true else { return false }
                token = token.discarded
                return true
            }.count
        }
    }

    /// Changes devices, and puts each changed one into the outbox, in the order of registration.
    private func use<Value: Sendable>(
        _ outbox: Date?,
        _ body: (inout Contents) -> Value
    ) throws(StoreError) -> Value {
        guard let outbox else { return try use(body) }
        let value = try use { contents in
            let before = contents.devices
            let value = body(&contents)
            for place in Set(before.keys).union(contents.devices.keys).sorted() {
                let change = OutboxChange.Content(from: before[place], to: contents.devices[place])
                if let change { contents.operations.keep(change, at: outbox) }
            }
            return value
        }
        wake()
        return value
    }

    func use<Value: Sendable>(_ body: (inout Contents) -> Value) throws(StoreError) -> Value {
        let result = contents.withLock { contents -> Result<Value, StoreError> in
            if let failure = contents.failure { return .failure(failure) }
            return .success(body(&contents))
        }
        return try result.get()
    }

    private static func put(_ device: Device, _ contents: inout Contents) -> DevicePut {
        var new = device.roundedToMilliseconds
        let place = contents.places[new.id]
        if let place, let old = contents.devices[place] {
            new.createdAt = old.createdAt
            new.tokens = new.tokens.map { token in
                token.registered(over: old.tokens.first { $0.token == token.token })
            }
            for token in old.tokens { contents.owners[Ownership(app: new.app, token: token.token)] = nil }
        }
        for token in new.tokens {
            guard let owner = contents.owners[Ownership(app: new.app, token: token.token)],
                let other = contents.devices[owner],
                let taken = other.tokens.first(where: { $0.token == token.token })
            else {
                new.setToken(token.registered(over: token))
                continue
            }
            if taken.isYounger(than: token) {
                new.removeToken(of: token.slot)
            } else {
                contents.devices[owner]?.removeToken(of: taken.slot)
                new.setToken(token.registered(over: taken))
            }
        }
        let own = place ?? contents.last + 1
        contents.last = max(contents.last, own)
        contents.places[new.id] = own
        contents.devices[own] = new
        for token in new.tokens { contents.owners[Ownership(app: new.app, token: token.token)] = own }
        return DevicePut(new, isNew: place == nil)
    }

    private static func refuse(
        _ refusals: [TokenRefusal],
        isQuarantined: Bool,
        _ contents: inout Contents
    ) -> [InvalidatedToken] {
        refusals.compactMap { refusal in
            guard let owner = contents.owners[Ownership(app: refusal.app, token: refusal.token)],
                let device = contents.devices[owner],
                let token = device.tokens.first(where: { $0.token == refusal.token }),
                let dead = token.refused(refusal, isQuarantined: isQuarantined), let tombstone = dead.tombstone
            else { return nil }
            contents.devices[owner]?.setToken(dead)
            return InvalidatedToken(device, dead, tombstone)
        }
    }
}

extension MemoryDeviceStore.Contents {
    func device(_ id: String) -> Device? { places[id].flatMap { devices[$0] } }

    var ordered: [(place: Int, device: Device)] {
        devices.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Changes the tombstones of up to `limit` tokens; returns those that `change` says it changed.
    fileprivate mutating func change(_ limit: Int, _ change: (inout RegisteredToken) -> Bool) -> [InvalidatedToken] {
        var changed: [InvalidatedToken] = []
        for (place, device) in ordered {
            for token in device.tokens where changed.count < limit {
                var new = token
                guard let old = token.tombstone, change(&new) else { continue }
                devices[place]?.setToken(new)
                changed.append(InvalidatedToken(device, token, new.tombstone ?? old))
            }
        }
        return changed
    }
}

extension InvalidatedToken {
    fileprivate init(_ device: Device, _ token: RegisteredToken, _ tombstone: Tombstone) {
        self.init(device: device.id, user: device.user, token: token.token, kind: token.kind, tombstone: tombstone)
    }
}

extension DeviceQuery {
    fileprivate func fits(_ device: Device) -> Bool {
        (app == nil || device.app == app) && (user == nil || device.user == user)
            && (tag.map(device.tags.contains) ?? true)
            && (platform == nil || device.effectivePlatform == platform)
            && (service.map { device.token(of: $0) != nil } ?? true)
    }
}
