import ChaparCore
import ChaparQueue

/// Writes the events of a transaction, in one row, and notes the newest committed one outside of the database.
///
/// It owns the numbers of events, which follow from each other without gaps. Used by the writer's thread only.
final class EventWriter {
    /// The interval, in milliseconds, at which the newest committed event is noted outside of the database.
    private static let interval: Int64 = 1_000

    private let transaction: Transaction
    private let insert: SQLStatement
    /// The number of the newest committed event.
    private var last: Int64
    /// The time and the event of the last note.
    private var noted: (at: Int64, event: Int64)

    init(_ transaction: Transaction, last: Int64) throws(StoreError) {
        self.transaction = transaction
        insert = try SQLStatement(
            transaction.connection,
            "INSERT INTO events (first, count, at, packed) VALUES (?1, ?2, ?3, ?4)"
        )
        self.last = last
        noted = (.min, last)
    }

    /// Writes the events of the transaction.
    func write() throws(StoreError) {
        guard !transaction.pending.events.isEmpty else { return }
        try transaction.begin()
        let packed = EventPacking.pack(transaction.pending.events)
        insert.bind(1, last.adding(clamping: 1))
        insert.bind(2, transaction.pending.events.count)
        insert.bind(3, transaction.now)
        try packed.withUnsafeBufferPointer { (bytes) throws(StoreError) in
            insert.bindBlob(4, borrowing: bytes)
            _ = try insert.run()
        }
    }

    /// Counts the events of the committed transaction.
    func apply() {
        last = last.adding(clamping: Int64(transaction.pending.events.count))
        noteCommitted()
    }

    /// Notes the newest committed event outside of the database, once a second while there are new ones.
    func noteCommitted() {
        guard let moment = nextNote, transaction.now >= moment else { return }
        noted = (transaction.now, last)
        transaction.core.noteCommitted(last)
    }

    /// Notes the newest committed event when nothing more is committed.
    func noteLast() { if last != noted.event { transaction.core.noteCommitted(last) } }

    /// The time of the next note; nil while nothing new is committed.
    var nextNote: Int64? {
        guard last != noted.event else { return nil }
        return noted.at.adding(clamping: Self.interval)
    }
}
