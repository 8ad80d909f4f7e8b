internal import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The numbers of arrivals and expiries of each backend, which charts need beside the metrics, and the last stored
/// minute.
///
/// Callers count groups of reports, and of deliveries whose time to live ended. Both are rare compared with
/// acceptances.
package final class SeriesTotals: Sendable {
    private struct State {
        var arrived: [String: Int64] = [:]
        var expired: [String: Int64] = [:]
        var storedMinutes: Int64?
        /// The totals at the end of what is stored, of which later counts are the difference.
        var storedTotals: [String: SeriesCounts] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    /// The first minute since 1970 that is not stored yet; nil before the first one is.
    package var storedMinutes: Int64? { state.withLock { $0.storedMinutes } }

    /// Notes the totals at the start, from which minutes are counted.
    func begin(_ totals: [String: SeriesCounts]) { state.withLock { $0.storedTotals = totals } }

    /// Notes that every minute before this one is stored, and the totals then.
    func store(until minute: Int64, _ totals: [String: SeriesCounts]) {
        state.withLock { ($0.storedMinutes, $0.storedTotals) = (minute, totals) }
    }

    /// The first minute that is not stored yet, and the totals at its beginning; of one moment.
    fileprivate var stored: (minutes: Int64?, totals: [String: SeriesCounts]) {
        state.withLock { ($0.storedMinutes, $0.storedTotals) }
    }

    /// Counts deliveries whose time to live ended while they waited for a backend.
    func expired(_ count: Int, at backend: String) {
        state.withLock { $0.expired[backend] = ($0.expired[backend] ?? 0).adding(clamping: Int64(clamping: count)) }
    }

    /// Counts the reports of arrivals that a store has recorded.
    package func received(_ receipts: [ReceiptEntry], _ results: [ReceiptResult]) {
        for (receipt, result) in zip(receipts, results) where receipt.state == .delivered {
            guard case .recorded(let delivery) = result else { continue }
            state.withLock { $0.arrived[delivery.backend] = ($0.arrived[delivery.backend] ?? 0).adding(clamping: 1) }
        }
    }

    /// Returns the arrivals and expiries since the start, by backend.
    func counts() -> (arrived: [String: Int64], expired: [String: Int64]) {
        state.withLock { ($0.arrived, $0.expired) }
    }
}

extension GatewayMetrics {
    /// Returns the totals since the start, of the whole gateway and of each backend, from the metrics.
    ///
    /// A backend's refusals are those that are followed by no other attempt and no other backend. They are compared for
    /// each reason, since a skipped backend counts a change of backends without an attempt.
    func seriesTotals() -> [String: SeriesCounts] {
        struct Reason: Hashable { let backend: String, text: String }
        var totals: [String: SeriesCounts] = [:]
        var (refused, unknown, followed): ([Reason: Int64], [Reason: Int64], [Reason: Int64]) = ([:], [:], [:])
        for (labels, count) in registry.counts(of: .deliveries) where labels.count == 5 {
            let reason = Reason(backend: labels[0], text: labels[4])
            switch labels[3] {
            case "accepted": totals[labels[0], default: SeriesCounts()].handedOver.add(count)
            case "unknown": unknown[reason, default: 0].add(count)
            default: refused[reason, default: 0].add(count)
            }
        }
        for (labels, count) in registry.counts(of: .retries) where labels.count == 2 {
            totals[labels[0], default: SeriesCounts()].retried.add(count)
            followed[Reason(backend: labels[0], text: labels[1]), default: 0].add(count)
        }
        for (labels, count) in registry.counts(of: .fallbacks) where labels.count == 3 {
            followed[Reason(backend: labels[0], text: labels[2]), default: 0].add(count)
        }
        for (reason, count) in unknown {
            let own = min(count, followed[reason] ?? 0)
            followed[reason] = (followed[reason] ?? 0).subtracting(clamping: own)
            totals[reason.backend, default: SeriesCounts()].unknown.add(count.subtracting(clamping: own))
        }
        for (reason, count) in refused {
            let left = max(0, count.subtracting(clamping: followed[reason] ?? 0))
            totals[reason.backend, default: SeriesCounts()].failed.add(left)
        }
        let (arrived, expired) = series.counts()
        for (backend, count) in expired { totals[backend, default: SeriesCounts()].expired.add(count) }
        for (backend, count) in arrived where !backend.isEmpty {
            totals[backend, default: SeriesCounts()].arrived.add(count)
        }
        totals[SeriesRow.wholeGateway] = wholeTotals(arrived, retried: totals.values.map(\.retried))
        return totals
    }

    /// Returns the counts since the last stored minute, of the whole gateway and of each backend, and the minute with
    /// which they begin; nil before the first minute is stored.
    package func unstoredSeries() -> (from: Int64?, counts: [String: SeriesCounts]) {
        let stored = series.stored
        let counts = seriesTotals().map { name, totals in
            (name, totals.since(stored.totals[name] ?? SeriesCounts()))
        }
        return (stored.minutes, Dictionary(uniqueKeysWithValues: counts))
    }

    private func wholeTotals(_ arrived: [String: Int64], retried: [Int64]) -> SeriesCounts {
        let (accepted, ended) = ledger.totals
        func count(_ states: DeliveryState...) -> Int64 {
            states.reduce(into: 0) { $0.add(Int64(clamping: ended[$1] ?? 0)) }
        }
        var whole = SeriesCounts()
        whole.accepted = Int64(clamping: accepted)
        whole.handedOver = count(.acceptedByPlatform, .delivered, .opened)
        whole.arrived = arrived.values.reduce(into: 0) { $0.add($1) }
        (whole.failed, whole.expired, whole.unknown) = (count(.failed), count(.expired), count(.unknown))
        whole.retried = retried.reduce(into: 0) { $0.add($1) }
        return whole
    }
}

extension Int64 {
    /// Adds a number; at the end of the range it stays there.
    fileprivate mutating func add(_ number: Int64) { self = adding(clamping: number) }
}
