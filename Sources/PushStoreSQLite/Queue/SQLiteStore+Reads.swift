import Foundation
import GRDB
public import PushCore
public import PushQueue

extension SQLiteStore {
    /// A notification with the counts of its deliveries' states.
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

    /// The one delivery of a notification that is in the archive, with its backend.
    private func archived(_ id: NotificationID) async throws(StoreError) -> Archived? {
        try await read { db in
            let blocks = try Row.fetchCursor(
                db,
                sql: Archive.search,
                arguments: [id.rawValue, id.rawValue, id.rawValue.adding(clamping: Archive.widestBlock)]
            )
            while let block = try blocks.next() {
                guard let delivery = ArchivedDelivery.find(id.rawValue, in: block.bytes("packed")) else { continue }
                let backend = try String.fetchOne(
                    db,
                    sql: "SELECT backend FROM flows WHERE number = ?",
                    arguments: [delivery.flow]
                )
                return Archived(delivery: delivery, backend: backend ?? "")
            }
            return nil
        }
    }

    private struct Archived {
        var delivery: ArchivedDelivery
        var backend: String

        var notification: StoredNotification {
            StoredNotification(
                id: NotificationID(rawValue: delivery.id),
                content: delivery.content,
                caller: String(decoding: delivery.caller, as: UTF8.self),
                acceptedAt: Date(millisecondsSince1970: delivery.accepted),
                dueAt: delivery.scheduled.map { Date(millisecondsSince1970: $0) },
                expiresAt: Date(millisecondsSince1970: delivery.expires),
                counts: [delivery.state: 1]
            )
        }

        var stored: StoredDelivery? {
            Recipient(storedForm: String(decoding: delivery.recipient, as: UTF8.self)).map { recipient in
                StoredDelivery(
                    id: delivery.id,
                    recipient: recipient,
                    state: delivery.state,
                    backend: backend,
                    dueAt: nil,
                    expiresAt: Date(millisecondsSince1970: delivery.expires),
                    attemptLog: delivery.attemptLog ?? []
                )
            }
        }
    }

    /// A notification as the rows have it, with what waits.
    private func stored(_ id: NotificationID, now: Int64) async throws(StoreError)
        -> (StoredNotification, waiting: [(Int64, DeliveryState)])?
    {
        try await read { db in
            guard
                let head = try Row.fetchOne(
                    db,
                    sql: """
                        SELECT count, content, caller, accepted, scheduled, expires FROM deliveries
                        WHERE id = ? AND head IS NULL
                        """,
                    arguments: [id.rawValue]
                )
            else { return nil }
            let count: Int64 = head["count"]
            let rows = try Row.fetchCursor(
                db,
                sql: "SELECT id, state, attempts, due FROM deliveries WHERE id >= ? AND id < ?",
                arguments: [id.rawValue, id.rawValue.adding(clamping: count)]
            )
            var counts: [DeliveryState: Int] = [:]
            var waiting: [(Int64, DeliveryState)] = []
            while let row = try rows.next() {
                let state = DeliveryState(code: row[1], attempts: row[2], due: row[3], now: now)
                counts[state, default: 0] += 1
                if !state.isFinal { waiting.append((row[0], state)) }
            }
            let scheduled: Int64? = head["scheduled"]
            let notification = StoredNotification(
                id: id,
                content: head.bytes("content"),
                caller: head["caller"],
                acceptedAt: Date(millisecondsSince1970: head["accepted"]),
                dueAt: scheduled.map { Date(millisecondsSince1970: $0) },
                expiresAt: Date(millisecondsSince1970: head["expires"]),
                counts: counts
            )
            return (notification, waiting)
        }
    }

    /// Deliveries of a notification in order.
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

    /// Deliveries of a notification as the rows have them.
    private func stored(_ id: NotificationID, after: Int64?, limit: Int, now: Int64) async throws(StoreError)
        -> [StoredDelivery]
    {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT d.id, d.state, d.attempts, d.due, d.expires, d.recipient, d.attempt_log, f.backend AS backend
                    FROM deliveries d JOIN flows f ON f.number = d.flow
                    WHERE d.id > :after AND d.id >= :id
                    AND d.id < :id + (SELECT count FROM deliveries WHERE id = :id AND head IS NULL)
                    ORDER BY d.id LIMIT :limit
                    """,
                arguments: ["id": id.rawValue, "after": after ?? id.delivery(at: -1), "limit": max(0, limit)]
            ).compactMap { row in
                guard let recipient = Recipient(storedForm: row["recipient"]) else { return nil }
                let state = DeliveryState(code: row["state"], attempts: row["attempts"], due: row["due"], now: now)
                return StoredDelivery(
                    id: row["id"],
                    recipient: recipient,
                    state: state,
                    backend: row["backend"],
                    dueAt: state.isFinal ? nil : Date(millisecondsSince1970: row["due"]),
                    expiresAt: Date(millisecondsSince1970: row["expires"]),
                    attemptLog: row.bytes("attempt_log")
                )
            }
        }
    }

    /// Events above a number, from memory when they are new, else from the file.
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

    /// The number of the newest event.
    public func lastEvent() async throws(StoreError) -> Int64 {
        guard !isClosed else { throw .closed }
        return feed.last
    }

    /// The value kept under a name.
    public func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        try await read { db in
            try Data.fetchOne(db, sql: "SELECT value FROM state WHERE name = ?", arguments: [name]).map(Array.init)
        }
    }

    private func storedEvents(after: Int64, limit: Int) async throws(StoreError) -> [StoredEvent] {
        try await read { db in
            let rows = try Row.fetchCursor(
                db,
                sql: """
                    SELECT first, packed FROM events
                    WHERE first >= coalesce((SELECT max(first) FROM events WHERE first <= :next), 0) ORDER BY first
                    """,
                arguments: ["next": after.adding(clamping: 1)]
            )
            var events: [StoredEvent] = []
            while events.count < limit, let row = try rows.next() {
                let first: Int64 = row["first"]
                for (index, json) in EventPacking.unpack(row.bytes("packed")).enumerated() where events.count < limit {
                    let number = first.adding(clamping: Int64(index))
                    if number > after { events.append(StoredEvent(number: number, json: json)) }
                }
            }
            return events
        }
    }

    /// Which of these waiting deliveries are claimed: kept in memory only.
    private func claimed(among numbers: [Int64]) async throws(StoreError) -> Set<Int64> {
        guard !numbers.isEmpty else { return [] }
        return try await look { queueIndex in Set(numbers.filter { queueIndex.claims[$0] != nil }) }
    }
}

extension Row {
    /// A blob or text as bytes; empty for null.
    fileprivate func bytes(_ column: String) -> [UInt8] {
        let data: Data? = self[column]
        return data.map(Array.init) ?? []
    }
}
