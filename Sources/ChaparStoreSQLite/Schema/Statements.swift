import ChaparCore

/// The statements that the commit loop runs for single rows, prepared once; bound values stay bound.
///
/// Tables that are used less often prepare their own: ``DeviceTables``, ``OutboxEntryTable``, ``OutboxChangeTable``,
/// ``ReceiptTables``, ``Archive``.
struct Statements {
    let insertHead: SQLStatement
    let insertChild: SQLStatement
    let end: SQLStatement
    let endAtOnce: SQLStatement
    let retry: SQLStatement
    let release: SQLStatement
    let markCancelled: SQLStatement
    let markOf: SQLStatement
    let makeDue: SQLStatement
    let insertEvents: SQLStatement
    let insertStagedRows: SQLStatement
    let deleteStagedRows: SQLStatement
    let insertLease: SQLStatement
    let deleteLease: SQLStatement
    let insertFlow: SQLStatement
    let moveFlows: SQLStatement
    let redirectMoves: SQLStatement
    let insertMove: SQLStatement
    let deleteMove: SQLStatement
    let findKey: SQLStatement
    let insertKey: SQLStatement
    let saveState: SQLStatement
    let deleteState: SQLStatement
    let page: SQLStatement
    let expiring: SQLStatement
    let row: SQLStatement
    let head: SQLStatement
    let collapsing: SQLStatement
    let waitingOf: SQLStatement
    let waitingOfFlow: SQLStatement
    let countOf: SQLStatement
    let collapseID: SQLStatement
    let shiftScheduled: SQLStatement
    let ended: SQLStatement
    let lastChange: SQLStatement
    let deleteRange: SQLStatement
    let oldEvents: SQLStatement
    let oldBlocks: SQLStatement
    let deleteBlocks: SQLStatement
    let deleteEvents: SQLStatement
    let deleteKeys: SQLStatement
    let pageCount: SQLStatement
    let freePages: SQLStatement
    let vacuum: SQLStatement
    let saveMark: SQLStatement
    let begin: SQLStatement
    let commit: SQLStatement
    let rollback: SQLStatement

    /// The assignments that append an attempt to the row itself, so that nothing has to be read first.
    private static let attemptLog = """
        attempts = attempts + ?4, replay = replay | ?5, changed = ?3,
        attempt_log = CASE WHEN ?6 IS NULL THEN attempt_log WHEN attempt_log IS NULL THEN ?6 ELSE attempt_log || ',' || ?6 END
        """

    init(_ connection: OpaquePointer) throws(StoreError) {
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        insertHead = try statement(
            """
            INSERT INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, collapse,
            recipient, count, accepted, scheduled, plan, caller, collapse_id, content, padding)
            VALUES (?1, 0, ?2, ?3, ?4, 0, 0, 0, ?5, ?9, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
            """
        )
        insertChild = try statement(
            """
            INSERT INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, collapse,
            recipient, head, padding, plan) VALUES (?1, 0, ?2, ?3, ?4, 0, 0, 0, ?5, ?9, ?6, ?7, ?8, ?10, ?11)
            """
        )
        end = try statement("UPDATE deliveries SET state = ?2, \(Self.attemptLog) WHERE id = ?1 AND state = 0")
        endAtOnce = try statement(
            "UPDATE deliveries SET state = ?2, attempts = 1, changed = ?3, attempt_log = ?4, padding = ?5 WHERE id = ?1 AND state = 0"
        )
        retry = try statement(
            "UPDATE deliveries SET flow = ?2, \(Self.attemptLog), due = ?7, step = ?8, mark = ?9 WHERE id = ?1 AND state = 0"
        )
        release = try statement(
            "UPDATE deliveries SET mark = ?2, replay = replay | ?3 WHERE id = ?1 AND state = 0"
        )
        markCancelled = try statement(
            "UPDATE deliveries SET replay = replay | \(Schema.cancelled) WHERE id = ?1 AND state = 0"
        )
        markOf = try statement("SELECT mark FROM deliveries WHERE id = ?1 AND state = 0")
        makeDue = try statement("UPDATE deliveries SET due = ?2 WHERE id = ?1 AND state = 0")
        insertEvents = try statement("INSERT INTO events (first, count, at, packed) VALUES (?1, ?2, ?3, ?4)")
        insertStagedRows = try statement("INSERT INTO arrivals (number, packed) VALUES (?1, ?2)")
        deleteStagedRows = try statement("DELETE FROM arrivals WHERE number = ?1")
        insertLease = try statement("INSERT INTO leases (number, deliveries) VALUES (?1, ?2)")
        deleteLease = try statement("DELETE FROM leases WHERE number = ?1")
        insertFlow = try statement(
            "INSERT OR IGNORE INTO flows (number, backend, urgent, caller) VALUES (?1, ?2, ?3, ?4)"
        )
        moveFlows = try statement("UPDATE flows SET backend = ?2 WHERE backend = ?1")
        redirectMoves = try statement("UPDATE moves SET target = ?2 WHERE target = ?1")
        insertMove = try statement("INSERT OR REPLACE INTO moves (backend, target) VALUES (?1, ?2)")
        deleteMove = try statement("DELETE FROM moves WHERE backend = ?1")
        findKey = try statement("SELECT fingerprint, answer, keep FROM idempotency WHERE caller = ?1 AND key = ?2")
        insertKey = try statement(
            "INSERT OR REPLACE INTO idempotency (caller, key, fingerprint, answer, keep) VALUES (?1, ?2, ?3, ?4, ?5)"
        )
        saveState = try statement("INSERT OR REPLACE INTO state (name, value) VALUES (?1, ?2)")
        deleteState = try statement("DELETE FROM state WHERE name = ?1")
        page = try statement(
            """
            SELECT due, id FROM deliveries INDEXED BY waiting
            WHERE state = 0 AND mark <> 2 AND flow = ?1 AND (due, id) >= (?2, ?3) ORDER BY due, id
            """
        )
        expiring = try statement(
            """
            SELECT flow, due, id, expires FROM deliveries INDEXED BY waiting
            WHERE state = 0 AND mark <> 2 AND (flow, due, id) > (?1, ?2, ?3)
            AND typeof(flow) = 'integer' AND typeof(due) = 'integer' ORDER BY flow, due, id LIMIT ?4
            """
        )
        row = try statement(
            """
            SELECT flow, due, expires, step, attempts, replay, mark, head, collapse, recipient, attempt_log, accepted, plan,
            content FROM deliveries WHERE id = ?1 AND state = 0
            """
        )
        head = try statement("SELECT accepted, expires, plan, content FROM deliveries WHERE id = ?1")
        collapsing = try statement(
            """
            SELECT id, flow FROM deliveries
            WHERE state = 0 AND collapse IS NOT NULL AND collapse = ?1 AND recipient = ?2 AND id <> ?3
            AND EXISTS (
                SELECT 1 FROM deliveries h WHERE h.id = coalesce(deliveries.head, deliveries.id)
                AND h.collapse_id = ?4 AND coalesce(h.caller, '') = ?5
            )
            """
        )
        waitingOf = try statement("SELECT id FROM deliveries WHERE id > ?1 AND id < ?2 AND state = 0 LIMIT ?3")
        waitingOfFlow = try statement(
            "SELECT id FROM deliveries INDEXED BY waiting WHERE state = 0 AND mark <> 2 AND flow = ?1 AND id <= ?2"
        )
        countOf = try statement("SELECT count FROM deliveries WHERE id = ?1 AND head IS NULL")
        collapseID = try statement("SELECT collapse_id, coalesce(caller, '') FROM deliveries WHERE id = ?1")
        shiftScheduled = try statement(
            """
            UPDATE deliveries SET due = due - ?1, expires = expires - ?1, scheduled = scheduled - ?1 WHERE id IN (
            SELECT w.id FROM deliveries w INDEXED BY waiting
            WHERE w.state = 0 AND w.mark <> 2 AND w.due > ?2 AND w.attempts = 0 AND w.due =
            (SELECT h.scheduled FROM deliveries h WHERE h.id = coalesce(w.head, w.id)))
            """
        )
        ended = try statement(
            """
            SELECT changed, id, coalesce(head, id) FROM deliveries INDEXED BY ended
            WHERE state > 0 AND (changed, id) > (?1, ?2) AND changed < ?3 AND typeof(changed) = 'integer'
            ORDER BY changed, id LIMIT ?4
            """
        )
        lastChange = try statement("SELECT min(state), max(changed) FROM deliveries WHERE id >= ?1 AND id < ?2")
        deleteRange = try statement("DELETE FROM deliveries WHERE id >= ?1 AND id < ?2")
        oldEvents = try statement(
            """
            SELECT first, at FROM events WHERE first < (SELECT max(first) FROM events) AND typeof(at) = 'integer'
            ORDER BY first LIMIT ?1
            """
        )
        oldBlocks = try statement(
            """
            SELECT number, at, first, last FROM archive
            WHERE typeof(at) = 'integer' AND typeof(first) = 'integer' AND typeof(last) = 'integer' ORDER BY number LIMIT ?1
            """
        )
        deleteBlocks = try statement("DELETE FROM archive WHERE number <= ?1")
        deleteEvents = try statement("DELETE FROM events WHERE first <= ?1")
        deleteKeys = try statement(
            """
            DELETE FROM idempotency WHERE (caller, key) IN (
            SELECT caller, key FROM idempotency INDEXED BY forgetting WHERE keep < ?1 LIMIT ?2)
            """
        )
        pageCount = try statement("PRAGMA page_count")
        freePages = try statement("PRAGMA freelist_count")
        vacuum = try statement("PRAGMA incremental_vacuum(256)")
        saveMark = try statement("INSERT OR REPLACE INTO marks (name, value) VALUES (?1, ?2)")
        insertHead.bind(15, emptyBytes: RowPadding.initial)
        insertChild.bind(10, emptyBytes: RowPadding.initial)
        begin = try statement("BEGIN IMMEDIATE")
        commit = try statement("COMMIT")
        rollback = try statement("ROLLBACK")
    }
}
