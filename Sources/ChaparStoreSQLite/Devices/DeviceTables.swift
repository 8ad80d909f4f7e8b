import Foundation
import ChaparCore
import ChaparQueue

/// The tables of the device registry, as the commit loop changes them; used by its thread only, within its transaction.
///
/// The rules of registration and refusal are `ChaparQueue`'s (`RegisteredToken`, `Device`); this class stores their
/// results. Reads that change nothing use ``DeviceReader`` instead.
final class DeviceTables {
    let reader: DeviceReader
    /// The labels of users and devices, and the counts.
    let labels: LabelTables
    /// The changes so far in the current call; nil when changes are not collected.
    private var changes: [OutboxChange.Content]?
    private let insert: SQLStatement
    private let update: SQLStatement
    private let remove: SQLStatement
    private let owner: SQLStatement
    private let saveToken: SQLStatement
    private let removeToken: SQLStatement
    private let removeTokens: SQLStatement
    private let insertTag: SQLStatement
    private let removeTag: SQLStatement
    private let quarantineSince: SQLStatement
    private let quarantined: SQLStatement
    private let setReleased: SQLStatement
    private let forgetRefusals: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        reader = try DeviceReader(connection)
        labels = try LabelTables(connection)
        insert = try statement(
            """
            INSERT INTO devices (id, user, platform, tags, locale, version, zone, created, updated, seen, attributes)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) RETURNING number
            """
        )
        update = try statement(
            """
            UPDATE devices SET user = ?2, platform = ?3, tags = ?4, locale = ?5, version = ?6, zone = ?7,
            created = ?8, updated = ?9, seen = ?10, attributes = ?11 WHERE id = ?1
            """
        )
        remove = try statement("DELETE FROM devices WHERE number = ?1")
        owner = try statement(
            """
            SELECT \(DeviceReader.tokenColumns), device, d.id, d.user FROM device_tokens JOIN devices d ON d.number = device
            WHERE hash = ?1 AND \(Self.isOfService) AND token = ?3
            """
        )
        saveToken = try statement(
            """
            INSERT OR REPLACE INTO device_tokens
            (device, service, token, hash, registered, as_of, invalidated, backend, reason, held, environment, refusals)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
            """
        )
        removeToken = try statement("DELETE FROM device_tokens WHERE device = ?1 AND service = ?2")
        removeTokens = try statement("DELETE FROM device_tokens WHERE device = ?1")
        insertTag = try statement("INSERT OR IGNORE INTO device_tags (tag, device) VALUES (?1, ?2)")
        removeTag = try statement("DELETE FROM device_tags WHERE tag = ?1 AND device = ?2")
        quarantineSince = try statement(
            """
            UPDATE device_tokens INDEXED BY tombstones_since SET held = 1
            WHERE backend = ?1 AND held = 0 AND invalidated >= ?2
            """
        )
        quarantined = try statement(
            """
            SELECT \(DeviceReader.tokenColumns), device, d.id, d.user
            FROM device_tokens INDEXED BY tombstones CROSS JOIN devices d ON d.number = device
            WHERE backend = ?1 AND held = 1 LIMIT ?2
            """
        )
        forgetRefusals = try statement(
            """
            UPDATE device_tokens SET refusals = NULL WHERE (device, service) IN
            (SELECT device, service FROM device_tokens INDEXED BY token_refusals WHERE refusals IS NOT NULL LIMIT ?1)
            """
        )
        setReleased = try statement("UPDATE device_tokens SET held = 0 WHERE device = ?1 AND service = ?2")
    }

    /// The condition that a slot is of the service `?2`.
    static let isOfService = "(service = ?2 OR substr(service, 1, length(?2) + 1) = ?2 || '/')"

    // MARK: Changes

    /// Changes devices with `body`, and returns the changes when they are collected.
    func collecting<Value>(
        _ isCollecting: Bool,
        _ body: (DeviceTables) throws(StoreError) -> Value
    ) throws(StoreError) -> (value: Value, changes: [OutboxChange.Content]) {
        changes = isCollecting ? [] : nil
        labels.begin()
        defer { changes = nil }
        let value = try body(self)
        try labels.writeCounts()
        return (value, changes ?? [])
    }

    private func note(_ old: Device?, _ new: Device?) {
        guard changes != nil, let change = OutboxChange.Content(from: old, to: new) else { return }
        changes?.append(change)
    }

    /// Returns a device as it is, when changes are collected.
    private func before(_ id: String) throws(StoreError) -> Device? {
        changes == nil ? nil : try reader.device(id)?.device
    }

    /// Collects the change of a device that ``before(_:)`` returned.
    private func note(changeOf old: Device?) throws(StoreError) {
        if let old { note(old, try reader.device(old.id)?.device) }
    }

    /// Returns changes that introduce devices to one backend, for its backfill.
    func introductions(of ids: [String], to backend: String) throws(StoreError) -> [OutboxChange.Content] {
        var found: [OutboxChange.Content] = []
        for id in ids {
            if let device = try reader.device(id)?.device { found.append(.introduction(device, backend: backend)) }
        }
        return found
    }

    // MARK: Devices

    /// Creates or replaces devices.
    func put(_ devices: [Device]) throws(StoreError) -> [DevicePut] {
        var results: [DevicePut] = []
        results.reserveCapacity(devices.count)
        // A later device of the call may take a token from an earlier one, whose result is then out of date.
        var isShared = false
        var ids: Set<String> = []
        var taken: Set<DeviceToken> = []
        for device in devices {
            if !ids.insert(device.id).inserted { isShared = true }
            for token in device.tokens where !taken.insert(token.token).inserted { isShared = true }
            results.append(try put(device))
        }
        guard isShared else { return results }
        for index in results.indices {
            guard let now = try reader.device(results[index].device.id) else { continue }
            results[index].device = now.device
        }
        return results
    }

    /// Reads, changes and writes back a device.
    func patch(_ id: String, _ change: (inout Device) -> Void) throws(StoreError) -> Device? {
        guard let old = try reader.device(id) else { return nil }
        var new = old.device
        change(&new)
        new.id = id
        return try replace(old.device, number: old.number, with: new)
    }

    /// Removes a device.
    func delete(_ id: String) throws(StoreError) -> Bool {
        guard let (number, device) = try reader.device(id) else { return false }
        try write(tags: [], instead: device.tags, of: number, device.app)
        try labels.forget(number, device)  // This notes the change, too.
        removeTokens.bind(1, number)
        try removeTokens.run()
        remove.bind(1, number)
        try remove.run()
        note(device, nil)
        return true
    }

    private func put(_ device: Device) throws(StoreError) -> DevicePut {
        if let old = try reader.device(device.id) {
            let new = try replace(old.device, number: old.number, with: device.replacing(old.device))
            return DevicePut(new, isNew: false)
        }
        var new = device.roundedToMilliseconds
        let formerOwners = try assignTokens(of: &new, number: nil, before: [])
        bind(new, to: insert)
        guard try insert.next() else { throw .failed("SQLite gave no number to the device \(new.id)") }
        let number = try insert.integer(0)
        insert.reset()
        try write(tags: new.tags, instead: [], of: number, new.app)
        if let user = new.user { try labels.inherit(number, from: user, new.app) }
        for token in new.tokens { try save(token, of: number) }
        for formerOwner in formerOwners { try note(changeOf: formerOwner) }
        note(nil, new)
        return DevicePut(new, isNew: true)
    }

    private func replace(_ old: Device, number: Int64, with device: Device) throws(StoreError) -> Device {
        var new = device.roundedToMilliseconds
        new.createdAt = old.createdAt
        let formerOwners = try assignTokens(of: &new, number: number, before: old.tokens)
        labels.note(number)
        bind(new, to: update)
        try update.run()
        try write(tags: new.tags, instead: old.tags, of: number, new.app)
        if new.user.map(ExactText.init) != old.user.map(ExactText.init) {
            if old.user != nil { try labels.disinherit(number, new.app) }
            if let user = new.user { try labels.inherit(number, from: user, new.app) }
        }
        for token in old.tokens where !new.tokens.contains(where: { $0.slot == token.slot }) {
            try remove(token.slot, of: number)
        }
        for token in new.tokens where !old.tokens.contains(token) { try save(token, of: number) }
        for formerOwner in formerOwners { try note(changeOf: formerOwner) }
        note(old, new)
        return new
    }

    /// Finds the other owners of the device's tokens, and takes the tokens from them, except tokens that they
    /// registered later.
    ///
    /// Returns the devices that lose one, as they were, when changes are collected.
    private func assignTokens(
        of device: inout Device,
        number: Int64?,
        before: [RegisteredToken]
    ) throws(StoreError) -> [Device] {
        var formerOwners: [Device] = []
        let app = device.app
        for token in device.tokens {
            if before.contains(token) { continue }
            guard let known = try self.owner(of: token.token, in: app) else {
                device.setToken(token.registered(over: nil))
                continue
            }
            if known.number == number {
                device.setToken(token.registered(over: known.token))
            } else if known.token.isYounger(than: token) {
                device.removeToken(of: token.slot)
            } else {
                if !formerOwners.contains(where: { $0.id == known.id }), let formerOwner = try self.before(known.id) {
                    formerOwners.append(formerOwner)
                }
                try remove(known.token.slot, of: known.number)
                device.setToken(token.registered(over: known.token))
            }
        }
        return formerOwners
    }

    private func bind(_ device: Device, to statement: SQLStatement) {
        statement.bind(1, device.id)
        statement.bind(2, device.user)
        statement.bind(3, device.platform)
        statement.bind(4, device.storedTags)
        statement.bind(5, device.locale)
        statement.bind(6, device.appVersion)
        statement.bind(7, device.timeZone)
        statement.bind(8, device.createdAt.millisecondsSince1970)
        statement.bind(9, device.updatedAt.millisecondsSince1970)
        statement.bind(10, device.lastSeen?.millisecondsSince1970)
        statement.bind(11, device.attributes.isEmpty ? nil : JSONValue.object(device.attributes).text)
    }

    private func write(tags: [String], instead old: [String], of number: Int64, _ app: AppName) throws(StoreError) {
        guard tags != old else { return }
        for tag in old where !tags.contains(tag) {
            removeTag.bind(1, tag)
            removeTag.bind(2, number)
            if try removeTag.run() > 0 { labels.count(-1, AudienceLabel.tag(tag), in: app) }
        }
        for tag in tags where !old.contains(tag) {
            insertTag.bind(1, tag)
            insertTag.bind(2, number)
            if try insertTag.run() > 0 { labels.count(1, AudienceLabel.tag(tag), in: app) }
        }
    }

    private func remove(_ slot: TokenSlot, of number: Int64) throws(StoreError) {
        labels.note(number)
        removeToken.bind(1, number)
        removeToken.bind(2, slot.description)
        try removeToken.run()
    }

    private func save(_ token: RegisteredToken, of number: Int64) throws(StoreError) {
        labels.note(number)
        saveToken.bind(1, number)
        saveToken.bind(2, token.slot.description)
        saveToken.bind(3, token.token.value)
        saveToken.bind(4, TokenHash.of(token.token.service.rawValue, token.token.value))
        saveToken.bind(5, token.registeredAt.millisecondsSince1970)
        saveToken.bind(6, token.tombstone?.asOf.millisecondsSince1970)
        saveToken.bind(7, token.tombstone?.at.millisecondsSince1970)
        saveToken.bind(8, token.tombstone?.backend)
        saveToken.bind(9, token.tombstone?.reason)
        saveToken.bind(10, token.tombstone.map { $0.isQuarantined ? 1 : 0 } as Int64?)
        saveToken.bind(11, token.environment == .unknown ? nil : token.environment.rawValue)
        saveToken.bind(12, BackendRefusal.stored(token.refusals))
        try saveToken.run()
    }

    // MARK: Tombstones

    private struct Owner {
        var number: Int64
        var id: String
        var user: String?
        var token: RegisteredToken

        init(_ row: SQLStatement) throws(StoreError) {
            token = try DeviceReader.token(from: row)
            let rest = DeviceReader.tokenColumnCount
            number = try row.integer(rest)
            id = try row.text(rest + 1)
            user = try row.optionalText(rest + 2)
        }

        func invalidated(_ tombstone: Tombstone) -> InvalidatedToken {
            InvalidatedToken(device: id, user: user, token: token.token, kind: token.kind, tombstone: tombstone)
        }
    }

    private func owner(of token: DeviceToken, in app: AppName) throws(StoreError) -> Owner? {
        owner.bind(1, TokenHash.of(token.service.rawValue, token.value))
        owner.bind(2, token.service.rawValue)
        owner.bind(3, token.value)
        while try owner.next() {
            let found = try Owner(owner)
            guard AppName(ofDevice: found.id) == app else { continue }
            owner.reset()
            return found
        }
        return nil
    }

    /// Removes tokens from their devices.
    func remove(_ tokens: [DeviceToken], in app: AppName) throws(StoreError) {
        for token in tokens {
            if let owner = try self.owner(of: token, in: app) { try remove(owner.token.slot, of: owner.number) }
        }
    }

    /// Records refusals of single backends; returns those of tokens that all alternatives have refused.
    func refuse(_ refusals: [TokenRefusal]) throws(StoreError) -> [TokenRefusal] {
        var exhausted: [TokenRefusal] = []
        for refusal in refusals {
            guard let owner = try self.owner(of: refusal.token, in: refusal.app) else {
                if refusal.isLast { exhausted.append(refusal) }
                continue
            }
            switch owner.token.effect(of: refusal) {
            case .none: break
            case .refused(let token): try save(token, of: owner.number)
            case .exhausted: exhausted.append(refusal)
            }
        }
        return exhausted
    }

    /// Removes the refusals of up to `limit` tokens.
    func forgetRefusals(limit: Int) throws(StoreError) -> Int {
        labels.noteAll()
        forgetRefusals.bind(1, limit)
        return try forgetRefusals.run()
    }

    /// Marks tokens invalid, or quarantines them; returns those that are new.
    func refuse(_ refusals: [TokenRefusal], isQuarantined: Bool) throws(StoreError) -> [InvalidatedToken] {
        var invalidated: [InvalidatedToken] = []
        for refusal in refusals {
            guard let owner = try self.owner(of: refusal.token, in: refusal.app),
                let dead = owner.token.refused(refusal, isQuarantined: isQuarantined), let tombstone = dead.tombstone
            else { continue }
            let old = isQuarantined ? nil : try before(owner.id)
            try save(dead, of: owner.number)
            try note(changeOf: old)
            invalidated.append(owner.invalidated(tombstone))
        }
        return invalidated
    }

    /// Quarantines tokens that a backend has marked invalid since a moment.
    func quarantine(tombstonesOf backend: String, since moment: Int64) throws(StoreError) -> Int {
        labels.noteAll()
        quarantineSince.bind(1, backend)
        quarantineSince.bind(2, moment)
        return try quarantineSince.run()
    }

    /// Marks up to `limit` quarantined tokens of a backend invalid.
    func invalidate(quarantinedOf backend: String, limit: Int) throws(StoreError) -> [InvalidatedToken] {
        var released: [InvalidatedToken] = []
        for owner in try quarantined(of: backend, limit: limit) {
            guard var tombstone = owner.token.tombstone else { continue }
            let old = try before(owner.id)
            labels.note(owner.number)
            setReleased.bind(1, owner.number)
            setReleased.bind(2, owner.token.slot.description)
            try setReleased.run()
            try note(changeOf: old)
            tombstone.isQuarantined = false
            released.append(owner.invalidated(tombstone))
        }
        return released
    }

    /// Discards up to `limit` quarantined invalidations of a backend.
    func discard(quarantinedOf backend: String, limit: Int) throws(StoreError) -> Int {
        let owners = try quarantined(of: backend, limit: limit)
        for owner in owners { try save(owner.token.discarded, of: owner.number) }
        return owners.count
    }

    /// Returns quarantined tokens, all read before anything changes: rows must not move under the statement that finds
    /// them.
    private func quarantined(of backend: String, limit: Int) throws(StoreError) -> [Owner] {
        quarantined.bind(1, backend)
        quarantined.bind(2, limit)
        var owners: [Owner] = []
        while try quarantined.next() { owners.append(try Owner(quarantined)) }
        return owners
    }
}
