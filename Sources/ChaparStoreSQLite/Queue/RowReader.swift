import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue

/// Reads entries from stored rows.
///
/// Deliveries of one notification share its content in memory. A row that is unreadable, because the file was damaged,
/// stays as it is and is skipped: one such row must not stop its backend.
struct RowReader {
    private let sql: RowStatements
    private let queueIndex: QueueIndex
    private let status: StoreStatus
    private var heads: [Int64: DeliveryHead] = [:]

    init(_ sql: RowStatements, _ queueIndex: QueueIndex, _ status: StoreStatus) {
        self.sql = sql
        self.queueIndex = queueIndex
        self.status = status
    }

    /// Returns the waiting delivery with a number; nil when it is final or gone, or unreadable, which is logged once.
    mutating func entry(_ id: Int64) throws(StoreError) -> Entry? {
        let row = sql.row
        row.bind(1, id)
        guard try row.next() else { return nil }
        defer { row.reset() }
        do throws(StoreError) {
            if let entry = try entry(id, row) { return entry }
        } catch {
            guard case .damaged = error else { throw error }
        }
        status.logUnreadable(id)
        return nil
    }

    /// Returns the delivery in the current row; nil when its flow or its notification is lost.
    private mutating func entry(_ id: Int64, _ row: SQLStatement) throws(StoreError) -> Entry? {
        guard let flow = queueIndex.flow(number: try row.integer(0)),
            let recipient = Recipient(storedForm: try row.text(9))
        else { return nil }
        let plan = try row.count(11)
        let head: DeliveryHead
        var contentBytes = 0
        if let number = try row.optional(7) {
            guard let shared = try self.head(number, &contentBytes) else { return nil }
            head = plan == 0 ? shared : shared.with(plan: plan)
        } else {
            guard let record = NotificationRecord(encoded: try row.bytes(12)) else { return nil }
            head = DeliveryHead(
                id: NotificationID(rawValue: id),
                record: record,
                plan: plan,
                expiresAt: try row.date(2)
            )
            contentBytes = record.content.count
        }
        let replay = try row.integer(5)
        return Entry(
            id: id,
            head: head,
            recipient: recipient,
            flow: flow,
            due: try row.moment(1),
            step: head.plan.step(stored: try row.count(3)),
            attempts: try row.count(4),
            attemptLog: try row.bytes(10),
            collapse: try row.optional(8),
            isReplay: replay & Schema.replay != 0,
            isRecovered: try row.integer(6) == 1,
            isCancelled: replay & Schema.cancelled != 0,
            contentBytes: contentBytes
        )
    }

    /// Returns the head that deliveries of a notification share, nil when it is lost; its bytes count for the first of
    /// them.
    private mutating func head(_ number: Int64, _ contentBytes: inout Int) throws(StoreError) -> DeliveryHead? {
        if let head = heads[number] { return head }
        let row = sql.head
        row.bind(1, number)
        guard try row.next() else { return nil }
        defer { row.reset() }
        guard let record = NotificationRecord(encoded: try row.bytes(1)) else { return nil }
        let head = DeliveryHead(
            id: NotificationID(rawValue: number),
            record: record,
            expiresAt: try row.date(0)
        )
        heads[number] = head
        contentBytes = record.content.count
        return head
    }
}

/// The statements that read waiting deliveries.
struct RowStatements {
    let row: SQLStatement
    let head: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        row = try SQLStatement(
            connection,
            """
            SELECT flow, due, expires, step, attempts, replay, mark, head, collapse, recipient, attempt_log, plan,
            record FROM deliveries WHERE id = ?1 AND state = 0
            """
        )
        head = try SQLStatement(connection, "SELECT expires, record FROM deliveries WHERE id = ?1")
    }
}
