import Foundation
public import ChaparCore
public import ChaparQueue

/// Finds the deliveries that receipts are about, and changes them; used by the writer's thread only, within its
/// transaction.
final class ReceiptTables {
    /// The longest attempt log, in bytes, to which receipts without a new state are still added.
    private static let longestAttemptLog = 32 << 10

    private let insert: SQLStatement
    private let remove: SQLStatement
    private let find: SQLStatement
    private let findAny: SQLStatement
    private let row: SQLStatement
    private let update: SQLStatement
    private let restore: SQLStatement
    private let isAwaited: SQLStatement
    private let archive: Archive

    init(_ connection: OpaquePointer, _ archive: Archive) throws(StoreError) {
        self.archive = archive
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        insert = try statement("INSERT OR REPLACE INTO awaited (delivery, message, token) VALUES (?1, ?2, ?3)")
        remove = try statement("DELETE FROM awaited WHERE delivery >= ?1 AND delivery < ?2")
        find = try statement("SELECT delivery FROM awaited WHERE message = ?1 AND token = ?2 ORDER BY delivery")
        findAny = try statement("SELECT delivery FROM awaited WHERE message = ?1 ORDER BY delivery LIMIT 1")
        row = try statement(
            """
            SELECT d.state, coalesce(d.head, d.id), d.recipient, d.attempt_log, f.caller, h.record, f.backend
            FROM deliveries d
            JOIN flows f ON f.number = d.flow LEFT JOIN deliveries h ON h.id = coalesce(d.head, d.id) WHERE d.id = ?1 AND d.state > 0 AND (f.backend = ?2 OR ?2 = '')
            """
        )
        isAwaited = try statement("SELECT 1 FROM awaited WHERE delivery >= ?1 AND delivery <= ?2 LIMIT 1")
        restore = try statement(
            """
            INSERT OR IGNORE INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, recipient,
            attempt_log, count, plan, scheduled, caller, record)
            VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, 0, 0, ?7, ?8, ?9, 1, 0, ?10, ?11, ?12)
            """
        )
        update = try statement(
            """
            UPDATE deliveries SET state = ?2, changed = ?3,
            attempt_log = CASE WHEN attempt_log IS NULL THEN ?4 ELSE attempt_log || ',' || ?4 END WHERE id = ?1
            """
        )
    }

    /// Gives a row to an archived delivery, so that it can change; the row takes precedence from now on.
    ///
    /// Returns false when it is not in the archive.
    private func restoreArchived(_ id: Int64, now: Int64) throws(StoreError) -> Bool {
        guard let (delivery, endedAt) = try archive.delivery(id) else { return false }
        restore.bind(1, id)
        restore.bind(2, delivery.state.code)
        restore.bind(3, delivery.flow)
        // It ended, so it has no due time; the column wants one.
        restore.bind(4, now)
        restore.bind(5, delivery.expires)
        restore.bind(6, delivery.attemptLog == nil ? 0 : 1)
        restore.bind(7, endedAt)
        restore.bind(8, String(decoding: delivery.recipient, as: UTF8.self))
        if let attemptLog = delivery.attemptLog {
            restore.bind(9, String(decoding: attemptLog, as: UTF8.self))
        } else {
            restore.bindNull(9)
        }
        restore.bind(10, delivery.scheduled)
        restore.bind(11, String(decoding: delivery.caller, as: UTF8.self))
        restore.bind(12, blob: delivery.record)
        return try restore.run() == 1
    }

    /// Records that a receipt is expected for a delivery.
    func expect(_ delivery: Int64, _ address: ReceiptAddress) throws(StoreError) {
        insert.bind(1, delivery)
        insert.bind(2, address.messageHash)
        insert.bind(3, address.tokenHash)
        try insert.run()
    }

    /// Stops expecting receipts for the deliveries of a block of the archive.
    func forget(block number: Int64, from first: Int64, to last: Int64) throws(StoreError) {
        isAwaited.bind(1, first)
        isAwaited.bind(2, last)
        guard try isAwaited.next() else { return }
        isAwaited.reset()
        for id in try archive.numbers(inBlock: number) { try forget(from: id, to: id.adding(clamping: 1)) }
    }

    /// Stops expecting receipts for a range of deliveries.
    func forget(from first: Int64, to end: Int64) throws(StoreError) {
        remove.bind(1, first)
        remove.bind(2, end)
        try remove.run()
    }

    /// Records a receipt; its event goes to `publish`.
    ///
    /// `waiting` records it if it is about a delivery that has not ended, and returns nil if it is not.
    func receive(
        _ entry: ReceiptEntry,
        now: Int64,
        waiting: (Int64) throws(StoreError) -> ReceiptResult?,
        publish: ([UInt8]) -> Void
    ) throws(StoreError) -> ReceiptResult {
        for delivery in try candidates(entry.address) {
            var known = try look(at: delivery, entry.address)
            if known == nil, try restoreArchived(delivery, now: now) { known = try look(at: delivery, entry.address) }
            guard let (stored, attemptLog) = known else {
                if let result = try waiting(delivery) { return result }
                continue
            }
            guard entry.isFor(stored) else { continue }
            var found = stored
            if let state = entry.state {
                // A delivery never returns to a state, and two events of one moment may have the same words: only the
                // state decides.
                guard found.state.canBecome(state) else { return .repeated(found) }
                found.state = state
            } else if attemptLog.count > Self.longestAttemptLog || attemptLog.firstRange(of: entry.logEntry) != nil {
                return .repeated(found)
            }
            update.bind(1, delivery)
            update.bind(2, found.state.code)
            update.bind(3, now)
            update.bind(4, String(decoding: entry.logEntry, as: UTF8.self))
            try update.run()
            publish(entry.event(found))
            return .recorded(found)
        }
        return .unknown
    }

    private func candidates(_ address: ReceiptAddress) throws(StoreError) -> [Int64] {
        if let delivery = address.delivery { return [delivery] }
        let statement = address.token == nil ? findAny : find
        statement.bind(1, address.messageHash)
        if address.token != nil { statement.bind(2, address.tokenHash) }
        var found: [Int64] = []
        while try statement.next() { found.append(try statement.id(0)) }
        return found
    }

    /// Returns the delivery with its attempt log, if it is really the one: hashes may collide, the platform's id in the
    /// log does not.
    private func look(
        at id: Int64,
        _ address: ReceiptAddress
    ) throws(StoreError) -> (ReceivedDelivery, attemptLog: [UInt8])? {
        row.bind(1, id)
        row.bind(2, address.backend)
        guard try row.next() else { return nil }
        defer { row.reset() }
        let attemptLog = try row.bytes(3)
        guard let state = DeliveryState(code: try row.integer(0)),
            let recipient = Recipient(storedForm: try row.text(2)),
            address.delivery != nil || attemptLog.firstRange(of: JSONValue.string(address.platformID).bytes) != nil
        else { return nil }
        let delivery = ReceivedDelivery(
            id: id,
            notificationID: NotificationID(rawValue: try row.id(1)),
            recipient: recipient,
            caller: try row.text(4),
            state: state,
            record: row.isNull(5) ? nil : NotificationRecord(encoded: try row.bytes(5)),
            backend: try row.text(6)
        )
        return (delivery, attemptLog)
    }
}

extension SQLiteStore {
    /// Records receipts through the writer's thread, in one commit with other commands that wait.
    public func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        guard !receipts.isEmpty else { return [] }
        return try await work(rows: receipts.count, isNew: false) { (writer) throws(StoreError) in
            try writer.receipts.record(receipts, writer.reports)
        }
    }
}
