import Foundation
import PushCore
import PushComposition
import PushQueue

/// Turns stored rows into entries.
///
/// Deliveries of one notification share its content in memory. A row that cannot be read (its file was damaged) stays as it
/// is and is passed over: one such row must not stop its backend.
struct RowReader {
    private let statements: Statements
    private let queueIndex: QueueIndex
    private let status: StoreStatus
    private var heads: [Int64: DeliveryHead] = [:]

    init(_ writer: CommitLoop) {
        statements = writer.sql
        queueIndex = writer.queueIndex
        status = writer.core.status
    }

    /// The waiting delivery of a number; nil when it is final or gone, or cannot be read, which is logged once.
    mutating func entry(_ id: Int64) throws(StoreError) -> Entry? {
        let row = statements.row
        row.bind(1, id)
        guard try row.next() else { return nil }
        defer { row.reset() }
        guard let flow = queueIndex.flow(number: row.integer(0)),
            let recipient = Recipient(storedForm: row.text(9))
        else {
            status.logUnreadable(id)
            return nil
        }
        let head: DeliveryHead
        var contentBytes = 0
        if let number = row.optional(7) {
            guard let shared = try self.head(number, &contentBytes) else {
                status.logUnreadable(id)
                return nil
            }
            head = row.isNull(12) ? shared : shared.with(DeliveryPlan(storedForm: row.text(12)))
        } else {
            head = DeliveryHead(
                id: NotificationID(rawValue: id),
                content: .stored(row.bytes(13)),
                plan: DeliveryPlan(storedForm: row.text(12)),
                acceptedAt: Date(millisecondsSince1970: row.integer(11)),
                expiresAt: Date(millisecondsSince1970: row.integer(2))
            )
            contentBytes = row.byteCount(13)
        }
        return Entry(
            id: id,
            head: head,
            recipient: recipient,
            flow: flow,
            due: row.integer(1),
            step: head.plan.step(stored: row.integer(3)),
            attempts: Int(count: row.integer(4)),
            attemptLog: row.bytes(10),
            collapse: row.optional(8),
            isReplay: row.integer(5) & Schema.replay != 0,
            isRecovered: row.integer(6) == 1,
            isCancelled: row.integer(5) & Schema.cancelled != 0,
            contentBytes: contentBytes
        )
    }

    /// What deliveries of a notification share, nil when it is lost; its bytes count for the first of them.
    private mutating func head(_ number: Int64, _ contentBytes: inout Int) throws(StoreError) -> DeliveryHead? {
        if let head = heads[number] { return head }
        let row = statements.head
        row.bind(1, number)
        guard try row.next() else { return nil }
        defer { row.reset() }
        let head = DeliveryHead(
            id: NotificationID(rawValue: number),
            content: .stored(row.bytes(3)),
            plan: DeliveryPlan(storedForm: row.text(2)),
            acceptedAt: Date(millisecondsSince1970: row.integer(0)),
            expiresAt: Date(millisecondsSince1970: row.integer(1))
        )
        heads[number] = head
        contentBytes = row.byteCount(3)
        return head
    }
}
