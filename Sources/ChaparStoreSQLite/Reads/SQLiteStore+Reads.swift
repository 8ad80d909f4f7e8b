import Foundation
import GRDB
public import ChaparCore
public import ChaparQueue

extension SQLiteStore {
    /// Returns a notification with the counts of its deliveries' states.
    public func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification? {
        let now = time.steady.millisecondsSince1970
        var found = try await stored(id, now: now)
        if found == nil {
            if let new = try await look({ $0.withoutRow(id)?.notification }) { return new }
            found = try await stored(id, now: now)  // It may have got its row in between.
        }
        guard let (stored, waiting) = found else { return try await archived(id)?.notification }
        var notification = stored
        let claimed = try await claimed(among: waiting.map(\.0))
        for (number, state) in waiting where claimed.contains(number) {
            notification.counts[state, default: 1] -= 1
            notification.counts[.sending, default: 0] += 1
        }
        notification.counts = notification.counts.filter { $0.value != 0 }
        return notification
    }

    /// Returns the one delivery of a notification that is in the archive, with its backend.
    private func archived(_ id: NotificationID) async throws(StoreError) -> Archived? {
        try await read { db in
            let blocks = try db.statement(Archive.search)
            blocks.bind(1, id.rawValue)
            blocks.bind(2, id.rawValue)
            blocks.bind(3, id.rawValue.adding(clamping: Archive.widestBlock))
            while try blocks.next() {
                guard let delivery = try ArchivedDelivery.find(id.rawValue, in: try blocks.bytes(0)) else { continue }
                let flow = try db.statement("SELECT backend FROM flows WHERE number = ?1")
                flow.bind(1, delivery.flow)
                let endedAt = try? blocks.date(1)
                return Archived(delivery: delivery, backend: try flow.next() ? try flow.text(0) : "", endedAt: endedAt)
            }
            return nil
        }
    }

    private struct Archived {
        var delivery: ArchivedDelivery
        var backend: String
        /// The time at which its block was written: that of the commit in which it ended.
        var endedAt: Date?

        var notification: StoredNotification? {
            NotificationRecord(encoded: delivery.record).map { record in
                StoredNotification(
                    id: NotificationID(rawValue: delivery.id),
                    record: record,
                    caller: String(decoding: delivery.caller, as: UTF8.self),
                    dueAt: delivery.scheduled.map { Date(millisecondsSince1970: $0) },
                    expiresAt: Date(millisecondsSince1970: delivery.expires),
                    counts: [delivery.state: 1]
                )
            }
        }

        var stored: StoredDelivery? {
            Recipient(storedForm: String(decoding: delivery.recipient, as: UTF8.self)).map { recipient in
                var stored = StoredDelivery(
                    id: delivery.id,
                    recipient: recipient,
                    state: delivery.state,
                    backend: backend,
                    dueAt: nil,
                    expiresAt: Date(millisecondsSince1970: delivery.expires),
                    attemptLog: delivery.attemptLog ?? []
                )
                stored.endedAt = endedAt
                return stored
            }
        }
    }

    /// Returns a notification as the rows have it, with its waiting deliveries.
    private func stored(_ id: NotificationID, now: Int64) async throws(StoreError)
        -> (StoredNotification, waiting: [(Int64, DeliveryState)])?
    {
        try await read { db in
            let head = try db.statement(
                """
                SELECT count, record, caller, scheduled, expires FROM deliveries
                WHERE id = ?1 AND head IS NULL
                """
            )
            head.bind(1, id.rawValue)
            guard try head.next() else { return nil }
            let rows = try db.statement("SELECT id, state, attempts, due FROM deliveries WHERE id >= ?1 AND id < ?2")
            rows.bind(1, id.rawValue)
            rows.bind(2, id.rawValue.adding(clamping: Int64(try head.count(0))))
            var counts: [DeliveryState: Int] = [:]
            var waiting: [(Int64, DeliveryState)] = []
            while try rows.next() {
                let state = try rows.state(1, attempts: 2, due: 3, now: now)
                counts[state, default: 0] += 1
                if !state.isFinal { waiting.append((try rows.integer(0), state)) }
            }
            guard let record = NotificationRecord(encoded: try head.bytes(1)) else {
                throw head.damage(1, "a notification's record")
            }
            let notification = StoredNotification(
                id: id,
                record: record,
                caller: try head.text(2),
                dueAt: try head.optionalDate(3),
                expiresAt: try head.date(4),
                counts: counts
            )
            return (notification, waiting)
        }
    }

    /// Returns deliveries of a notification, in order.
    public func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError)
        -> [StoredDelivery]
    {
        let now = time.steady.millisecondsSince1970
        var deliveries = try await stored(id, after: after, limit: limit, now: now)
        if deliveries.isEmpty {
            let new = try await look { $0.withoutRow(id)?.stored }
            if let new { return limit > 0 && new.id > after ?? .min ? [new] : [] }
            deliveries = try await stored(id, after: after, limit: limit, now: now)
            if deliveries.isEmpty, limit > 0, id.rawValue > after ?? .min, let old = try await archived(id)?.stored {
                return [old]
            }
        }
        let claimed = try await claimed(among: deliveries.filter { !$0.state.isFinal }.map(\.id))
        guard !claimed.isEmpty else { return deliveries }
        for index in deliveries.indices where claimed.contains(deliveries[index].id) {
            deliveries[index].state = .sending
        }
        return deliveries
    }

    /// Returns deliveries of a notification as the rows have them.
    private func stored(_ id: NotificationID, after: Int64?, limit: Int, now: Int64) async throws(StoreError)
        -> [StoredDelivery]
    {
        try await read { db in
            let rows = try db.statement(
                """
                SELECT d.id, d.state, d.attempts, d.due, d.expires, d.recipient, d.attempt_log, f.backend, d.changed
                FROM deliveries d LEFT JOIN flows f ON f.number = d.flow
                WHERE d.id > ?1 AND d.id >= ?2
                AND d.id < ?2 + (SELECT count FROM deliveries WHERE id = ?2 AND head IS NULL)
                ORDER BY d.id LIMIT ?3
                """
            )
            rows.bind(1, after ?? id.rawValue.adding(clamping: -1))
            rows.bind(2, id.rawValue)
            rows.bind(3, max(0, limit))
            var found: [StoredDelivery] = []
            while try rows.next() {
                guard let recipient = Recipient(storedForm: try rows.text(5)) else {
                    throw rows.damage(5, "a recipient")
                }
                let state = try rows.state(1, attempts: 2, due: 3, now: now)
                var delivery = StoredDelivery(
                    id: try rows.integer(0),
                    recipient: recipient,
                    state: state,
                    backend: try rows.text(7),
                    dueAt: state.isFinal ? nil : try rows.date(3),
                    expiresAt: try rows.date(4),
                    attemptLog: try rows.bytes(6)
                )
                // A damaged time costs the time, not the delivery.
                if state.isFinal { delivery.endedAt = try? rows.date(8) }
                found.append(delivery)
            }
            return found
        }
    }

    /// Returns events above a number, from memory when they are new, else from the file.
    public func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent] {
        guard limit > 0 else { return [] }
        let until = time.steady.millisecondsSince1970.adding(clamping: wait.boundedMilliseconds)
        while true {
            guard !isClosed else { throw .closed }
            guard let recent = feed.read(after: after, limit: limit) else {
                return try await storedEvents(after: after, limit: limit)
            }
            guard recent.isEmpty, !Task.isCancelled, time.steady.millisecondsSince1970 < until else { return recent }
            await feed.wait(after: after, until: until) { setTimer($0) }
        }
    }

    /// Returns the number of the newest event.
    public func lastEvent() async throws(StoreError) -> Int64 {
        guard !isClosed else { throw .closed }
        return feed.last
    }

    /// Returns the value kept under a name.
    public func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        try await read { db in try db.value(named: name) }
    }

    private func storedEvents(after: Int64, limit: Int) async throws(StoreError) -> [StoredEvent] {
        try await read { db in
            let rows = try db.statement(
                """
                SELECT first, packed FROM events
                WHERE first >= coalesce((SELECT max(first) FROM events WHERE first <= ?1), 0) ORDER BY first
                """
            )
            rows.bind(1, after.adding(clamping: 1))
            var events: [StoredEvent] = []
            while events.count < limit, try rows.next() {
                let first = try rows.id(0)
                for (index, json) in EventPacking.unpack(try rows.bytes(1)).enumerated() where events.count < limit {
                    let number = first.adding(clamping: Int64(index))
                    if number > after { events.append(StoredEvent(number: number, json: json)) }
                }
            }
            return events
        }
    }

    /// Returns which of these waiting deliveries are claimed, which only memory has.
    private func claimed(among numbers: [Int64]) async throws(StoreError) -> Set<Int64> {
        guard !numbers.isEmpty else { return [] }
        return try await look { queueIndex in Set(numbers.filter { queueIndex.claims[$0] != nil }) }
    }
}

extension SQLStatement {
    /// Returns the state of an unclaimed delivery, from three columns.
    fileprivate func state(
        _ column: Int32,
        attempts: Int32,
        due: Int32,
        now: Int64
    ) throws(StoreError) -> DeliveryState {
        let code = try integer(column)
        guard code == 0 || DeliveryState(code: code) != nil else { throw damage(column, "the number of a state") }
        return DeliveryState(code: code, attempts: try integer(attempts), due: try moment(due), now: now)
    }
}
