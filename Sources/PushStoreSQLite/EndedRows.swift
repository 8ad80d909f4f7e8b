import PushCore

/// Rows of deliveries that ended before they had one, gathered in a transaction to be inserted several at a time: a
/// statement's beginning and end cost as much as two of its rows.
///
/// Used by the writer's thread only. What looks for rows must ``flush()`` before.
final class EndedRows {
    /// The rows of one statement.
    private static let group = 8

    /// A row: its numbers, and where its texts are.
    private struct Row {
        var id: Int64
        var state: Int64
        var lane: Int64
        var due: Int64
        var expires: Int64
        var attempts: Int
        var changed: Int64
        var recipient: Range<Int>
        var story: Range<Int>?
        var accepted: Int64
        var scheduled: Int64?
        var plan: Range<Int>
        var caller: Range<Int>
        var content: Range<Int>
    }

    private static let columns = 14
    private let one: SQLStatement
    private let several: SQLStatement
    @exclusivity(unchecked) private var rows: [Row] = []
    /// The texts of the rows, which stay where they are until the rows are inserted.
    @exclusivity(unchecked) private var texts: [UInt8] = []

    init(_ connection: OpaquePointer) throws(StoreError) {
        func insert(_ count: Int) throws(StoreError) -> SQLStatement {
            let values = (0..<count).map { row in
                let first = row * Self.columns
                func place(_ column: Int) -> String { "?\(first + column)" }
                let head = (1...5).map(place).joined(separator: ", ")
                let tail = (10...14).map(place).joined(separator: ", ")
                return "(\(head), 0, \(place(6)), 0, 0, \(place(7)), \(place(8)), \(place(9)), 1, \(tail))"
            }
            return try SQLStatement(
                connection,
                """
                INSERT INTO deliveries (id, state, lane, due, expires, step, attempts, replay, mark, changed, recipient,
                story, count, accepted, scheduled, plan, caller, content) VALUES \(values.joined(separator: ", "))
                """
            )
        }
        one = try insert(1)
        several = try insert(Self.group)
    }

    /// Forgets what a transaction that failed gathered.
    func reset() {
        rows.removeAll(keepingCapacity: true)
        texts.removeAll(keepingCapacity: true)
    }

    /// Takes in a delivery that ended, after one attempt or none.
    func add(
        _ entry: Entry,
        _ arrival: Arrival,
        as state: DeliveryState,
        attempt: [UInt8]?,
        plan: [UInt8],
        now: Int64
    ) throws(StoreError) {
        let recipient = append { entry.recipient.appendStoredForm(to: &$0) }
        rows.append(
            Row(
                id: entry.id,
                state: state.code,
                lane: entry.lane.number,
                due: entry.due,
                expires: arrival.row.expires,
                attempts: attempt == nil ? 0 : 1,
                changed: now,
                recipient: recipient,
                story: attempt.map { story in append { $0 += story } },
                accepted: arrival.row.accepted,
                scheduled: arrival.row.scheduled,
                plan: append { $0 += plan },
                caller: append { $0 += arrival.row.caller.utf8 },
                content: append { $0 += arrival.row.content }
            )
        )
        if rows.count == Self.group { try insert(with: several) }
    }

    private func append(_ write: (inout [UInt8]) -> Void) -> Range<Int> {
        let start = texts.count
        write(&texts)
        return start..<texts.count
    }

    /// Inserts what is left.
    func flush() throws(StoreError) {
        while !rows.isEmpty { try insert(with: one) }
    }

    /// Inserts so many rows from the front as the statement has, which may be all there are.
    private func insert(with statement: SQLStatement) throws(StoreError) {
        let count = statement === one ? 1 : Self.group
        try texts.withUnsafeBufferPointer { (texts) throws(StoreError) in
            for place in 0..<count { Self.bind(rows[place], Int32(place * Self.columns), texts, to: statement) }
            _ = try statement.run()
        }
        if count == rows.count { reset() } else { rows.removeFirst(count) }
    }

    private static func bind(
        _ row: Row,
        _ offset: Int32,
        _ texts: UnsafeBufferPointer<UInt8>,
        to statement: SQLStatement
    ) {
        func text(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(rebasing: texts[range]) }
        statement.bind(offset + 1, row.id)
        statement.bind(offset + 2, row.state)
        statement.bind(offset + 3, row.lane)
        statement.bind(offset + 4, row.due)
        statement.bind(offset + 5, row.expires)
        statement.bind(offset + 6, row.attempts)
        statement.bind(offset + 7, row.changed)
        statement.bindText(offset + 8, borrowing: text(row.recipient))
        if let story = row.story {
            statement.bindText(offset + 9, borrowing: text(story))
        } else {
            statement.bindNull(offset + 9)
        }
        statement.bind(offset + 10, row.accepted)
        statement.bind(offset + 11, row.scheduled)
        statement.bindText(offset + 12, borrowing: text(row.plan))
        statement.bindText(offset + 13, borrowing: text(row.caller))
        statement.bindBlob(offset + 14, borrowing: text(row.content))
    }
}
