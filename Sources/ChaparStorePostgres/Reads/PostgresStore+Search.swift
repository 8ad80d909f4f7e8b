internal import Foundation
public import ChaparCore
public import ChaparQueue

/// The search: by the indexes of keys and bad ends, or delivery by delivery, the newest first.
///
/// It reads parts, each by a statement of its own, so that other reads of the connection come between.
extension PostgresStore: SearchStore {
    /// Returns the deliveries of a part of the store that are wanted, the highest numbers first.
    public func search(
        _ look: SearchLook,
        where isWanted: @escaping @Sendable (FoundDelivery) -> Bool
    ) async throws(StoreError) -> SearchPage {
        var search = DeliverySearch(look, isWanted)
        let now = core.now
        while !search.isOver {
            let part = search
            search = try await session(on: core.reader) { (db) throws(PostgresError) in
                var part = part
                try part.readPart(now: now, db)
                return part
            }
        }
        return search.page
    }

    /// Returns the number of the delivery from which on the indexes are complete.
    public func indexedFrom() async throws(StoreError) -> Int64 {
        SearchStart.number(try await loadState(SearchStart.name))
    }

    /// Marks ended deliveries as handled, or no longer, in one transaction.
    public func mark(_ marks: [DeadMark]) async throws(StoreError) {
        let columns: [(String, any KeyPath<DeadMark, Bool?> & Sendable)] = [
            ("acknowledged", \.isAcknowledged), ("resent", \.isResent),
        ]
        try await transaction(on: core.recorder) { (db) throws(PostgresError) in
            for (column, value) in columns {
                // A statement may change a row once only; of several marks of a delivery the last counts.
                var values: [Int64: Bool] = [:]
                for mark in marks { if let value = mark[keyPath: value] { values[mark.delivery] = value } }
                let ids = values.keys.sorted()
                guard let first = ids.first else { continue }
                try db.run(
                    """
                    INSERT INTO chapar.handled (id, acknowledged, resent)
                    SELECT r.id, \(column == "acknowledged" ? "m.value, false" : "false, m.value")
                    FROM unnest($1::bigint[], $2::boolean[]) AS m(id, value)
                    JOIN chapar.results r ON r.id = m.id AND r.id >= $3 AND r.id <= $4 AND r.state IN (4, 5, 7)
                    ON CONFLICT (id) DO UPDATE SET \(column) = excluded.\(column)
                    """,
                    [
                        .integers(ids), .bools(ids.map { values[$0] ?? false }), .integer(first), .integer(ids.last),
                    ]
                )
            }
        }
    }
}

/// The progress of a search.
private struct DeliverySearch: Sendable {
    /// The number of deliveries that one statement reads, and of candidates of an index.
    private static let rowsAtOnce = 2_000
    private static let candidatesAtOnce = 256

    private let look: SearchLook
    private let isWanted: @Sendable (FoundDelivery) -> Bool
    private(set) var page = SearchPage()
    private(set) var isOver = false
    /// The number below which it continues.
    private var before: Int64
    /// The number of deliveries read.
    private var count = 0

    init(_ look: SearchLook, _ isWanted: @escaping @Sendable (FoundDelivery) -> Bool) {
        (self.look, self.isWanted) = (look, isWanted)
        before = look.before
    }

    /// Reads the next part.
    mutating func readPart(now: Int64, _ db: isolated PostgresConnection) throws(PostgresError) {
        guard before > look.from else { return isOver = true }
        switch look.source {
        case .all:
            let limit = min(Self.rowsAtOnce, look.rows - count)
            let part = try Self.deliveries(.span(look.from, before), limit: limit, now: now, db)
            for delivery in part.found where take(delivery) { return }
            if part.isLast { isOver = true } else { before = min(before, part.last) }
        case .keys(let keys):
            let numbers = try db.run(
                """
                SELECT DISTINCT delivery FROM chapar.search_keys
                WHERE hash = ANY ($1) AND delivery >= $2 AND delivery < $3 ORDER BY delivery DESC LIMIT $4
                """,
                [
                    .integers(keys.map(\.hash)), .integer(look.from), .integer(before),
                    .integer(Self.candidatesAtOnce),
                ]
            ).integers()
            if keys.contains(where: \.isOfNotification) {
                try readNotifications(numbers, now: now, db)
            } else {
                try read(numbers, now: now, db)
            }
        case .dead:
            let numbers = try db.run(
                """
                SELECT id FROM chapar.results WHERE state IN (4, 5, 7) AND id >= $1 AND id < $2 ORDER BY id DESC LIMIT $3
                """,
                [.integer(look.from), .integer(before), .integer(Self.candidatesAtOnce)]
            ).integers()
            try read(numbers, now: now, db)
        }
    }

    /// Reads the deliveries that an index has.
    private mutating func read(
        _ numbers: [Int64],
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        guard let last = numbers.last else { return isOver = true }
        let part = try Self.deliveries(.numbers(numbers), limit: numbers.count, now: now, db)
        for delivery in part.found where take(delivery) { return }
        before = min(before, last)
    }

    /// Reads the deliveries of notifications that an index has, those of each in parts, the last first.
    private mutating func readNotifications(
        _ numbers: [Int64],
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) {
        guard !numbers.isEmpty else { return isOver = true }
        for number in numbers {
            let count = try db.run("SELECT count FROM chapar.notifications WHERE id = $1", [.integer(number)])
                .integer(0, 0)
            if let count { before = min(before, number.adding(clamping: count)) }
            while count != nil {
                let part = try Self.deliveries(.span(number, before), limit: Self.rowsAtOnce, now: now, db)
                for delivery in part.found where take(delivery) { return }
                before = min(before, part.last)
                if part.isLast || before <= number { break }
            }
            before = min(before, number)
        }
    }

    /// Takes a delivery; returns whether the search is over.
    private mutating func take(_ delivery: FoundDelivery) -> Bool {
        // It belongs to a notification that was found already.
        guard delivery.delivery.id < before else { return false }
        count += 1
        before = delivery.delivery.id
        if isWanted(delivery) {
            page.found.append(delivery)
            if look.onePerNotification { before = delivery.notification.rawValue }
        }
        guard page.found.count >= look.limit || count >= look.rows else { return false }
        page.next = before > look.from ? before : nil
        isOver = true
        return true
    }

    /// The deliveries that one statement reads.
    private enum Part {
        /// From one number on, below another.
        case span(Int64, Int64)
        case numbers([Int64])
    }

    /// Returns the kept deliveries of a part, the highest number first, with the lowest number that was read, and
    /// whether nothing is left below it.
    private static func deliveries(
        _ part: Part,
        limit: Int,
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> (found: [FoundDelivery], last: Int64, isLast: Bool) {
        var parameters: [PostgresValue]
        var condition = "id >= $1 AND id < $2"
        switch part {
        case .span(let first, let end): parameters = [.integer(first), .integer(end), .integer(limit)]
        case .numbers(let numbers):
            let end = (numbers.max() ?? 0).adding(clamping: 1)
            parameters = [.integer(numbers.min()), .integer(end), .integer(limit), .integers(numbers)]
            condition += " AND id = ANY ($4)"
        }
        let rows = try db.run(
            """
            SELECT d.id, d.notification, d.state, d.attempts, d.due, d.claimed, d.recipient, d.attempt_log, f.backend,
                h.acknowledged, h.resent, d.changed
            FROM (
                (SELECT id, notification, 0::smallint AS state, attempts, due, owner > 0 AS claimed, flow, recipient,
                    attempt_log, NULL::bigint AS changed FROM chapar.waiting WHERE \(condition) ORDER BY id DESC LIMIT $3)
                UNION ALL
                (SELECT id, notification, state, 0, 0, false, flow, recipient, attempt_log, changed FROM chapar.results
                    WHERE \(condition) AND changed >= \(Marks.value(of: .notifications))
                    ORDER BY id DESC LIMIT $3)
            ) AS d JOIN chapar.flows f ON f.number = d.flow
            LEFT JOIN chapar.handled h ON h.id = d.id AND h.id >= $1 AND h.id < $2
            ORDER BY d.id DESC LIMIT $3
            """,
            parameters
        )
        let heads = try heads(Set((0..<rows.count).compactMap { rows.integer($0, 1) }), db)
        var all: [FoundDelivery] = []
        for row in 0..<rows.count {
            guard let id = rows.integer(row, 0), let head = rows.integer(row, 1).flatMap({ heads[$0] }),
                let recipient = Recipient(storedForm: rows.text(row, 6) ?? "")
            else { continue }
            let due = rows.integer(row, 4) ?? 0
            let state =
                rows.bool(row, 5)
                ? DeliveryState.sending
                : DeliveryState(
                    code: rows.integer(row, 2) ?? 0,
                    attempts: rows.integer(row, 3) ?? 0,
                    due: due,
                    now: now
                )
            var found = FoundDelivery(
                StoredDelivery(
                    id: id,
                    recipient: recipient,
                    state: state,
                    backend: rows.text(row, 8) ?? "",
                    dueAt: state.isFinal ? nil : Date(millisecondsSince1970: due),
                    expiresAt: Date(millisecondsSince1970: head.expires),
                    attemptLog: rows.bytes(row, 7) ?? []
                ),
                of: NotificationID(rawValue: head.id),
                record: head.record,
                caller: head.caller,
                collapseID: head.collapseID
            )
            found.delivery.endedAt = rows.integer(row, 11).map { Date(millisecondsSince1970: $0) }
            if state.isDead { (found.isAcknowledged, found.isResent) = (rows.bool(row, 9), rows.bool(row, 10)) }
            all.append(found)
        }
        let last = rows.count > 0 ? rows.integer(rows.count - 1, 0) : nil
        return (all, last ?? .max, rows.count < limit)
    }

    private struct Head {
        var id: Int64
        var record: NotificationRecord
        var caller: String
        var collapseID: String?
        var expires: Int64
    }

    /// Returns the notifications with these numbers; one that cannot be read is left out.
    private static func heads(
        _ numbers: Set<Int64>,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [Int64: Head] {
        guard let first = numbers.min(), let last = numbers.max() else { return [:] }
        let rows = try db.run(
            """
            SELECT id, record, caller, collapse_id, expires FROM chapar.notifications
            WHERE id = ANY ($1) AND id >= $2 AND id <= $3
            """,
            [.integers(numbers.sorted()), .integer(first), .integer(last)]
        )
        var heads: [Int64: Head] = [:]
        for row in 0..<rows.count {
            guard let id = rows.integer(row, 0), let record = NotificationRecord(encoded: rows.bytes(row, 1) ?? [])
            else { continue }
            heads[id] = Head(
                id: id,
                record: record,
                caller: rows.text(row, 2) ?? "",
                collapseID: rows.text(row, 3),
                expires: rows.integer(row, 4) ?? 0
            )
        }
        return heads
    }
}
