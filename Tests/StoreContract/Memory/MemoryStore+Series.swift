package import ChaparCore
package import ChaparQueue

/// Counts over time, in the simplest form that keeps their promises.
extension MemoryStore: SeriesStore {
    package func saveSeries(_ rows: [SeriesRow]) async throws(StoreError) {
        try await call { tables in
            for row in rows { tables.series[SeriesKey(row)] = row.block }
            return .success(())
        }
    }

    package func series(_ look: SeriesLook) async throws(StoreError) -> [SeriesRow] {
        try await read { tables in
            tables.series.map { $0.row($1) }.filter { row in
                look.backends.contains(row.backend)
                    && (row.scale == .minutes ? look.hours : look.days).contains(row.start)
            }
        }
    }

    package func foldSeries(before hour: Int64, removingBefore day: Int64) async throws(StoreError) -> Bool {
        try await call { tables in
            let old = tables.series.keys.filter { $0.scale == .minutes && $0.start < hour }
                .sorted { ($0.start, $0.backend, $0.run) < ($1.start, $1.backend, $1.run) }
                .prefix(SeriesFolding.mostRows)
            let rows = old.compactMap { key in tables.series.removeValue(forKey: key).map(key.row) }
            for sum in SeriesRow.folded(rows) {
                tables.series[SeriesKey(sum), default: SeriesBlock(.hours)].add(sum.block)
            }
            tables.series = tables.series.filter { $0.key.scale == .minutes || $0.key.start >= day }
            return .success(old.count == SeriesFolding.mostRows)
        }
    }
}

/// The key of a row of counts.
struct SeriesKey: Hashable, Sendable {
    let scale: SeriesScale
    let start: Int64
    let backend: String
    let run: Int64

    init(_ row: SeriesRow) { (scale, start, backend, run) = (row.scale, row.start, row.backend, row.run) }

    /// Returns the row with a block.
    func row(_ block: SeriesBlock) -> SeriesRow { SeriesRow(scale, start: start, backend: backend, run: run, block) }
}
