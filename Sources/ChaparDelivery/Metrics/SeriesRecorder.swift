internal import Foundation
package import Logging
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// Writes the counts of each minute to the store, for charts that outlive a restart.
///
/// Once a minute it computes the differences of totals that are counted for the metrics, so a delivery costs nothing
/// more. All rows of a minute are written by one call of the store, which shares a commit with other calls where there
/// are any. A minute that could not be written is written with the next one; minutes that a killed process had not
/// written are lost.
package final class SeriesRecorder: Sendable {
    /// The hours for which minutes are kept.
    package static let hoursOfMinutes: Int64 = 48
    /// The days for which hours are kept.
    package static let daysOfHours: Int64 = 90
    /// The most hours that wait for a store that fails.
    private static let mostHours: Int64 = 24
    /// The most commits of one round that fold old rows.
    private static let mostFolds = 20

    private struct Key: Hashable {
        var hour: Int64
        var backend: String
    }

    private struct State {
        /// The number of this run in its rows, of the store, so that no other gateway has it; nil before the first row.
        var run: Int64?
        var minute: Int64
        var totals: [String: SeriesCounts]
        /// The rows of the present hour, and older ones that are not written yet.
        var blocks: [Key: SeriesBlock] = [:]
        var unwritten: Set<Key> = []
        /// The last hour before which rows were folded.
        var foldedBefore: Int64 = .min
    }

    private let store: any NotificationStore
    private let series: any SeriesStore
    private let metrics: GatewayMetrics
    private let time: any TimeSource
    private let logger: Logger
    private let state: Mutex<State>
    private let stopped = Atomic(false)
    private let signal = AsyncSignal()

    /// Makes a recorder, which counts from now on; nil for a store that keeps no counts.
    package init?(store: any NotificationStore, metrics: GatewayMetrics, time: any TimeSource, logger: Logger) {
        guard let series = store.abilities.series else { return nil }
        (self.store, self.series, self.metrics, self.time, self.logger) = (store, series, metrics, time, logger)
        let totals = metrics.seriesTotals()
        state = Mutex(State(minute: Self.minute(time.now), totals: totals))
        metrics.series.begin(totals)
    }

    /// Works until ``stop()``; the last minute, which is not over, is written then.
    package func work() async {
        var isFailing = false  // So that an outage of hours is one line.
        while true {
            let mark = signal.mark
            let isLast = stopped.load(ordering: .acquiring) || Task.isCancelled
            let minute = Self.minute(time.now)
            if isLast || minute != state.withLock({ $0.minute }) {
                do throws(StoreError) {
                    try await close(before: minute, isLast: isLast)
                    isFailing = false
                } catch {
                    if !isFailing, error != .closed {
                        logger.unlessCancelled?.warning(
                            "the counts of a minute were not written, trying again",
                            metadata: ["error": "\(error)"]
                        )
                    }
                    isFailing = true
                }
            }
            if isLast { return }
            // The minute may have ended since it was read: then it is closed now, not with the next one.
            let now = time.now
            guard Self.minute(now) == minute else { continue }
            let past = now.timeIntervalSince1970.truncatingRemainder(dividingBy: 60)
            await signal.wait(after: mark, atMost: .seconds(clamping: max(0.001, min(60, 60 - past))), time)
        }
    }

    /// Lets ``work()`` end.
    package func stop() {
        stopped.store(true, ordering: .releasing)
        signal.signal()
    }

    /// Adds what was counted to the minute that is over, and writes the rows.
    private func close(before minute: Int64, isLast: Bool) async throws(StoreError) {
        let ages = await ages()
        let totals = metrics.seriesTotals()
        let rows = state.withLock { state in
            add(totals, ages, to: &state)
            state.minute = minute
            let run = state.run ?? store.makeID(recipients: 1).rawValue
            state.run = run
            return state.unwritten.compactMap { key in
                state.blocks[key].map { SeriesRow(.minutes, start: key.hour, backend: key.backend, run: run, $0) }
            }
        }
        try await series.saveSeries(rows.sorted { ($0.start, $0.backend) < ($1.start, $1.backend) })
        let hour = minute.floored(by: 60)
        let isNewHour = state.withLock { state in
            for row in rows { state.unwritten.remove(Key(hour: row.start, backend: row.backend)) }
            state.blocks = state.blocks.filter { $0.key.hour >= hour || state.unwritten.contains($0.key) }
            return state.foldedBefore != hour
        }
        metrics.series.store(until: minute, totals)
        guard isNewHour, !isLast else { return }
        try await fold(hour)
        state.withLock { $0.foldedBefore = hour }
    }

    private func add(_ totals: [String: SeriesCounts], _ ages: [String: Int64], to state: inout State) {
        let hour = state.minute.floored(by: 60)
        let slot = Int(clamping: state.minute.subtracting(clamping: hour.multiplied(clamping: 60)))
        for backend in Set(totals.keys).union(ages.keys) {
            var counts = (totals[backend] ?? SeriesCounts()).since(state.totals[backend] ?? SeriesCounts())
            counts.oldest = ages[backend] ?? 0
            // Of a backend without news nothing is kept: the row of the whole gateway says that it ran.
            guard backend == SeriesRow.wholeGateway || counts != SeriesCounts() else { continue }
            let key = Key(hour: hour, backend: backend)
            state.blocks[key, default: SeriesBlock(.minutes)].add(counts, at: slot)
            state.unwritten.insert(key)
        }
        state.totals = totals
        for key in state.unwritten where key.hour < hour.subtracting(clamping: Self.mostHours) {
            state.unwritten.remove(key)
        }
    }

    /// Returns the age in seconds of the delivery that is overdue the longest, for each backend and for the whole
    /// gateway; an empty map while the store fails.
    private func ages() async -> [String: Int64] {
        guard let depths = try? await store.depths() else { return [:] }
        let now = time.steady
        var ages: [String: Int64] = [:]
        for (backend, depth) in depths {
            guard let due = depth.oldestDue, due < now else { continue }
            ages[backend] = Int64(clamping: now.timeIntervalSince(due))
        }
        if let oldest = ages.values.max() { ages[SeriesRow.wholeGateway] = oldest }
        return ages
    }

    /// Turns old minutes into hours, and removes old hours.
    private func fold(_ hour: Int64) async throws(StoreError) {
        let day = hour.floored(by: 24).subtracting(clamping: Self.daysOfHours)
        for _ in 0..<Self.mostFolds {
            let isMore = try await series.foldSeries(
                before: hour.subtracting(clamping: Self.hoursOfMinutes),
                removingBefore: day
            )
            guard isMore else { return }
        }
    }

    /// Returns the minutes from 1970 to a moment.
    private static func minute(_ moment: Date) -> Int64 {
        Int64(clamping: (moment.timeIntervalSince1970 / 60).rounded(.down))
    }
}
