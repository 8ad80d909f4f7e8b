package import ChaparCore
package import ChaparQueue

/// Counts over time.
extension SQLiteStore: SeriesStore {
    /// Adds or replaces rows.
    package func saveSeries(_ rows: [SeriesRow]) async throws(StoreError) {
        guard !rows.isEmpty else { return }
        // Not as new work, which waits or is refused under load: the rows are few and small, one an hour each.
        try await work(rows: rows.count, isNew: false) { (writer) throws(StoreError) in
            try writer.series().save(rows)
        }
    }

    /// Returns rows.
    package func series(_ look: SeriesLook) async throws(StoreError) -> [SeriesRow] {
        try await readConnection { (connection) throws(StoreError) in
            let rows = try SQLStatement(
                connection,
                """
                SELECT \(SeriesRows.columns) FROM series WHERE scale = 0 AND start >= ?1 AND start < ?2
                UNION ALL
                SELECT \(SeriesRows.columns) FROM series WHERE scale = 1 AND start >= ?3 AND start < ?4
                """
            )
            rows.bind(1, look.hours.lowerBound)
            rows.bind(2, look.hours.upperBound)
            rows.bind(3, look.days.lowerBound)
            rows.bind(4, look.days.upperBound)
            var found: [SeriesRow] = []
            while try rows.next() {
                guard look.backends.contains(try rows.text(2)) else { continue }
                var row = try SeriesRows.key(rows)
                guard let block = try SeriesRows.block(rows, row.scale) else { continue }
                row.block = block
                found.append(row)
            }
            return found
        }
    }

    /// Adds old minute rows to hour rows.
    package func foldSeries(before hour: Int64, removingBefore day: Int64) async throws(StoreError) -> Bool {
        try await work(rows: SeriesFolding.mostRows, isNew: false) { (writer) throws(StoreError) in
            try writer.series().fold(before: hour, removingBefore: day)
        }
    }
}
