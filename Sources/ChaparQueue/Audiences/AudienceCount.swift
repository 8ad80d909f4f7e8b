internal import Foundation
package import ChaparCore

/// The number of devices of an audience.
package struct AudienceCount: Sendable, Hashable {
    /// How the number was found.
    package enum Kind: Sendable, Hashable {
        /// Every device was evaluated.
        case exact
        /// Samples were scaled; in 95 of 100 cases the true number is within this distance.
        case estimate(margin: Int64)
        /// The deadline came first; there may be more.
        case atLeast
    }

    /// How it was found.
    package var kind: Kind
    /// The number of devices that get a message.
    package var reached: Int64 = 0
    /// The number of matched devices that get none, by cause.
    package var skipped: [AudienceSkip: Int64] = [:]
    /// The number of candidates that were read.
    package var rowsRead: Int64 = 0
    /// The number of devices of the app among them, which alone its callers may know.
    package var evaluated: Int64 = 0

    /// Makes an empty count.
    package init(_ kind: Kind) { self.kind = kind }

    /// The number of matched devices.
    package var matched: Int64 { skipped.values.reduce(reached) { $0.adding(clamping: $1) } }
}

/// Counts an audience by the windows of a store.
package struct AudienceCounter: Sendable {
    /// The most windows of an estimate.
    package static let mostSamples = 100
    /// The device numbers of one sample.
    ///
    /// A hundred samples of this size estimate a rule that matches 1 % of the devices with a standard error of 3 %.
    package static let sampleSpan: Int64 = 1_000
    /// The device numbers of all samples of an estimate.
    private static let sampledSpan = sampleSpan.multiplied(clamping: Int64(mostSamples))
    /// The device numbers of the first window of an exact count, and its most candidates.
    private static let (firstSpan, candidates): (Int64, Int) = (5_000, 2_000)
    private static let largestSpan: Int64 = 1 << 24
    /// The candidates of the first window of a count with a limit: it may end there, and each costs a look-up.
    private static let firstCandidates: Int64 = 16

    private let store: any AudienceStore

    /// Makes a counter.
    package init(_ store: any AudienceStore) { self.store = store }

    /// Evaluates every device with a number up to the highest one now.
    ///
    /// - Parameters:
    ///   - audience: The audience.
    ///   - deadline: The longest time of the count. After it, or when the task is cancelled, the result is
    ///     ``AudienceCount/Kind/atLeast``.
    ///   - limit: The number of matched devices above which the count stops as well.
    ///   - each: Called with each window.
    /// - Returns: The count.
    /// - Throws: The store's failure.
    package func exact(
        _ audience: Audience,
        within deadline: Duration,
        upTo limit: Int64 = .max,
        each: (AudienceWindow) -> Void = { _ in }
    ) async throws(StoreError) -> AudienceCount {
        let start = ContinuousClock.now
        let plan = try await store.plan(audience)
        let end = try await store.lastDeviceNumber()
        var count = AudienceCount(.exact)
        var cursor: Int64 = 0
        var span = Self.firstSpan
        var most = Int(clamping: min(Int64(Self.candidates), max(Self.firstCandidates, limit)))
        while cursor < end {
            if Task.isCancelled || start.duration(to: .now) >= deadline || count.matched > limit {
                count.kind = .atLeast
                return count
            }
            let bound = min(end, cursor.adding(clamping: span))
            let window = try await store.window(plan, after: cursor, through: bound, limit: most)
            count.add(window)
            each(window)
            cursor = window.cursor
            // Few candidates cost a call each; a window of a union is sorted as a whole, so it must stay small.
            if window.rowsRead < most / 10 { span = min(Self.largestSpan, span.multiplied(clamping: 2)) }
            if window.rowsRead == most { span = max(Self.sampleSpan, span / 2) }
            most = min(Self.candidates, most.multiplied(clamping: 2))
        }
        return count
    }

    /// Evaluates one sample of each of a hundred equal parts of the device numbers, at a random place in the part.
    ///
    /// A registry that is not larger than the samples is counted exactly.
    ///
    /// - Parameters:
    ///   - audience: The audience.
    ///   - deadline: The longest time of an exact count.
    ///   - each: Called with each window.
    /// - Returns: The count.
    /// - Throws: The store's failure.
    package func estimate(
        _ audience: Audience,
        within deadline: Duration,
        each: (AudienceWindow) -> Void = { _ in }
    ) async throws(StoreError) -> AudienceCount {
        let end = try await store.lastDeviceNumber()
        let samples = Int64(Self.mostSamples)
        guard end > Self.sampledSpan else {
            return try await exact(audience, within: deadline, each: each)
        }
        let plan = try await store.plan(audience)
        var sum = AudienceCount(.exact)
        var reached: [Double] = []
        for part in 0..<samples {
            try StoreError.checkCancellation()
            let share = end / samples
            let first = share.multiplied(clamping: part)
            let last = part == samples.subtracting(clamping: 1) ? end : first.adding(clamping: share)
            let start = Int64.random(in: first...max(first, last.subtracting(clamping: Self.sampleSpan)))
            let window = try await store.window(
                plan,
                after: start,
                through: start.adding(clamping: Self.sampleSpan),
                limit: Int(Self.sampleSpan)
            )
            sum.add(window)
            each(window)
            reached.append(Double(window.devices.count))
        }
        let scale = Double(end) / Double(Self.sampledSpan)
        let mean = reached.reduce(0, +) / Double(samples)
        let variance = reached.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / (Double(samples) - 1)
        // The part of the numbers that was looked at has no error.
        let left = 1 - 1 / scale
        let error = (variance * Double(samples) * left).squareRoot() * scale
        // Without a match the true number may still be 3 in that many (the rule of three).
        let margin = mean > 0 ? 1.96 * error : 3 * scale
        var count = AudienceCount(.estimate(margin: Int64(clamping: margin.rounded(.up))))
        count.reached = Int64(clamping: (Double(sum.reached) * scale).rounded())
        count.skipped = sum.skipped.mapValues { Int64(clamping: (Double($0) * scale).rounded()) }
        count.rowsRead = sum.rowsRead
        count.evaluated = sum.evaluated
        return count
    }
}

extension AudienceCount {
    fileprivate mutating func add(_ window: AudienceWindow) {
        reached = reached.adding(clamping: Int64(window.devices.count))
        for (cause, number) in window.skipped {
            skipped[cause] = (skipped[cause] ?? 0).adding(clamping: Int64(number))
        }
        rowsRead = rowsRead.adding(clamping: Int64(window.rowsRead))
        evaluated = evaluated.adding(clamping: Int64(window.evaluated))
    }
}
