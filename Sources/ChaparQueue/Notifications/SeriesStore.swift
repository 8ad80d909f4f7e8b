package import ChaparCore

/// The counts of a minute or an hour, of a backend or of the whole gateway.
package struct SeriesCounts: Sendable, Hashable {
    /// Deliveries that were accepted; 0 for a backend.
    package var accepted: Int64 = 0
    /// Deliveries that a platform took.
    package var handedOver: Int64 = 0
    /// Deliveries that were reported as delivered.
    package var arrived: Int64 = 0
    /// Deliveries that ended as failed.
    package var failed: Int64 = 0
    /// Deliveries that ended as expired.
    package var expired: Int64 = 0
    /// Deliveries that ended as unknown.
    package var unknown: Int64 = 0
    /// Attempts that another one at the same backend follows.
    package var retried: Int64 = 0
    /// The highest age of the delivery that is overdue the longest, in seconds.
    package var oldest: Int64 = 0

    package init() {}

    /// The counts that are sums, in the order of the stored form.
    package static let sums: [any WritableKeyPath<SeriesCounts, Int64> & Sendable] = [
        \.accepted, \.handedOver, \.arrived, \.failed, \.expired, \.unknown, \.retried,
    ]

    /// The number of values in the stored form.
    fileprivate static let valueCount = 8

    /// All values, in the order of the stored form.
    fileprivate var values: [Int64] {
        [accepted, handedOver, arrived, failed, expired, unknown, retried, oldest]
    }

    /// Makes counts of all values, in the order of the stored form.
    fileprivate init(_ values: [Int64]) {
        (accepted, handedOver, arrived, failed) = (values[0], values[1], values[2], values[3])
        (expired, unknown, retried, oldest) = (values[4], values[5], values[6], values[7])
    }

    /// Adds the counts of another span or node; the age becomes the higher one.
    package static func += (sum: inout SeriesCounts, more: SeriesCounts) {
        sum.accepted = sum.accepted.adding(clamping: more.accepted)
        sum.handedOver = sum.handedOver.adding(clamping: more.handedOver)
        sum.arrived = sum.arrived.adding(clamping: more.arrived)
        sum.failed = sum.failed.adding(clamping: more.failed)
        sum.expired = sum.expired.adding(clamping: more.expired)
        sum.unknown = sum.unknown.adding(clamping: more.unknown)
        sum.retried = sum.retried.adding(clamping: more.retried)
        sum.oldest = max(sum.oldest, more.oldest)
    }

    /// Returns the counts since an earlier moment, of totals that only grow; the age is not changed.
    package func since(_ before: SeriesCounts) -> SeriesCounts {
        var change = self
        for value in Self.sums {
            change[keyPath: value] = max(0, self[keyPath: value].subtracting(clamping: before[keyPath: value]))
        }
        return change
    }
}

/// The length of the spans that a row of counts has.
package enum SeriesScale: Int64, Sendable, CaseIterable {
    /// A row has the minutes of an hour.
    case minutes = 0
    /// A row has the hours of a day.
    case hours = 1

    /// The number of spans in a row.
    package var slots: Int { self == .minutes ? 60 : 24 }
    /// The length of a span, in minutes.
    package var minutes: Int64 { self == .minutes ? 1 : 60 }
}

/// The counts of the spans of a row: the minutes of an hour, or the hours of a day.
///
/// A span has no counts when no gateway ran in it, or when its counts were lost with the process.
///
/// The stored form has for each span a byte: 0 for none, 1 for zeros only, 2 for counts. A byte follows whose bits tell
/// which values are not 0, then those values, seven bits a byte with the lowest first. Spans at the end without counts
/// are left out. An idle minute takes one byte, one of 1,000 deliveries a second some twelve.
package struct SeriesBlock: Sendable, Hashable {
    private static let none: UInt8 = 0
    private static let idle: UInt8 = 1
    private static let counted: UInt8 = 2

    /// The counts of each span; nil for one without.
    package private(set) var slots: [SeriesCounts?]

    /// Makes a block without counts.
    package init(_ scale: SeriesScale) { slots = Array(repeating: nil, count: scale.slots) }

    /// Adds counts to a span.
    package mutating func add(_ counts: SeriesCounts, at slot: Int) {
        guard slots.indices.contains(slot) else { return }
        var sum = slots[slot] ?? SeriesCounts()
        sum += counts
        slots[slot] = sum
    }

    /// Adds the counts of another block of the same scale.
    package mutating func add(_ other: SeriesBlock) {
        for (slot, counts) in other.slots.enumerated() { if let counts { add(counts, at: slot) } }
    }

    /// The sum of all spans; nil when none has counts.
    package var sum: SeriesCounts? {
        var sum: SeriesCounts?
        for case let counts? in slots {
            var more = sum ?? SeriesCounts()
            more += counts
            sum = more
        }
        return sum
    }

    /// The stored form.
    package var stored: [UInt8] {
        var bytes: [UInt8] = []
        for slot in slots.prefix(1 + (slots.lastIndex { $0 != nil } ?? -1)) {
            guard let slot else {
                bytes.append(Self.none)
                continue
            }
            let values = slot.values.map { UInt64(clamping: $0) }
            guard values.contains(where: { $0 > 0 }) else {
                bytes.append(Self.idle)
                continue
            }
            var mask: UInt8 = 0
            for (bit, value) in values.enumerated() where value > 0 { mask |= 1 << bit }
            bytes += [Self.counted, mask]
            for value in values where value > 0 { RecordCoding.append(number: value, to: &bytes) }
        }
        return bytes
    }

    /// Reads the stored form; nil when it is malformed.
    package init?(_ scale: SeriesScale, stored: [UInt8]) {
        self.init(scale)
        var input = stored[...]
        var slot = 0
        while let kind = input.popFirst() {
            guard slot < slots.count else { return nil }
            switch kind {
            case Self.none: break
            case Self.idle: slots[slot] = SeriesCounts()
            case Self.counted:
                guard let mask = input.popFirst() else { return nil }
                var values = [Int64](repeating: 0, count: SeriesCounts.valueCount)
                for bit in 0..<SeriesCounts.valueCount where mask & 1 << bit != 0 {
                    guard let number = RecordCoding.number(&input) else { return nil }
                    values[bit] = Int64(clamping: number)
                }
                slots[slot] = SeriesCounts(values)
            default: return nil
            }
            slot += 1
        }
    }
}

/// A row of counts.
package struct SeriesRow: Sendable, Hashable {
    /// The run of hour rows, which are the sums of all runs.
    package static let allRuns: Int64 = 0
    /// The name of the backend in the rows of the whole gateway.
    package static let wholeGateway = ""

    /// The length of its spans.
    package var scale: SeriesScale
    /// The hours, or the days, from 1970 to the beginning of the row, by the wall clock.
    package var start: Int64
    /// The backend; ``wholeGateway`` for all.
    package var backend: String
    /// A number that one run of one gateway has, so that gateways write rows of their own.
    package var run: Int64
    /// The counts.
    package var block: SeriesBlock

    package init(_ scale: SeriesScale, start: Int64, backend: String, run: Int64, _ block: SeriesBlock) {
        (self.scale, self.start, self.backend, self.run, self.block) = (scale, start, backend, run, block)
    }

    /// Returns the hour rows to which minute rows add, each with only what they add; of the same day and backend one.
    package static func folded(_ rows: [SeriesRow]) -> [SeriesRow] {
        struct Key: Hashable { let day: Int64, backend: String }
        var blocks: [Key: SeriesBlock] = [:]
        for row in rows {
            guard let sum = row.block.sum else { continue }
            let day = row.start.floored(by: 24)
            let key = Key(day: day, backend: row.backend)
            blocks[key, default: SeriesBlock(.hours)]
                .add(sum, at: Int(clamping: row.start.subtracting(clamping: day.multiplied(clamping: 24))))
        }
        return blocks.map { SeriesRow(.hours, start: $0.day, backend: $0.backend, run: allRuns, $1) }
            .sorted { ($0.start, $0.backend) < ($1.start, $1.backend) }
    }
}

extension Int64 {
    /// Returns the quotient by a positive number, rounded down.
    package func floored(by divisor: Int64) -> Int64 {
        let (quotient, rest) = quotientAndRemainder(dividingBy: divisor)
        return rest < 0 ? quotient.subtracting(clamping: 1) : quotient
    }
}

/// A question for rows of counts.
package struct SeriesLook: Sendable {
    /// The backends whose rows are wanted.
    package var backends: Set<String>
    /// The hours whose minutes are wanted.
    package var hours: Range<Int64>
    /// The days whose hours are wanted.
    package var days: Range<Int64>

    package init(of backends: Set<String>, hours: Range<Int64>, days: Range<Int64> = 0..<0) {
        (self.backends, self.hours, self.days) = (backends, hours, days)
    }
}

/// A store that keeps counts over time, for charts.
///
/// Each run of a gateway writes minute rows of its own, so it can write a row again without knowing whether an earlier
/// write was committed. Old minute rows of all runs become one hour row for each day and backend. The conformance suite
/// of `ChaparStoreContract` checks these promises.
package protocol SeriesStore: Sendable {
    /// Adds or replaces rows, all in one commit.
    func saveSeries(_ rows: [SeriesRow]) async throws(StoreError)

    /// Returns the rows of a query, all from one snapshot of the store.
    ///
    /// A row whose stored form cannot be read is left out.
    func series(_ look: SeriesLook) async throws(StoreError) -> [SeriesRow]

    /// Adds minute rows from before an hour to hour rows, and removes them and hour rows from before a day: the most
    /// that one short commit allows.
    ///
    /// - Parameters:
    ///   - hour: The hours from 1970 to the first that keeps its minutes.
    ///   - day: The days from 1970 to the first that keeps its hours.
    /// - Returns: Whether there may be more.
    /// - Throws: The store's error; then it is unknown whether this part was committed, and it can be called again.
    func foldSeries(before hour: Int64, removingBefore day: Int64) async throws(StoreError) -> Bool
}

/// The limits of a call that folds rows.
package enum SeriesFolding {
    /// The most minute rows that one commit adds to hour rows.
    package static let mostRows = 200
}
