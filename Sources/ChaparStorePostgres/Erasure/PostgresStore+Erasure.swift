internal import Foundation
public import ChaparCore
public import ChaparQueue

/// Erasure of one user: everything is searched in short reads, and changed in short transactions.
extension PostgresStore: TraceStore {
    /// The most rows that one statement reads.
    private static let rowsPerSearch: Int64 = 20_000
    /// The most deliveries that one transaction changes.
    private static let changesAtOnce = 500
    /// The most blocks of events, and of bytes as they are stored, that are read at a time.
    ///
    /// A block may hold one event or hundreds: with a low limit of blocks, small ones would take tens of thousands of
    /// reads.
    private static let (blocksPerRead, bytesPerRead): (Int64, Int64) = (4_096, 1 << 19)

    /// The tables without partitions whose rows hold data of users; `state` has the record of each erasure.
    private static let tablesOfUsers = [
        "waiting", "devices", "device_tokens", "device_tags", "outbox_changes", "outbox_entries", "state",
        "user_labels", "device_labels",
    ]

    /// The longest time that the vacuum of one table may take.
    private static let longestCleaning = Duration.seconds(3_600)

    /// Returns the numbers of the newest delivery and the newest event.
    public func tracesEnd() async throws(StoreError) -> UserTraces.End {
        UserTraces.End(delivery: try await newestDelivery(), event: try await lastEvent())
    }

    func newestDelivery() async throws(StoreError) -> Int64 {
        // Clocks of nodes differ, and numbers that one gave out before the clock was set back may be far ahead.
        let stored = try await session(on: core.reader) { (db) throws(PostgresError) in try NodeNumbers.highest(db) }
        return core.newestDelivery(stored: stored)
    }

    /// Cancels, removes and anonymises the deliveries of a user.
    public func eraseDeliveries(
        of traces: UserTraces,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8],
        state: @escaping @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8]),
        progress: (ErasedDeliveries) async throws(StoreError) -> Void
    ) async throws(StoreError) {
        let end: Int64
        if let known = traces.end?.delivery { end = known } else { end = try await newestDelivery() }
        let recipients = traces.recipients.sorted()
        try await prepareDay(core.now)
        var removed: Set<Int64> = []
        // Waiting deliveries first: one that ends meanwhile is found among the results.
        for table in ["waiting", "results"] {
            var position = Int64.min
            while true {
                try StoreError.checkCancellation()
                let step = try await search(table, after: position, upTo: end, recipients)
                for start in stride(from: 0, to: step.found.count, by: Self.changesAtOnce) {
                    let ids = Array(step.found[start..<min(start + Self.changesAtOnce, step.found.count)])
                    let erasing = ErasureStep(core, ids: ids, recipients: recipients, removed: removed, event, state)
                    let (part, withdrawal) = try await transaction(on: core.recorder) { (db) throws(PostgresError) in
                        try erasing.run(db)
                    }
                    removed.formUnion(part.notifications)
                    withdrawal.tell(core)
                    try await progress(part)
                }
                guard let last = step.last else { break }
                position = last
            }
        }
        // The keys last: an erasure that is interrupted finds the deliveries by their recipients.
        let keys = traces.searchKeys.map(\.hash)
        try await transaction(on: core.recorder) { (db) throws(PostgresError) in
            try db.run(
                "DELETE FROM chapar.search_keys WHERE hash = ANY ($1) AND delivery <= $2",
                [.integers(keys), .integer(end)]
            )
        }
        core.heads.removeAll()
    }

    private func search(
        _ table: String,
        after start: Int64,
        upTo end: Int64,
        _ recipients: [String]
    ) async throws(StoreError) -> (found: [Int64], last: Int64?) {
        try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                WITH looked AS MATERIALIZED (
                    SELECT id, recipient FROM chapar.\(table) WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3
                )
                SELECT max(id), NULL::bigint FROM looked
                UNION ALL SELECT NULL, id FROM looked WHERE recipient = ANY ($4)
                """,
                [.integer(start), .integer(end), .integer(Self.rowsPerSearch), .texts(recipients)]
            )
            var last: Int64?
            var found: [Int64] = []
            for row in 0..<rows.count {
                if let id = rows.integer(row, 1) { found.append(id) } else { last = rows.integer(row, 0) }
            }
            return (found.sorted(), last)
        }
    }

    /// Redacts the stored events, block by block.
    ///
    /// They are searched outside of transactions, and not on the connection that records outcomes: only changed rows
    /// are locked.
    public func redactEvents(
        _ redact: @escaping @Sendable (Int64, [UInt8]) -> [UInt8]?
    ) async throws(StoreError) -> Int {
        let end = try await lastEvent()
        var count = 0
        var position = Int64.min
        while true {
            try StoreError.checkCancellation()
            let blocks = try await eventBlocks(after: position, upTo: end)
            let concerned = blocks.filter { $0.redacted(redact).changed > 0 }.map(\.first)
            for start in stride(from: 0, to: concerned.count, by: Self.changesAtOnce) {
                let part = Array(concerned[start..<min(start + Self.changesAtOnce, concerned.count)])
                count += try await self.redact(eventBlocks: part, redact)
            }
            guard let last = blocks.last?.first else { return count }
            position = last
        }
    }

    /// A row of the events, with those from number `first` on.
    struct EventBlock: Sendable {
        var first: Int64
        var at: Int64?
        var texts: [[UInt8]]

        init(_ rows: borrowing PostgresRows, _ row: Int) {
            (first, at, texts) = (rows.integer(row, 0) ?? 0, rows.integer(row, 1), rows.byteArrays(row, 2))
        }

        /// Returns the events with some of them replaced, and how many those are.
        func redacted(_ redact: (Int64, [UInt8]) -> [UInt8]?) -> (texts: [[UInt8]], changed: Int) {
            var (texts, changed) = (texts, 0)
            for index in texts.indices {
                guard let other = redact(first.adding(clamping: Int64(index)), texts[index]) else { continue }
                texts[index] = other
                changed += 1
            }
            return (texts, changed)
        }
    }

    /// Returns the next blocks, at least one, of about ``bytesPerRead`` bytes as they are stored.
    func eventBlocks(after start: Int64, upTo end: Int64) async throws(StoreError) -> [EventBlock] {
        try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT first, at, texts FROM (
                    SELECT first, at, texts, pg_column_size(texts) AS bytes,
                        sum(pg_column_size(texts)) OVER (ORDER BY first ROWS UNBOUNDED PRECEDING) AS upto
                    FROM (
                        SELECT first, at, texts FROM chapar.events WHERE first > $1 AND first <= $2 ORDER BY first LIMIT $3
                    ) next
                ) sized WHERE upto - bytes < $4 ORDER BY first
                """,
                [.integer(start), .integer(end), .integer(Self.blocksPerRead), .integer(Self.bytesPerRead)]
            )
            return (0..<rows.count).map { EventBlock(rows, $0) }
        }
    }

    /// Redacts events in blocks, in one transaction; returns how many.
    private func redact(
        eventBlocks: [Int64],
        _ redact: @escaping @Sendable (Int64, [UInt8]) -> [UInt8]?
    ) async throws(StoreError) -> Int {
        try await transaction(on: core.recorder) { (db) throws(PostgresError) in
            let rows = try db.run(
                "SELECT first, at, texts FROM chapar.events WHERE first = ANY ($1) ORDER BY first FOR UPDATE",
                [.integers(eventBlocks)]
            )
            var count = 0
            for row in 0..<rows.count {
                let block = EventBlock(rows, row)
                let (texts, changed) = block.redacted(redact)
                guard changed > 0 else { continue }
                try db.run(
                    "UPDATE chapar.events SET texts = $3 WHERE first = $1 AND at = $2",
                    [.integer(block.first), .integer(block.at), .byteArrays(texts)]
                )
                count += changed
            }
            return count
        }
    }

    /// Returns the names of state that begin with a prefix.
    public func stateNames(beginningWith prefix: String) async throws(StoreError) -> [String] {
        try await session(on: core.reader) { (db) throws(PostgresError) in
            let rows = try db.run(
                "SELECT name FROM chapar.state WHERE starts_with(name, $1) ORDER BY name",
                [.text(prefix)]
            )
            return (0..<rows.count).compactMap { rows.text($0, 0) }
        }
    }

    /// Makes the server overwrite what removed rows held, table by table.
    ///
    /// Copies in its write-ahead log and in backups remain until those are removed.
    public func clearRemoved() async throws(StoreError) {
        let tables = try await session(on: core.reader) { (db) throws(PostgresError) in
            var tables = Self.tablesOfUsers
            for table in Partitions.Table.allCases {
                tables += try Partitions.days(of: table, db).map { table.name(of: $0) }
            }
            return tables
        }
        // Uses a connection of its own, since a table may take long: everything else goes on meanwhile.
        let cleaner = PostgresConnection(core.options, name: "cleaner")
        do throws(StoreError) {
            // Opened before the first table is cleaned: a connection that is not open yet cannot be interrupted.
            try await session(on: cleaner) { (_) throws(PostgresError) in }
            for table in tables {
                try StoreError.checkCancellation()
                try await clean(table, on: cleaner)
            }
        } catch {
            await cleaner.close()
            throw error
        }
        await cleaner.close()
    }

    /// Vacuums a table; cancelling the task breaks the connection, since a large table takes long.
    private func clean(_ table: String, on cleaner: PostgresConnection) async throws(StoreError) {
        let result = await withTaskCancellationHandler { () async -> Result<Void, StoreError> in
            do throws(StoreError) {
                try await session(on: cleaner) { (db) throws(PostgresError) in
                    do throws(PostgresError) {
                        try db.perform("VACUUM (TRUNCATE false) chapar.\(table)", within: Self.longestCleaning)
                    } catch {
                        // A partition may have been dropped meanwhile.
                        guard case .refused(code: "42P01", _) = error else { throw error }
                    }
                }
                return .success(())
            } catch {
                return .failure(error)
            }
        } onCancel: {
            cleaner.interrupt()
        }
        try result.get()
    }
}

/// A part of an erasure: one transaction for some of the deliveries that were found.
struct ErasureStep: Sendable {
    private let core: StoreCore
    /// The deliveries in order: the first and the last limit statements to the partitions of their days.
    private let ids: [Int64]
    private let recipients: [String]
    private let removed: Set<Int64>
    private let event: @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    private let state: @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8])

    init(
        _ core: StoreCore,
        ids: [Int64],
        recipients: [String],
        removed: Set<Int64>,
        _ event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8],
        _ state: @escaping @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8])
    ) {
        (self.core, self.ids, self.recipients, self.removed) = (core, ids, recipients, removed)
        (self.event, self.state) = (event, state)
    }

    func run(_ db: isolated PostgresConnection) throws(PostgresError) -> (ErasedDeliveries, Withdrawal) {
        var result = ErasedDeliveries()
        let withdrawal = try withdraw(db)
        (result.cancelled, result.inFlight) = (withdrawal.cancelled, withdrawal.inFlight)
        try removeOwn(&result, db)
        try anonymise(&result, db)
        if !result.notifications.isEmpty {
            let (name, value) = state(removed.union(result.notifications))
            try db.saveState(name, value)
        }
        return (result, withdrawal)
    }

    /// Ends waiting deliveries; claimed ones end with their attempt.
    private func withdraw(_ db: isolated PostgresConnection) throws(PostgresError) -> Withdrawal {
        let rows = try db.run(
            """
            SELECT \(DeliveryRow.columns) FROM chapar.waiting w WHERE w.id = ANY ($1) AND w.recipient = ANY ($2)
            ORDER BY w.id FOR UPDATE
            """,
            [.integers(ids), .texts(recipients)]
        )
        return try Withdrawal(of: DeliveryRow.all(rows), event: event, core, db)
    }

    /// Removes notifications that had no other recipients and are over.
    private func removeOwn(_ result: inout ErasedDeliveries, _ db: isolated PostgresConnection) throws(PostgresError) {
        let heads = try db.run(
            """
            SELECT n.id, n.count, n.record FROM chapar.notifications n
            WHERE n.id IN (
                SELECT notification FROM chapar.results WHERE id = ANY ($1) AND id >= $4 AND id <= $5 AND recipient = ANY ($2)
            )
            AND NOT EXISTS (SELECT FROM chapar.waiting w WHERE w.id >= n.id AND w.id < n.id + n.count)
            AND NOT EXISTS (
                SELECT FROM chapar.results r WHERE r.id >= n.id AND r.id < n.id + n.count
                AND r.recipient <> ALL ($2) AND r.recipient <> $3
            )
            """,
            [
                .integers(ids), .texts(recipients), .text(Recipient.erasedForm), .integer(ids.first),
                .integer(ids.last),
            ]
        )
        for row in 0..<heads.count {
            guard let id = heads.integer(row, 0), let count = heads.integer(row, 1) else { continue }
            let span: [PostgresValue] = [.integer(id), .integer(id.adding(clamping: count))]
            result.removed += try db.run("DELETE FROM chapar.results WHERE id >= $1 AND id < $2", span).changed
            try db.run("DELETE FROM chapar.awaited WHERE delivery >= $1 AND delivery < $2", span)
            try db.run("DELETE FROM chapar.handled WHERE id >= $1 AND id < $2", span)
            if let reference = heads.bytes(row, 2).flatMap({ NotificationRecord(encoded: $0) })?.reference {
                try db.run(
                    "DELETE FROM chapar.search_keys WHERE hash = $1 AND delivery = $2",
                    [.integer(SearchKey.reference(reference).hash), .integer(id)]
                )
            }
            try db.run("DELETE FROM chapar.notifications WHERE id = $1", [.integer(id)])
            result.notifications.insert(id)
        }
    }

    /// Removes the recipient and the attempts from deliveries of notifications with other recipients.
    private func anonymise(_ result: inout ErasedDeliveries, _ db: isolated PostgresConnection) throws(PostgresError) {
        result.anonymised += try db.run(
            """
            UPDATE chapar.results SET recipient = $3, attempt_log = NULL
            WHERE id = ANY ($1) AND id >= $4 AND id <= $5 AND recipient = ANY ($2)
            """,
            [
                .integers(ids), .texts(recipients), .text(Recipient.erasedForm), .integer(ids.first),
                .integer(ids.last),
            ]
        ).changed
        try db.run(
            "DELETE FROM chapar.awaited WHERE delivery = ANY ($1) AND delivery >= $2 AND delivery <= $3",
            [.integers(ids), .integer(ids.first), .integer(ids.last)]
        )
    }
}
