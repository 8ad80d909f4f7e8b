import ChaparCore
import ChaparQueue
import ChaparTesting

extension StoreConformance {
    /// Checks of a store that keeps counts over time; another one passes them.
    static let series: [StoreConformanceCase] = [
        StoreConformanceCase("Counts are there after a restart, and a row that is written again is replaced") {
            fixture in
            var store = try await fixture.open()
            guard store.abilities.series != nil else { return await store.close() }
            try await store.counted.saveSeries([
                .sample(480_000, "", run: 1, [0: 5]), .sample(480_000, "apns", run: 1, [0: 3]),
            ])
            try await store.counted.saveSeries([.sample(480_000, "", run: 1, [0: 5, 1: 7])])
            try await store.counted.saveSeries([])
            store = try await fixture.reopen(store)
            let found = try await store.counted.series(SeriesLook(of: [""], hours: 480_000..<480_001))
            try expect(found, is: [.sample(480_000, "", run: 1, [0: 5, 1: 7])], "the rows of the whole gateway")
            let both = try await store.counted.series(SeriesLook(of: ["", "apns"], hours: 479_999..<480_001))
            try expect(both.count, is: 2, "the rows of both")
            let other = try await store.counted.series(SeriesLook(of: [""], hours: 480_001..<480_009))
            try expect(other, is: [], "rows of later hours")
            await store.close()
        },
        StoreConformanceCase("Runs write rows of their own, and old minutes of all runs become hours once") {
            fixture in
            let store = try await fixture.open()
            guard store.abilities.series != nil else { return await store.close() }
            try await store.counted.saveSeries([
                .sample(480_000, "", run: 1, [0: 5, 59: 1]), .sample(480_000, "", run: 2, [0: 2]),
                .sample(480_001, "", run: 2, [3: 8]), .sample(480_023, "", run: 1, [3: 9]),
                .sample(480_024, "", run: 1, [3: 4]), .sample(480_030, "", run: 1, [3: 6]),
                .sample(480_000, "apns", run: 1, [0: 3]),
            ])
            for hour in [480_002, 480_025, 480_025] as [Int64] {
                try expect(
                    try await store.counted.foldSeries(before: hour, removingBefore: 0),
                    is: false,
                    "more to fold"
                )
            }
            let look = SeriesLook(of: ["", "apns"], hours: 0..<500_000, days: 0..<30_000)
            let found = try await store.counted.series(look).sorted { $0.order < $1.order }
            try expect(
                found,
                is: [
                    .sample(480_030, "", run: 1, [3: 6]),
                    .hours(20_000, "", run: 0, [0: 8, 1: 8, 23: 9]),
                    .hours(20_000, "apns", run: 0, [0: 3]),
                    .hours(20_001, "", run: 0, [0: 4]),
                ],
                "minutes and hours"
            )
            _ = try await store.counted.foldSeries(before: 0, removingBefore: 20_001)
            try expect(try await store.counted.series(look).count, is: 2, "rows after old hours were removed")
            await store.close()
        },
        StoreConformanceCase("One call folds a bounded number of rows, and says that there are more") { fixture in
            let store = try await fixture.open()
            guard store.abilities.series != nil else { return await store.close() }
            let count = SeriesFolding.mostRows + 30
            let rows = (0..<count).map { SeriesRow.sample(480_000, "", run: Int64($0) + 1, [7: 1]) }
            try await store.counted.saveSeries(rows)
            var calls = 1
            while try await store.counted.foldSeries(before: 480_001, removingBefore: 0) { calls += 1 }
            try expect(calls, is: 2, "calls")
            let look = SeriesLook(of: [""], hours: 0..<500_000, days: 0..<30_000)
            let found = try await store.counted.series(look)
            try expect(found, is: [.hours(20_000, "", run: 0, [0: Int64(count)])], "the hour")
            await store.close()
        },
    ]
}

extension NotificationStore {
    /// The counts of a store that has them.
    fileprivate var counted: any SeriesStore {
        get throws {
            guard let series = abilities.series else {
                throw StoreError.failed("a store that said it keeps counts has none")
            }
            return series
        }
    }
}

extension SeriesRow {
    /// Makes a row with accepted deliveries in some minutes of an hour.
    fileprivate static func sample(_ hour: Int64, _ backend: String, run: Int64, _ accepted: [Int: Int64]) -> Self {
        made(.minutes, hour, backend, run: run, accepted)
    }

    /// Makes a row with accepted deliveries in some hours of a day.
    fileprivate static func hours(_ day: Int64, _ backend: String, run: Int64, _ accepted: [Int: Int64]) -> Self {
        made(.hours, day, backend, run: run, accepted)
    }

    private static func made(
        _ scale: SeriesScale,
        _ start: Int64,
        _ backend: String,
        run: Int64,
        _ accepted: [Int: Int64]
    ) -> SeriesRow {
        var block = SeriesBlock(scale)
        for (slot, count) in accepted {
            var counts = SeriesCounts()
            (counts.accepted, counts.oldest) = (count, 1)
            block.add(counts, at: slot)
        }
        return SeriesRow(scale, start: start, backend: backend, run: run, block)
    }

    fileprivate var order: String { "\(scale.rawValue) \(start) \(backend)" }
}
