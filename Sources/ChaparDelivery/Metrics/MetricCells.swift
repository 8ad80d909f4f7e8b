internal import CoreMetrics
internal import Synchronization

/// A time series of a counter with whole numbers.
final class CounterCell: CounterHandler, Sendable {
    private let total = Atomic<Int64>(0)

    func increment(by amount: Int64) { total.wrappingAdd(amount, ordering: .relaxed) }
    func reset() { total.store(0, ordering: .relaxed) }

    var value: Int64 { total.load(ordering: .relaxed) }
}

/// A time series of a counter with fractions, such as seconds.
final class FloatingPointCounterCell: FloatingPointCounterHandler, Sendable {
    private let total = Mutex(0.0)

    func increment(by amount: Double) {
        guard amount.isFinite, amount > 0 else { return }
        total.withLock { $0 += amount }
    }
    func reset() { total.withLock { $0 = 0 } }

    var value: Double { total.withLock { $0 } }
}

/// A time series of a gauge.
final class GaugeCell: MeterHandler, RecorderHandler, Sendable {
    private let level = Mutex(0.0)

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { level.withLock { $0 = value } }
    func increment(by amount: Double) { level.withLock { $0 += amount } }
    func decrement(by amount: Double) { level.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(Double(value)) }
    func record(_ value: Double) { set(value) }

    var value: Double { level.withLock { $0 } }
}

/// A time series of a histogram.
///
/// Recording a value takes a lock and a short search, which is fast enough for each answer of a platform.
final class HistogramCell: TimerHandler, RecorderHandler, Sendable {
    struct Contents {
        /// The number of values in each bucket; the last one has those above all bounds.
        var counts: [UInt64]
        var sum = 0.0
    }

    let bounds: [Double]
    private let state: Mutex<Contents>

    init(bounds: [Double]) {
        self.bounds = bounds
        state = Mutex(Contents(counts: Array(repeating: 0, count: bounds.count + 1)))
    }

    func recordNanoseconds(_ duration: Int64) { observe(Double(duration) / 1e9) }
    func record(_ value: Int64) { observe(Double(value)) }
    func record(_ value: Double) { observe(value) }

    /// Adds a value, or the same value several times.
    func observe(_ value: Double, count: Int = 1) {
        guard value.isFinite, count > 0 else { return }
        var index = 0
        while index < bounds.count, value > bounds[index] { index += 1 }
        state.withLock {
            $0.counts[index] += UInt64(clamping: count)
            $0.sum += value * Double(count)
        }
    }

    /// Adds the values of a group, under one lock.
    func observe(all values: some Sequence<Double>) {
        state.withLock { contents in
            for value in values where value.isFinite {
                var index = 0
                while index < bounds.count, value > bounds[index] { index += 1 }
                contents.counts[index] += 1
                contents.sum += value
            }
        }
    }

    var contents: Contents { state.withLock { $0 } }
}
