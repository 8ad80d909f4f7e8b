package import ChaparCore
package import ChaparQueue

/// Counts over time, of all gateways that share the database.
extension PostgresStore: SeriesStore {
    /// Adds or replaces rows.
    package func saveSeries(_ rows: [SeriesRow]) async throws(StoreError) {
        guard !rows.isEmpty else { return }
        try await session(on: registry) { (db) throws(PostgresError) in try Self.save(rows, db) }
    }

    /// Returns rows.
    package func series(_ look: SeriesLook) async throws(StoreError) -> [SeriesRow] {
        try await session(on: registryReader) { (db) throws(PostgresError) in
            let rows = try db.run(
                """
                SELECT scale, start, backend, run, counts FROM chapar.series
                WHERE scale = 0 AND start >= $1 AND start < $2 AND backend = ANY ($5)
                UNION ALL
                SELECT scale, start, backend, run, counts FROM chapar.series
                WHERE scale = 1 AND start >= $3 AND start < $4 AND backend = ANY ($5)
                """,
                [
                    .integer(look.hours.lowerBound), .integer(look.hours.upperBound), .integer(look.days.lowerBound),
                    .integer(look.days.upperBound), .texts(look.backends.sorted()),
                ]
            )
            return Self.found(rows).compactMap { $0 }
        }
    }

    /// Adds old minute rows to hour rows, which other gateways may do at the same time.
    package func foldSeries(before hour: Int64, removingBefore day: Int64) async throws(StoreError) -> Bool {
        try await transaction(on: registry) { (db) throws(PostgresError) in
            let old = try db.run(
                """
                WITH old AS (
                    SELECT start, backend, run FROM chapar.series WHERE scale = 0 AND start < $1
                    ORDER BY start, backend, run LIMIT \(SeriesFolding.mostRows) FOR UPDATE
                )
                DELETE FROM chapar.series s USING old o
                WHERE s.scale = 0 AND s.start = o.start AND s.backend = o.backend AND s.run = o.run
                RETURNING s.scale, s.start, s.backend, s.run, s.counts
                """,
                [.integer(hour)]
            )
            let count = old.count
            var sums = SeriesRow.folded(Self.found(old).compactMap { $0 })
            if !sums.isEmpty {
                let empty = sums.map {
                    SeriesRow(.hours, start: $0.start, backend: $0.backend, run: $0.run, SeriesBlock(.hours))
                }
                try Self.save(empty, db, keepsKnown: true)
                let known = try db.run(
                    """
                    SELECT s.scale, s.start, s.backend, s.run, s.counts FROM chapar.series s
                    JOIN unnest($1::bigint[], $2::text[]) AS n(start, backend)
                    ON s.start = n.start AND s.backend = n.backend
                    WHERE s.scale = 1 AND s.run = \(SeriesRow.allRuns) ORDER BY s.start, s.backend FOR UPDATE OF s
                    """,
                    [.integers(sums.map(\.start)), .texts(sums.map(\.backend))]
                )
                for case let row? in Self.found(known) {
                    guard let index = sums.firstIndex(where: { $0.start == row.start && $0.backend == row.backend })
                    else { continue }
                    sums[index].block.add(row.block)
                }
                try Self.save(sums, db)
            }
            try db.run("DELETE FROM chapar.series WHERE scale = 1 AND start < $1", [.integer(day)])
            return count == SeriesFolding.mostRows
        }
    }

    private static func save(
        _ rows: [SeriesRow],
        _ db: isolated PostgresConnection,
        keepsKnown: Bool = false
    ) throws(PostgresError) {
        try db.run(
            """
            INSERT INTO chapar.series (scale, start, backend, run, counts)
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[])
            ON CONFLICT (scale, start, backend, run) DO \(keepsKnown ? "NOTHING" : "UPDATE SET counts = excluded.counts")
            """,
            [
                .integers(rows.map(\.scale.rawValue)), .integers(rows.map(\.start)), .texts(rows.map(\.backend)),
                .integers(rows.map(\.run)), .byteArrays(rows.map(\.block.stored)),
            ]
        )
    }

    /// Returns the rows of a table with scale, start, backend, run and counts; nil for those that cannot be read.
    private static func found(_ rows: borrowing PostgresRows) -> [SeriesRow?] {
        (0..<rows.count).map { place in
            guard let scale = rows.integer(place, 0).flatMap(SeriesScale.init), let start = rows.integer(place, 1),
                let backend = rows.text(place, 2), let run = rows.integer(place, 3),
                let block = SeriesBlock(scale, stored: rows.bytes(place, 4) ?? [])
            else { return nil }
            return SeriesRow(scale, start: start, backend: backend, run: run, block)
        }
    }
}
