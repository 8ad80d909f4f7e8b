import ChaparCore
import ChaparQueue

/// The counts over time, as rows of `series`.
///
/// Used by the writer's thread only, within its transaction; reads of other threads use ``SeriesRows``.
final class SeriesTable {
    private let save: SQLStatement
    private let find: SQLStatement
    private let old: SQLStatement
    private let remove: SQLStatement
    private let purge: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        func statement(_ sql: String) throws(StoreError) -> SQLStatement { try SQLStatement(connection, sql) }
        save = try statement(
            "INSERT OR REPLACE INTO series (scale, start, backend, run, counts) VALUES (?1, ?2, ?3, ?4, ?5)"
        )
        find = try statement(
            "SELECT counts FROM series WHERE scale = ?1 AND start = ?2 AND backend = ?3 AND run = ?4"
        )
        old = try statement(
            """
            SELECT \(SeriesRows.columns) FROM series WHERE scale = 0 AND start < ?1
            ORDER BY start, backend, run LIMIT \(SeriesFolding.mostRows)
            """
        )
        remove = try statement("DELETE FROM series WHERE scale = 0 AND start = ?1 AND backend = ?2 AND run = ?3")
        purge = try statement("DELETE FROM series WHERE scale = 1 AND start < ?1")
    }

    /// Adds or replaces rows.
    func save(_ rows: [SeriesRow]) throws(StoreError) {
        for row in rows {
            save.bind(1, row.scale.rawValue)
            save.bind(2, row.start)
            save.bind(3, row.backend)
            save.bind(4, row.run)
            save.bind(5, blob: row.block.stored)
            try save.run()
        }
    }

    /// Adds old minute rows to hour rows; returns whether there may be more.
    func fold(before hour: Int64, removingBefore day: Int64) throws(StoreError) -> Bool {
        old.bind(1, hour)
        var rows: [SeriesRow] = []
        var count = 0
        while try old.next() {
            count += 1
            rows.append(try SeriesRows.key(old))
            if let block = try SeriesRows.block(old, .minutes) { rows[rows.count - 1].block = block }
        }
        for row in rows {
            remove.bind(1, row.start)
            remove.bind(2, row.backend)
            remove.bind(3, row.run)
            try remove.run()
        }
        var sums = SeriesRow.folded(rows)
        for index in sums.indices {
            find.bind(1, sums[index].scale.rawValue)
            find.bind(2, sums[index].start)
            find.bind(3, sums[index].backend)
            find.bind(4, sums[index].run)
            guard try find.next() else { continue }
            let known = SeriesBlock(.hours, stored: try find.bytes(0))
            find.reset()
            if let known { sums[index].block.add(known) }
        }
        try save(sums)
        purge.bind(1, day)
        try purge.run()
        return count == SeriesFolding.mostRows
    }
}

/// Reads of the table of counts.
enum SeriesRows {
    static let columns = "scale, start, backend, run, counts"

    /// Returns the row of a statement with ``columns``, without its counts.
    static func key(_ row: SQLStatement) throws(StoreError) -> SeriesRow {
        guard let scale = SeriesScale(rawValue: try row.integer(0)) else { throw row.damage(0, "the scale of counts") }
        return SeriesRow(
            scale,
            start: try row.integer(1),
            backend: try row.text(2),
            run: try row.integer(3),
            SeriesBlock(scale)
        )
    }

    /// Returns the counts of a statement with ``columns``; nil when they cannot be read.
    static func block(_ row: SQLStatement, _ scale: SeriesScale) throws(StoreError) -> SeriesBlock? {
        SeriesBlock(scale, stored: try row.bytes(4))
    }
}
