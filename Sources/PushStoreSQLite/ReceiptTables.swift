import Foundation
public import PushCore

/// Finds the deliveries that receipts are about, and changes them; used by the writer's thread only, within its transaction.
final class ReceiptTables {
    /// The longest story that news without a decision is still added to, in bytes.
    private static let longestStory = 32 << 10

    private let insert: SQLStatement
    private let remove: SQLStatement
    private let find: SQLStatement
    private let findAny: SQLStatement
    private let row: SQLStatement
    private let update: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        insert = try statement("INSERT OR REPLACE INTO awaited (delivery, message, token) VALUES (?1, ?2, ?3)")
        remove = try statement("DELETE FROM awaited WHERE delivery >= ?1 AND delivery < ?2")
        find = try statement("SELECT delivery FROM awaited WHERE message = ?1 AND token = ?2 ORDER BY delivery")
        findAny = try statement("SELECT delivery FROM awaited WHERE message = ?1 ORDER BY delivery LIMIT 1")
        row = try statement(
            """
            SELECT d.state, coalesce(d.head, d.id), d.recipient, d.story FROM deliveries d
            JOIN lanes ON lanes.number = d.lane WHERE d.id = ?1 AND d.state > 0 AND (lanes.name = ?2 OR ?2 = '')
            """
        )
        update = try statement(
            """
            UPDATE deliveries SET state = ?2, changed = ?3,
            story = CASE WHEN story IS NULL THEN ?4 ELSE story || ',' || ?4 END WHERE id = ?1
            """
        )
    }

    /// Expects a receipt for a delivery.
    func expect(_ delivery: Int64, _ address: ReceiptAddress) throws(StoreError) {
        insert.bind(1, delivery)
        insert.bind(2, Self.message(address))
        insert.bind(3, Self.token(address.token))
        try insert.run()
    }

    /// Expects nothing more for deliveries of a range.
    func forget(from first: Int64, to end: Int64) throws(StoreError) {
        remove.bind(1, first)
        remove.bind(2, end)
        try remove.run()
    }

    /// Takes a receipt; the event that tells of it goes to `publish`.
    func receive(
        _ entry: ReceiptEntry,
        now: Int64,
        publish: ([UInt8]) -> Void
    ) throws(StoreError) -> ReceiptResult {
        for delivery in try candidates(entry.address) {
            guard let (stored, story) = try look(at: delivery, entry.address) else { continue }
            var found = stored
            let isOld = story.firstRange(of: entry.story) != nil
            if let state = entry.state {
                guard !isOld, found.state.canBecome(state) else { return .repeated(found) }
                found.state = state
            } else if isOld || story.count > Self.longestStory {
                return .repeated(found)
            }
            update.bind(1, delivery)
            update.bind(2, found.state.code)
            update.bind(3, now)
            update.bind(4, String(decoding: entry.story, as: UTF8.self))
            try update.run()
            publish(entry.event(found))
            return .taken(found)
        }
        return .unknown
    }

    private func candidates(_ address: ReceiptAddress) throws(StoreError) -> [Int64] {
        if let delivery = address.delivery { return [delivery] }
        let statement = address.token == nil ? findAny : find
        statement.bind(1, Self.message(address))
        if address.token != nil { statement.bind(2, Self.token(address.token)) }
        var found: [Int64] = []
        while try statement.next() { found.append(statement.integer(0)) }
        return found
    }

    /// The delivery with its story, if it is really the one: hashes may meet, the platform's id in the story does not lie.
    private func look(
        at id: Int64,
        _ address: ReceiptAddress
    ) throws(StoreError) -> (ReceivedDelivery, story: [UInt8])? {
        row.bind(1, id)
        row.bind(2, address.backend)
        guard try row.next() else { return nil }
        defer { row.reset() }
        let story = row.bytes(3)
        guard let state = DeliveryState(code: row.integer(0)), let recipient = Recipient(storedForm: row.text(2)),
            address.delivery != nil || story.firstRange(of: JSONValue.string(address.platformID).bytes) != nil
        else { return nil }
        let delivery = ReceivedDelivery(
            id: id,
            notificationID: NotificationID(rawValue: row.integer(1)),
            recipient: recipient,
            state: state
        )
        return (delivery, story)
    }

    private static func message(_ address: ReceiptAddress) -> Int64 {
        hash(address.backend + "\u{0}" + address.platformID)
    }

    private static func token(_ token: String?) -> Int64 { token.map(hash) ?? 0 }

    /// FNV-1a: the same in every process, unlike Swift's own hashes.
    private static func hash(_ text: String) -> Int64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Int64(bitPattern: hash)
    }
}

extension SQLiteStore {
    /// Writes receipts through the writer's thread, in one commit with whatever else waits.
    public func receive(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        guard !receipts.isEmpty else { return [] }
        return try await work(rows: receipts.count, isNew: false) { (writer) throws(StoreError) in
            try writer.begin()
            var results: [ReceiptResult] = []
            for receipt in receipts {
                let result = try writer.receiptTables().receive(receipt, now: writer.now) { event in
                    writer.journal.events.append(event)
                }
                results.append(result)
            }
            return results
        }
    }
}

extension Writer {
    /// The table of awaited receipts, whose statements are prepared when they are needed first.
    func receiptTables() throws(StoreError) -> ReceiptTables {
        if let receipts { return receipts }
        let tables = try ReceiptTables(connection)
        receipts = tables
        return tables
    }
}
