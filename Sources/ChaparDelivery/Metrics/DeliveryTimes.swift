/// The histograms of a backend's deliveries: how long they waited, and how long it took until the platform answered.
///
/// A worker gets it once (``DispatchObserver/times(of:)``) and records groups of deliveries: a group costs a search
/// among the buckets and two additions.
package struct DeliveryTimes: Sendable {
    /// The histograms of one priority.
    private struct Pair: Sendable {
        let waited: HistogramCell
        let answered: HistogramCell

        subscript(span: Span) -> HistogramCell {
            switch span {
            case .waited: waited
            case .answered: answered
            }
        }
    }

    /// The measured time: until the first attempt, or until the answer that ended a delivery.
    enum Span {
        case waited, answered
    }

    /// The bounds of the buckets, in seconds: 5 ms to 2 h, since a delivery may wait for its platform.
    static let buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200]

    private let high: Pair
    private let normal: Pair

    init(of backend: String, in registry: MetricsRegistry) {
        func pair(_ priority: String) -> Pair {
            Pair(
                waited: registry.histogram(.queueWait, [backend, priority], buckets: Self.buckets),
                answered: registry.histogram(.deliveryDuration, [backend, priority], buckets: Self.buckets)
            )
        }
        (high, normal) = (pair("high"), pair("normal"))
    }

    /// Adds, for each index, the seconds that `age` returns to the histogram of its priority.
    func observe(
        _ span: Span,
        _ indices: [Int],
        isUrgent: [Bool],
        age: (Int) -> Double
    ) {
        withoutActuallyEscaping(age) { age in
            let urgent = indices.lazy.filter { isUrgent[$0] }
            if !urgent.isEmpty { high[span].observe(all: urgent.map(age)) }
            let others = indices.lazy.filter { !isUrgent[$0] }
            if !others.isEmpty { normal[span].observe(all: others.map(age)) }
        }
    }
}
