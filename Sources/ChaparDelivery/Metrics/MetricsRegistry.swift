public import CoreMetrics
internal import Synchronization

/// The registry of every metric of the process, which writes them for Prometheus.
///
/// It is also a backend of swift-metrics: once an instance is bootstrapped, metrics of libraries appear in `/metrics`
/// too. A family has at most ``maximumSeries`` series; values of further series go into one series whose labels all
/// read `other`, so that a platform with ever new reasons for refusals cannot fill the memory.
public final class MetricsRegistry: MetricsFactory, Sendable {
    /// The most series of one name.
    public static let maximumSeries = 1000
    /// The most series that libraries make through swift-metrics, for all names together.
    ///
    /// Beyond this number an existing name gets one more series, whose labels all read `other`, and a new name is not
    /// shown.
    public static let maximumLibrarySeries = 2000
    /// The buckets of a histogram without its own: 5 ms to 10 s.
    public static let defaultBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

    private enum Cell: Sendable {
        case counter(CounterCell)
        case floating(FloatingPointCounterCell)
        case gauge(GaugeCell)
        case histogram(HistogramCell)

        var object: AnyObject {
            switch self {
            case .counter(let cell): cell
            case .floating(let cell): cell
            case .gauge(let cell): cell
            case .histogram(let cell): cell
            }
        }
    }

    private struct Family: Sendable {
        var kind: PrometheusText.Kind
        var help: String
        /// The series by the text of their labels.
        var series: [String: Series] = [:]
    }

    private struct Series: Sendable {
        var labels: [(String, String)]
        var cell: Cell
    }

    private struct State: Sendable {
        var families: [String: Family] = [:]
        /// The number of series that libraries have made.
        var librarySeries = 0
    }

    private let state = Mutex(State())

    /// Makes an empty registry.
    public init() {}

    // MARK: The gateway's own metrics

    func counter(
        _ name: String,
        _ help: String = "",
        labels: [(String, String)] = [],
        isLibrary: Bool = false
    ) -> CounterCell {
        let cell = cell(name, .counter, help, labels, isLibrary: isLibrary) { .counter(CounterCell()) }
        if case .counter(let cell) = cell { return cell }
        return CounterCell()  // The name exists with another type: counted, but not shown.
    }

    func gauge(
        _ name: String,
        _ help: String = "",
        labels: [(String, String)] = [],
        isLibrary: Bool = false
    ) -> GaugeCell {
        let cell = cell(name, .gauge, help, labels, isLibrary: isLibrary) { .gauge(GaugeCell()) }
        if case .gauge(let cell) = cell { return cell }
        return GaugeCell()
    }

    func histogram(
        _ name: String,
        _ help: String = "",
        labels: [(String, String)] = [],
        buckets: [Double] = defaultBuckets,
        isLibrary: Bool = false
    ) -> HistogramCell {
        let cell = cell(name, .histogram, help, labels, isLibrary: isLibrary) {
            .histogram(HistogramCell(bounds: buckets))
        }
        if case .histogram(let cell) = cell { return cell }
        return HistogramCell(bounds: buckets)
    }

    /// Returns a counter of a family of the table.
    func counter(_ family: MetricFamily, _ values: [String]) -> CounterCell {
        counter(family.name, family.help, labels: family.labeled(values))
    }

    /// Returns a gauge of a family of the table.
    func gauge(_ family: MetricFamily, _ values: [String]) -> GaugeCell {
        gauge(family.name, family.help, labels: family.labeled(values))
    }

    /// Returns a histogram of a family of the table.
    func histogram(_ family: MetricFamily, _ values: [String], buckets: [Double] = defaultBuckets) -> HistogramCell {
        histogram(family.name, family.help, labels: family.labeled(values), buckets: buckets)
    }

    /// Returns the counters of a family of the table, with the values of their labels.
    ///
    /// The series of further labels, which all read `other`, is among them.
    func counts(of family: MetricFamily) -> [(labels: [String], count: Int64)] {
        let series = state.withLock { $0.families[family.name]?.series.values.map { $0 } ?? [] }
        return series.compactMap { one in
            guard case .counter(let cell) = one.cell else { return nil }
            return (one.labels.map(\.1), cell.value)
        }
    }

    /// Writes every family, by name, with the series that `text` shows.
    package func write(to text: inout PrometheusText) {
        let families = state.withLock { $0.families }
        for (name, family) in families.sorted(by: { $0.key < $1.key }) where !family.series.isEmpty {
            text.family(name, family.kind, family.help)
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) where text.isShown(series.labels) {
                switch series.cell {
                case .counter(let cell): text.sample(name, labels, Double(cell.value))
                case .floating(let cell): text.sample(name, labels, cell.value)
                case .gauge(let cell): text.sample(name, labels, cell.value)
                case .histogram(let cell): text.histogram(name, labels, cell)
                }
            }
        }
    }

    private func cell(
        _ name: String,
        _ kind: PrometheusText.Kind,
        _ help: String,
        _ labels: [(String, String)],
        isLibrary: Bool = false,
        make: () -> Cell
    ) -> Cell? {
        let key = PrometheusText.labels(labels)
        return state.withLock { state in
            var family = state.families[name] ?? Family(kind: kind, help: help)
            guard family.kind == kind else { return nil }
            if let series = family.series[key] { return series.cell }
            var index = key
            var labels = labels
            let isLibraryFull = isLibrary && state.librarySeries >= Self.maximumLibrarySeries
            if isLibraryFull, family.series.isEmpty { return nil }
            if isLibraryFull || family.series.count >= Self.maximumSeries {
                labels = labels.map { ($0.0, "other") }
                index = PrometheusText.labels(labels)
                if let series = family.series[index] { return series.cell }
            }
            let cell = make()
            family.series[index] = Series(labels: labels, cell: cell)
            state.families[name] = family
            if isLibrary { state.librarySeries += 1 }
            return cell
        }
    }

    private func remove(_ handler: AnyObject) {
        state.withLock { state in
            for (name, family) in state.families {
                let left = family.series.filter { $0.value.cell.object !== handler }
                state.librarySeries -= family.series.count - left.count
                state.families[name]?.series = left
            }
        }
    }

    private static func name(_ label: String, suffix: String) -> String {
        let name = PrometheusText.metricName(label)
        return name.hasSuffix(suffix) ? name : name + suffix
    }

    // MARK: MetricsFactory

    /// Makes this registry the backend of swift-metrics: metrics that libraries make from now on appear in `/metrics`.
    ///
    /// The program calls it once, before anything is counted; at a second call swift-metrics ends the process.
    public func bootstrap() { MetricsSystem.bootstrap(self) }

    /// Makes a counter; `_total` is added to its name.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        counter(Self.name(label, suffix: "_total"), labels: dimensions, isLibrary: true)
    }

    /// Makes a counter of fractions; `_total` is added to its name.
    public func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        let cell = cell(Self.name(label, suffix: "_total"), .counter, "", dimensions, isLibrary: true) {
            .floating(FloatingPointCounterCell())
        }
        if case .floating(let cell) = cell { return cell }
        return FloatingPointCounterCell()
    }

    /// Makes a gauge.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        gauge(Self.name(label, suffix: ""), labels: dimensions, isLibrary: true)
    }

    /// Makes a histogram if it aggregates, otherwise a gauge.
    public func makeRecorder(
        label: String,
        dimensions: [(String, String)],
        aggregate: Bool
    ) -> any RecorderHandler {
        let name = Self.name(label, suffix: "")
        if aggregate { return histogram(name, labels: dimensions, isLibrary: true) }
        return gauge(name, labels: dimensions, isLibrary: true)
    }

    /// Makes a histogram of seconds; `_seconds` is added to its name.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        histogram(Self.name(label, suffix: "_seconds"), labels: dimensions, isLibrary: true)
    }

    /// Removes a counter.
    public func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
    /// Removes a counter.
    public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }
    /// Removes a gauge.
    public func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
    /// Removes a recorder.
    public func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
    /// Removes a timer.
    public func destroyTimer(_ handler: any TimerHandler) { remove(handler) }
}
