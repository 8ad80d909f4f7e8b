internal import Foundation
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `GET /v1/series`: counts over an hour, a day or a week, which every gateway on the store keeps.
///
/// Reads the store. A caller that is limited to apps or backends gets the sums of its backends.
package struct SeriesAPI: Sendable {
    let state: GatewayState
    private let metrics: GatewayMetrics

    /// Creates the endpoint; `metrics` has what is not stored yet.
    package init(state: GatewayState, metrics: GatewayMetrics) { (self.state, self.metrics) = (state, metrics) }

    /// Answers with the counts.
    package func show(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["range", "backend"])
        let name = scope.parameter("range") ?? SeriesRange.hour.rawValue
        guard let range = SeriesRange(rawValue: name) else {
            let all = SeriesRange.allCases.map(\.rawValue).joined(separator: ", ")
            throw .badParameter("range", "must be one of \(all).")
        }
        let backends = try backends(scope)
        guard let store = state.store.abilities.series else {
            throw .notFound("The store of this gateway keeps no counts over time.")
        }
        let now = Int64(clamping: (state.time.now.timeIntervalSince1970 / 60).rounded(.down))
        let unstored = metrics.unstoredSeries()
        // The minute that has just ended is written a moment later.
        let until = min(now, max(unstored.from ?? now, now.subtracting(clamping: 2)))
        var answer = SeriesAnswer(range, until: until, backends: backends)
        for (name, counts) in unstored.counts
        where backends?.contains(name) ?? (name == SeriesRow.wholeGateway) {
            answer.running += counts
        }
        do throws(StoreError) {
            for row in try await store.series(answer.look) { answer.add(row) }
        } catch {
            throw Problem(error)
        }
        return Response.json(capacity: 4096) { answer.write(to: &$0) }
    }

    /// Returns the backends whose counts are added up; nil for the whole gateway.
    private func backends(_ scope: RequestScope) throws(Problem) -> Set<String>? {
        let all = scope.gateway.backends.map(\.name)
        guard let name = scope.parameter("backend") else { return scope.caller.view == nil ? nil : Set(all) }
        guard all.contains(name) else { throw .notFound("There is no backend \(name.prefix(64)).") }
        return [name]
    }
}

/// A span of time that counts are asked for, with the length of its steps.
package enum SeriesRange: String, Sendable, CaseIterable {
    case hour = "1h"
    case day = "24h"
    case week = "7d"

    /// The number of steps.
    var steps: Int {
        switch self {
        case .hour: 60
        case .day: 288
        case .week: 168
        }
    }

    /// The length of a step, in minutes.
    var minutes: Int64 {
        switch self {
        case .hour: 1
        case .day: 5
        case .week: 60
        }
    }
}

/// The counts of a range, made of rows of the store.
struct SeriesAnswer {
    private let range: SeriesRange
    /// The first minute since 1970 of the first step.
    let from: Int64
    /// The first minute since 1970 that is not counted.
    let until: Int64
    private let backends: Set<String>?
    /// The counts after ``until``.
    var running = SeriesCounts()
    private var steps: [SeriesCounts]
    /// For each minute from ``from`` on whether a gateway counted.
    private var counted: [Bool]

    /// Makes an answer without counts, for the steps that end with the one of the last minute before `until`.
    init(_ range: SeriesRange, until: Int64, backends: Set<String>?) {
        (self.range, self.until, self.backends) = (range, until, backends)
        let end = (until.subtracting(clamping: 1)).floored(by: range.minutes).adding(clamping: 1)
            .multiplied(clamping: range.minutes)
        from = end.subtracting(clamping: Int64(range.steps).multiplied(clamping: range.minutes))
        steps = Array(repeating: SeriesCounts(), count: range.steps)
        counted = Array(repeating: false, count: Int(clamping: max(0, until.subtracting(clamping: from))))
    }

    /// The rows of the store that it needs.
    var look: SeriesLook {
        // The rows of the whole gateway say when one ran.
        let names = (backends ?? []).union([SeriesRow.wholeGateway])
        let hours = from.floored(by: 60)..<until.floored(by: 60).adding(clamping: 1)
        let isOld = range == .week
        let days = from.floored(by: 1_440)..<until.floored(by: 1_440).adding(clamping: 1)
        return SeriesLook(of: names, hours: hours, days: isOld ? days : 0..<0)
    }

    /// Adds a row.
    mutating func add(_ row: SeriesRow) {
        let slots = Int64(row.scale.slots)
        for (slot, counts) in row.block.slots.enumerated() {
            guard let counts else { continue }
            let begin = row.start.multiplied(clamping: slots).adding(clamping: Int64(slot))
                .multiplied(clamping: row.scale.minutes)
            let place = begin.subtracting(clamping: from)
            guard begin >= from, place < Int64(counted.count) else { continue }
            if row.backend == SeriesRow.wholeGateway {
                for minute in place..<min(place.adding(clamping: row.scale.minutes), Int64(counted.count)) {
                    counted[Int(clamping: minute)] = true
                }
            }
            guard backends?.contains(row.backend) ?? (row.backend == SeriesRow.wholeGateway) else { continue }
            steps[Int(clamping: place.floored(by: range.minutes))] += counts
        }
    }

    /// Whether a gateway counted in a step.
    private func isCounted(_ step: Int) -> Bool {
        let length = Int(clamping: range.minutes)
        return counted.dropFirst(step * length).prefix(length).contains(true)
    }

    /// The spans of minutes in which no gateway counted.
    private var gaps: [Range<Int64>] {
        var gaps: [Range<Int64>] = []
        for (place, isCounted) in counted.enumerated() where !isCounted {
            let minute = from.adding(clamping: Int64(place))
            if let last = gaps.last, last.upperBound == minute {
                gaps[gaps.count - 1] = last.lowerBound..<minute.adding(clamping: 1)
            } else {
                gaps.append(minute..<minute.adding(clamping: 1))
            }
        }
        return gaps
    }

    /// Writes the members into an object that the caller has begun.
    func write(to writer: inout JSONWriter) {
        func time(_ name: StaticString, _ minute: Int64, _ writer: inout JSONWriter) {
            writer.name(name)
            RFC3339.write(Date(timeIntervalSince1970: Double(minute) * 60), to: &writer)
        }
        time("from", from, &writer)
        time("until", until, &writer)
        writer.field("step", Int(clamping: range.minutes) * 60)
        writer.name("series")
        writer.beginObject()
        let shown = steps.indices.map(isCounted)
        for (name, value) in Self.values {
            writer.name(name)
            writer.beginArray()
            for (step, isShown) in zip(steps, shown) {
                // A delivery is accepted for a plan, not for a backend.
                if !isShown || name == "accepted" && backends != nil {
                    writer.null()
                } else {
                    writer.integer(Int(clamping: step[keyPath: value]))
                }
            }
            writer.endArray()
        }
        writer.endObject()
        writer.name("running")
        writer.beginObject()
        // An age is that of a moment, and no sum.
        for (name, value) in Self.values where name != "oldest" && (name != "accepted" || backends == nil) {
            writer.name(name)
            writer.integer(Int(clamping: running[keyPath: value]))
        }
        writer.endObject()
        writer.name("gaps")
        writer.beginArray()
        for gap in gaps {
            writer.beginObject()
            time("from", gap.lowerBound, &writer)
            time("until", gap.upperBound, &writer)
            writer.endObject()
        }
        writer.endArray()
    }

    private static let values: [(String, any KeyPath<SeriesCounts, Int64> & Sendable)] = [
        ("accepted", \.accepted), ("handed_over", \.handedOver), ("arrived", \.arrived), ("failed", \.failed),
        ("expired", \.expired), ("unknown", \.unknown), ("retried", \.retried), ("oldest", \.oldest),
    ]
}
