import ChaparCore
import ChaparQueue

/// Makes the changes of an erasure, each a part of one transaction.
///
/// Used by the writer's thread only.
final class Erasing {
    private let transaction: Transaction
    private let queueIndex: QueueIndex
    private let rows: RowWriter
    private let endings: Endings
    private let receipts: Receipts
    private let searchIndex: SearchIndex
    private let sql: NotificationStatements

    init(
        _ transaction: Transaction,
        _ rows: RowWriter,
        _ endings: Endings,
        _ receipts: Receipts,
        _ searchIndex: SearchIndex,
        _ sql: NotificationStatements
    ) {
        self.transaction = transaction
        queueIndex = transaction.queueIndex
        self.rows = rows
        self.endings = endings
        self.receipts = receipts
        self.searchIndex = searchIndex
        self.sql = sql
    }

    /// Writes the rows of the oldest staged deliveries, up to a number; returns false when there are none.
    func writeOutFirst(upTo newest: Int64) throws(StoreError) -> Bool {
        guard let first = queueIndex.staged.first, first.number <= newest else { return false }
        try rows.writeOut(first)
        return true
    }

    /// Ends and erases deliveries with these numbers, whose recipients are checked again.
    func erase(
        _ numbers: [Int64],
        _ recipients: Set<ExactText>,
        _ event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) throws(StoreError) -> ErasedDeliveries {
        var result = ErasedDeliveries()
        let row = try SQLStatement(
            transaction.connection,
            "SELECT state, head, recipient FROM deliveries WHERE id = ?1"
        )
        let redact = try SQLStatement(
            transaction.connection,
            "UPDATE deliveries SET recipient = ?2, attempt_log = NULL, padding = NULL, collapse = NULL WHERE id = ?1"
        )
        var reader = transaction.makeReader()
        var removedBefore: Int64 = .min  // Deliveries below it went with their notification.
        var redacted: [Int64] = []
        for number in numbers where number >= removedBefore {
            row.bind(1, number)
            guard try row.next() else { continue }
            let (isWaiting, head, isMeant) = (
                try row.integer(0) == 0, try row.optional(1) ?? number, recipients.contains(ExactText(try row.text(2)))
            )
            row.reset()
            guard isMeant else { continue }
            if isWaiting {
                if let claimed = queueIndex.claims[number] {
                    sql.markCancelled.bind(1, number)
                    try sql.markCancelled.run()
                    claimed.cancellation = event
                    result.inFlight += 1
                    continue
                }
                guard let entry = try reader.entry(number) else { continue }
                try endings.withdraw(entry, event)
                result.cancelled += 1
            }
            if let past = try end(ofOwn: head, recipients) {
                try searchIndex.forget(try record(of: head), from: head, to: past)
                sql.deleteRange.bind(1, head)
                sql.deleteRange.bind(2, past)
                result.removed += try sql.deleteRange.run()
                try receipts.tables().forget(from: head, to: past)
                result.notifications.insert(head)
                removedBefore = past
                // They count as removed, not as anonymised.
                redacted.removeAll { head..<past ~= $0 }
            } else {
                redact.bind(1, number)
                redact.bind(2, Recipient.erasedForm)
                try redact.run()
                try receipts.tables().forget(from: number, to: number.adding(clamping: 1))
                redacted.append(number)
            }
        }
        result.anonymised = redacted.count
        return result
    }

    /// Returns the record of a notification that has a row; empty without one.
    private func record(of head: Int64) throws(StoreError) -> [UInt8] {
        let row = try SQLStatement(transaction.connection, "SELECT record FROM deliveries WHERE id = ?1")
        row.bind(1, head)
        return try row.next() && !row.isNull(0) ? try row.bytes(0) : []
    }

    /// Returns the end of the numbers of a notification that had no other recipients and is over; nil for another one.
    private func end(ofOwn head: Int64, _ recipients: Set<ExactText>) throws(StoreError) -> Int64? {
        sql.countOf.bind(1, head)
        guard try sql.countOf.next() else { return nil }
        let end = head.adding(clamping: Int64(try sql.countOf.count(0)))
        sql.countOf.reset()
        let rows = try SQLStatement(
            transaction.connection,
            "SELECT state, recipient FROM deliveries WHERE id >= ?1 AND id < ?2 ORDER BY id"
        )
        rows.bind(1, head)
        rows.bind(2, end)
        while try rows.next() {
            // Recipients that were just anonymised were the user's as well.
            let recipient = ExactText(try rows.text(1))
            let isMeant = recipients.contains(recipient) || recipient.text == Recipient.erasedForm
            guard try rows.integer(0) != 0, isMeant else {
                rows.reset()
                return nil
            }
        }
        return end
    }

    /// Removes the deliveries of these recipients up to a number from a block of the archive.
    func erase(
        archiveBlock number: Int64,
        _ recipients: Set<ExactText>,
        upTo end: Int64
    ) throws(StoreError) -> ErasedDeliveries {
        var result = ErasedDeliveries()
        let find = try SQLStatement(transaction.connection, "SELECT packed FROM archive WHERE number = ?1")
        find.bind(1, number)
        guard try find.next() else { return result }
        let records = EventPacking.unpack(try find.bytes(0))
        find.reset()
        var kept: [[UInt8]] = []
        for record in records {
            guard let delivery = ArchivedDelivery(record), delivery.id <= end,
                recipients.contains(delivery.recipientText)
            else {
                kept.append(record)
                continue
            }
            let past = delivery.id.adding(clamping: 1)
            try receipts.tables().forget(from: delivery.id, to: past)
            try searchIndex.forget(delivery.record, from: delivery.id, to: past)
            result.removed += 1
            result.notifications.insert(delivery.id)
        }
        let change = try SQLStatement(
            transaction.connection,
            kept.isEmpty ? "DELETE FROM archive WHERE number = ?1" : "UPDATE archive SET packed = ?2 WHERE number = ?1"
        )
        change.bind(1, number)
        if !kept.isEmpty { change.bind(2, blob: EventPacking.pack(kept)) }
        try change.run()
        return result
    }

    /// Redacts events in a block; returns how many.
    func redact(eventBlock first: Int64, _ redact: (Int64, [UInt8]) -> [UInt8]?) throws(StoreError) -> Int {
        let find = try SQLStatement(transaction.connection, "SELECT packed FROM events WHERE first = ?1")
        find.bind(1, first)
        guard try find.next() else { return 0 }
        var events = EventPacking.unpack(try find.bytes(0))
        find.reset()
        var count = 0
        for index in events.indices {
            guard let other = redact(first.adding(clamping: Int64(index)), events[index]) else { continue }
            events[index] = other
            count += 1
        }
        let change = try SQLStatement(transaction.connection, "UPDATE events SET packed = ?2 WHERE first = ?1")
        change.bind(1, first)
        change.bind(2, blob: EventPacking.pack(events))
        try change.run()
        return count
    }
}

extension ArchivedDelivery {
    /// Its recipient, to be compared byte by byte.
    var recipientText: ExactText { ExactText(String(decoding: recipient, as: UTF8.self)) }
}
