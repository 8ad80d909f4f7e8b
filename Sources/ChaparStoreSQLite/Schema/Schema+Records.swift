import Foundation
import GRDB
import ChaparComposition
import ChaparCore
import ChaparQueue

extension Schema {
    /// The step that gives notifications a record, and makes the tables strict.
    static let recordsStep = "14 records"
}

/// Rewrites the deliveries: the content, the plans and the time of acceptance become a ``NotificationRecord``.
///
/// It runs in the transaction of its step, so a process that is killed leaves the file as it was. Like every released
/// step it never changes: it has its own code for the bytes of staged and archived deliveries, as they were at its
/// release.
struct RecordsStep {
    /// The deliveries: one row for each recipient, except the newest (``StagedRows``) and plain ones that ended
    /// (``Archive``).
    ///
    /// The row with the notification's own number also has what all of them share.
    ///
    /// * `state`: 0 while it waits or is claimed, else the final state (``DeliveryState/code``).
    /// * `replay`: bits, ``Schema/replay`` and ``Schema/cancelled``.
    /// * `mark`: 0 while it has not come back from a claim, 1 when its last owner died without recording a result,
    ///   ``Schema/handedOut`` when it was claimed as it was inserted, else the number of the lease under which it came
    ///   back.
    /// * `head`: the notification's number, null in the row of that number.
    /// * `plan`: the index of its plan in the record.
    /// * `collapse`: a hash of recipient and collapse id; the row of the notification has the id itself in
    ///   `collapse_id`.
    /// * `record`: in the row of the notification, its ``NotificationRecord``.
    /// * `padding`: see ``RowPadding``.
    ///
    /// Times are milliseconds since 1970.
    static let deliveries = """
        CREATE TABLE new_deliveries (
            id INTEGER PRIMARY KEY,
            state INTEGER NOT NULL, flow INTEGER NOT NULL, due INTEGER NOT NULL, expires INTEGER NOT NULL,
            step INTEGER NOT NULL, attempts INTEGER NOT NULL, replay INTEGER NOT NULL, mark INTEGER NOT NULL,
            changed INTEGER NOT NULL, head INTEGER, collapse INTEGER, recipient TEXT NOT NULL, attempt_log TEXT,
            count INTEGER, plan INTEGER NOT NULL, scheduled INTEGER, caller TEXT, collapse_id TEXT, record BLOB,
            padding BLOB
        ) STRICT
        """

    private static let indexes = """
        DROP TABLE deliveries;
        ALTER TABLE new_deliveries RENAME TO deliveries;
        CREATE INDEX waiting ON deliveries (flow, due, id, expires) WHERE state = 0 AND mark <> 2;
        CREATE INDEX collapsing ON deliveries (collapse) WHERE state = 0 AND collapse IS NOT NULL;
        CREATE INDEX ended ON deliveries (changed) WHERE state > 0;
        """

    /// Declares all tables of the store strict, which changes none of their bytes.
    private static let strictness = """
        PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = sql || iif(sql LIKE '%WITHOUT ROWID', ', STRICT', ' STRICT')
        WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'grdb_%' AND sql NOT LIKE '%STRICT';
        PRAGMA writable_schema = RESET;
        """

    static func run(_ db: Database) throws {
        try db.execute(sql: deliveries)
        var step = try RecordsStep(db)
        try step.rewriteDeliveries()
        try db.execute(sql: indexes)
        try rewriteStagedRows(db)
        try rewriteArchive(db)
        try db.execute(sql: strictness)
        // A value of another type cannot be written again. It is found here, so that the file is left as it was.
        let values = try db.statement("PRAGMA quick_check(1)")
        guard try values.next() else { return }
        let finding = try values.text(0)
        values.reset()
        guard finding == "ok" else { throw StoreError.damaged(finding) }
    }

    private let rows: SQLStatement
    private let plansOfChildren: SQLStatement
    private let insert: SQLStatement
    /// The notification whose deliveries are rewritten, with the places of its plans.
    private var notification: (head: Int64, plans: [String: Int]) = (-1, [:])

    private init(_ db: Database) throws {
        rows = try db.statement("SELECT id, head, plan, accepted, content, count FROM deliveries ORDER BY id")
        plansOfChildren = try db.statement(
            "SELECT DISTINCT plan FROM deliveries WHERE id > ?1 AND id < ?2 AND head = ?1 AND plan IS NOT NULL"
        )
        insert = try db.statement(
            """
            INSERT INTO new_deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, head, collapse,
            recipient, attempt_log, count, plan, scheduled, caller, collapse_id, record, padding)
            SELECT id, state, flow, due, expires, step, attempts, replay, mark, changed, head, collapse, recipient,
            attempt_log, count, ?2, scheduled, caller, collapse_id, ?3, padding FROM deliveries WHERE id = ?1
            """
        )
    }

    private mutating func rewriteDeliveries() throws(StoreError) {
        while try rows.next() {
            let id = try rows.integer(0)
            insert.bind(1, id)
            if let head = try rows.optional(1) {
                let plan = rows.isNull(2) || head != notification.head ? nil : notification.plans[try rows.text(2)]
                insert.bind(2, plan ?? 0)
                insert.bindNull(3)
            } else {
                insert.bind(2, 0)
                insert.bind(3, blob: try record(of: id).encoded)
            }
            try insert.run()
        }
    }

    /// Returns the record of the notification in the current row.
    private mutating func record(of id: Int64) throws(StoreError) -> NotificationRecord {
        var plans = [try rows.text(2)]
        let count = rows.isNull(5) ? 1 : try rows.count(5)
        if count > 1 {
            plansOfChildren.bind(1, id)
            plansOfChildren.bind(2, id.adding(clamping: Int64(count)))
            while try plansOfChildren.next() {
                let plan = try plansOfChildren.text(0)
                if !plans.contains(plan) { plans.append(plan) }
            }
            notification = (id, Dictionary(uniqueKeysWithValues: plans.enumerated().map { ($1, $0) }))
        }
        return NotificationRecord(
            content: try rows.bytes(4),
            plans: plans.map { DeliveryPlan(storedForm: $0) },
            acceptedAt: try rows.date(3)
        )
    }

    private static func rewriteStagedRows(_ db: Database) throws(StoreError) {
        let arrivals = try db.statement("SELECT number, packed FROM arrivals ORDER BY number")
        let update = try db.statement("UPDATE arrivals SET packed = ?2 WHERE number = ?1")
        while try arrivals.next() {
            guard let deliveries = FormerStagedRows.unpack(try arrivals.bytes(1)) else {
                throw .damaged("arrivals.packed holds bytes that are no deliveries")
            }
            var bytes: [UInt8] = []
            for delivery in deliveries { bytes += delivery.packedAnew }
            update.bind(1, try arrivals.integer(0))
            update.bind(2, blob: bytes)
            try update.run()
        }
    }

    private static func rewriteArchive(_ db: Database) throws(StoreError) {
        let blocks = try db.statement("SELECT number, packed FROM archive ORDER BY number")
        let update = try db.statement("UPDATE archive SET packed = ?2 WHERE number = ?1")
        while try blocks.next() {
            var records: [[UInt8]] = []
            let (former, isWhole) = EventPacking.unpackAll(try blocks.bytes(1))
            for packed in former {
                guard let delivery = FormerArchivedDelivery(packed) else { break }
                records.append(delivery.packedAnew)
            }
            guard isWhole, records.count == former.count else {
                throw .damaged("archive.packed holds bytes that are no ended deliveries")
            }
            update.bind(1, try blocks.integer(0))
            update.bind(2, blob: EventPacking.pack(records))
            try update.run()
        }
    }
}

/// The bytes of staged deliveries as the programs before ``Schema/recordsStep`` wrote them.
///
/// They are read by that step, and to verify backups from before it.
enum FormerStagedRows {
    struct Delivery {
        var id: Int64
        var flow: Int64
        var due: Int64
        var expires: Int64
        var scheduled: Int64?
        var recipient: [UInt8]
        var caller: [UInt8]
        var record: NotificationRecord

        /// The delivery in the form of the step.
        fileprivate var packedAnew: [UInt8] {
            var bytes: [UInt8] = []
            for number in [id, flow, due, expires, scheduled ?? FormerStagedRows.none] { bytes.pack(number) }
            for text in [recipient, caller, record.encoded] {
                bytes.pack(Int64(text.count))
                bytes += text
            }
            return bytes
        }
    }

    /// The value for no time.
    fileprivate static let none = Int64.min

    /// Returns the deliveries of a row; nil when it is damaged.
    static func unpack(_ bytes: [UInt8]) -> [Delivery]? {
        var deliveries: [Delivery] = []
        var input = bytes[...]
        while !input.isEmpty {
            guard let id = input.unpackNumber(), let flow = input.unpackNumber(), let due = input.unpackNumber(),
                let expires = input.unpackNumber(), let accepted = input.unpackNumber(),
                let scheduled = input.unpackNumber(),
                let recipient = text(&input), let plan = text(&input), let caller = text(&input),
                let content = text(&input), StoredRange.ids.contains(id), StoredRange.moments.contains(due),
                StoredRange.moments.contains(expires), StoredRange.moments.contains(accepted),
                scheduled == none || StoredRange.moments.contains(scheduled)
            else { return nil }
            deliveries.append(
                Delivery(
                    id: id,
                    flow: flow,
                    due: due,
                    expires: expires,
                    scheduled: scheduled == none ? nil : scheduled,
                    recipient: recipient,
                    caller: caller,
                    record: NotificationRecord(content: content, plan: plan, accepted: accepted)
                )
            )
        }
        return deliveries
    }

    private static func text(_ input: inout ArraySlice<UInt8>) -> [UInt8]? {
        input.unpackNumber().flatMap { input.unpackText($0) }
    }
}

/// An archived delivery as the programs before ``Schema/recordsStep`` wrote it.
///
/// It is read by that step, and to verify backups from before it.
struct FormerArchivedDelivery {
    private let id: Int64
    private let flow: Int64
    private let state: DeliveryState
    private let expires: Int64
    private let scheduled: Int64?
    private let recipient: [UInt8]
    private let caller: [UInt8]
    private let record: NotificationRecord
    private let attemptLog: [UInt8]?

    /// The value for no time, and for no text.
    private static let none = Int64.min

    /// Reads a delivery; nil when it is damaged.
    init?(_ packed: [UInt8]) {
        var input = packed[...]
        var numbers: [Int64] = []
        for _ in 0..<12 {
            guard let number = input.unpackNumber() else { return nil }
            numbers.append(number)
        }
        guard let state = DeliveryState(code: numbers[2]), StoredRange.ids.contains(numbers[0]),
            StoredRange.moments.contains(numbers[3]), StoredRange.moments.contains(numbers[4]),
            numbers[5] == Self.none || StoredRange.moments.contains(numbers[5])
        else { return nil }
        let (digits, whole) = (numbers[6], numbers[7])
        guard digits >= 0, digits <= whole, let head = input.unpackText(digits),
            let tail = input.unpackText(whole.subtracting(clamping: digits) / 2),
            let plan = input.unpackText(numbers[8]), let caller = input.unpackText(numbers[9]),
            let content = input.unpackText(numbers[10])
        else { return nil }
        if numbers[11] == Self.none {
            attemptLog = nil
        } else {
            guard let text = input.unpackText(numbers[11]) else { return nil }
            attemptLog = text
        }
        (id, flow, self.state, self.caller) = (numbers[0], numbers[1], state, caller)
        (expires, scheduled) = (numbers[3], numbers[5] == Self.none ? nil : numbers[5])
        recipient = head + HexDigits.unpack(tail)
        record = NotificationRecord(content: content, plan: plan, accepted: numbers[4])
    }

    /// The delivery in the form of the step.
    fileprivate var packedAnew: [UInt8] {
        let stored = record.encoded
        let digits = HexDigits.start(in: recipient)
        var bytes: [UInt8] = []
        for number in [id, flow, state.code, expires, scheduled ?? Self.none] { bytes.pack(number) }
        for count in [digits, recipient.count, caller.count, stored.count] { bytes.pack(Int64(count)) }
        bytes.pack(attemptLog.map { Int64($0.count) } ?? Self.none)
        bytes += recipient[..<digits]
        HexDigits.pack(recipient[digits...], to: &bytes)
        bytes += caller
        bytes += stored
        bytes += attemptLog ?? []
        return bytes
    }
}

extension NotificationRecord {
    /// Makes the record of a delivery that was the only one of its notification.
    fileprivate init(content: [UInt8], plan: [UInt8], accepted: Int64) {
        self.init(
            content: content,
            plans: [DeliveryPlan(storedForm: String(decoding: plan, as: UTF8.self))],
            acceptedAt: Date(millisecondsSince1970: accepted)
        )
    }
}
