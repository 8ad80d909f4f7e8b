internal import Foundation
public import ChaparCore
public import ChaparQueue
internal import Synchronization

extension PostgresStore {
    /// Returns a notification with the counts of its deliveries' states.
    public func notification(_ id: NotificationID) async throws(StoreError) -> StoredNotification? {
        let now = core.now
        return try await session(on: core.reader) { [core] (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT n.count, n.record, n.caller, n.scheduled, n.expires, \(Marks.value(of: .notifications))
                FROM chapar.notifications n WHERE n.id = $1
                """,
                [.integer(id.rawValue)]
            )
            guard rows.count == 1, let count = rows.integer(0, 0) else { return nil }
            guard let record = NotificationRecord(encoded: rows.bytes(0, 1) ?? []) else {
                core.logUnreadable(id)
                return nil
            }
            // One statement reads both tables: a delivery that ends meanwhile is in one of them.
            let states = try db.run(
                """
                SELECT 0::smallint, attempts > 0, due > $3, owner > 0, count(*), NULL::bigint FROM chapar.waiting
                WHERE id >= $1 AND id < $2 GROUP BY 2, 3, 4
                UNION ALL
                SELECT state, false, false, false, count(*), max(changed) FROM chapar.results
                WHERE id >= $1 AND id < $2 GROUP BY state
                """,
                [.integer(id.rawValue), .integer(id.delivery(at: count)), .integer(now)]
            )
            var counts: [DeliveryState: Int] = [:]
            var changed: Int64 = .min
            for row in 0..<states.count {
                let code = states.integer(row, 0) ?? 0
                let state =
                    states.bool(row, 3)
                    ? DeliveryState.sending
                    : DeliveryState(
                        code: code,
                        attempts: states.bool(row, 1) ? 1 : 0,
                        due: states.bool(row, 2) ? 1 : 0,
                        now: 0
                    )
                counts[state, default: 0] += Int(count: states.integer(row, 4) ?? 0)
                changed = max(changed, code == 0 ? .max : states.integer(row, 5) ?? .min)
            }
            guard changed >= rows.integer(0, 5) ?? 0 else { return nil }  // It is over, and older than what is kept.
            return StoredNotification(
                id: id,
                record: record,
                caller: rows.text(0, 2) ?? "",
                dueAt: rows.integer(0, 3).map { Date(millisecondsSince1970: $0) },
                expiresAt: Date(millisecondsSince1970: rows.integer(0, 4) ?? 0),
                counts: counts
            )
        }
    }

    /// Returns deliveries of a notification, in order.
    public func deliveries(of id: NotificationID, after: Int64?, limit: Int) async throws(StoreError)
        -> [StoredDelivery]
    {
        guard try await notification(id) != nil else { return [] }
        let now = core.now
        return try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT d.id, d.state, d.attempts, d.due, d.claimed, n.expires, d.recipient, d.attempt_log, f.backend,
                    d.changed
                FROM (
                    SELECT id, 0::smallint AS state, attempts, due, owner > 0 AS claimed, flow, recipient, attempt_log,
                        NULL::bigint AS changed
                    FROM chapar.waiting WHERE notification = $1 AND id > $2
                    AND id < $1 + (SELECT count FROM chapar.notifications WHERE id = $1)
                    UNION ALL
                    SELECT id, state, 0, 0, false, flow, recipient, attempt_log, changed
                    FROM chapar.results WHERE notification = $1 AND id > $2
                    AND id < $1 + (SELECT count FROM chapar.notifications WHERE id = $1)
                ) AS d JOIN chapar.notifications n ON n.id = $1 JOIN chapar.flows f ON f.number = d.flow
                ORDER BY d.id LIMIT $3
                """,
                [.integer(id.rawValue), .integer(max(after ?? .min, id.delivery(at: -1))), .integer(max(0, limit))]
            )
            return (0..<rows.count).compactMap { row in
                guard let recipient = Recipient(storedForm: rows.text(row, 6) ?? "") else { return nil }
                let due = rows.integer(row, 3) ?? 0
                let state =
                    rows.bool(row, 4)
                    ? DeliveryState.sending
                    : DeliveryState(
                        code: rows.integer(row, 1) ?? 0,
                        attempts: rows.integer(row, 2) ?? 0,
                        due: due,
                        now: now
                    )
                var delivery = StoredDelivery(
                    id: rows.integer(row, 0) ?? 0,
                    recipient: recipient,
                    state: state,
                    backend: rows.text(row, 8) ?? "",
                    dueAt: state.isFinal ? nil : Date(millisecondsSince1970: due),
                    expiresAt: Date(millisecondsSince1970: rows.integer(row, 5) ?? 0),
                    attemptLog: rows.bytes(row, 7) ?? []
                )
                delivery.endedAt = rows.integer(row, 9).map { Date(millisecondsSince1970: $0) }
                return delivery
            }
        }
    }

    /// Returns how much waits and is claimed, as ``DepthCount`` last counted it.
    public func depths() async throws(StoreError) -> [String: QueueDepth] {
        do throws(PostgresError) {
            return try await DepthCount(core).depths()
        } catch {
            throw error.storeError
        }
    }

    /// Returns how much each sender has waiting, as ``DepthCount`` last counted it.
    public func depthsBySender() async throws(StoreError) -> [String: SenderDepth]? {
        do throws(PostgresError) {
            return try await DepthCount(core).depthsOfCallers()
        } catch {
            throw error.storeError
        }
    }

    // MARK: Events

    /// Returns events above a number, and waits for some when there are none.
    public func events(after: Int64, limit: Int, wait: Duration) async throws(StoreError) -> [StoredEvent] {
        guard limit > 0 else { return [] }
        let until = core.now.adding(clamping: wait.boundedMilliseconds)
        while true {
            let mark = core.events.mark
            do throws(PostgresError) {
                if try await EventLog.number(on: core.reader, core.numbering) > after {
                    let found = try await EventLog.read(after: after, limit: limit, on: core.reader)
                    if !found.isEmpty { return found }
                }
            } catch {
                throw error.storeError
            }
            let left = until.subtracting(clamping: core.now)
            guard left > 0, !Task.isCancelled else { return [] }
            await core.events.wait(after: mark, atMost: .milliseconds(min(left, Self.poll)), time)
        }
    }

    /// The interval, in milliseconds, at which commits of other nodes are searched for.
    private static let poll: Int64 = 1_000

    /// Returns the number of the newest event.
    public func lastEvent() async throws(StoreError) -> Int64 {
        do throws(PostgresError) {
            return try await EventLog.number(on: core.reader, core.numbering)
        } catch {
            throw error.storeError
        }
    }

    /// Appends events that belong to no delivery.
    public func publish(_ events: [[UInt8]]) async throws(StoreError) {
        let now = core.now
        try await prepareDay(now)
        try await transaction(on: core.recorder) { (db) throws(PostgresError) in
            try EventLog.append(events, now: now, db)
        }
        core.noteEvents()
    }

    // MARK: State

    /// Returns the value kept under a name.
    public func loadState(_ name: String) async throws(StoreError) -> [UInt8]? {
        try await session(on: core.reader) { (db) throws(PostgresError) in
            try db.run("SELECT value FROM chapar.state WHERE name = $1", [.text(name)]).bytes(0, 0)
        }
    }

    /// Keeps a small value, or removes it.
    public func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        try await session(on: core.recorder) { (db) throws(PostgresError) in
            guard let value else {
                try db.run("DELETE FROM chapar.state WHERE name = $1", [.text(name)])
                return
            }
            try db.saveState(name, value)
        }
    }
}

extension PostgresConnection {
    /// Keeps a small value, within a transaction or as one of its own.
    func saveState(_ name: String, _ value: [UInt8]) throws(PostgresError) {
        try run(
            """
            INSERT INTO chapar.state (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
            """,
            [.text(name), .bytes(value)]
        )
    }
}
