package import ChaparCore
internal import Synchronization

/// The labels by which accepted notifications are counted.
package struct AcceptanceLabels: Hashable, Sendable {
    /// The route's name, `direct` for a backend, `automatic` for neither.
    var route: String
    var app = AppName.default

    /// Creates the labels; without an app they have the default one.
    package init(route: String, app: AppName = AppName.default) {
        self.route = route
        self.app = app
    }
}

/// The metrics that the gateway counts, under the names and labels that its users alert on.
///
/// Handles are kept, so that counting costs a lookup and an addition. Labels have a bounded number of values: names of
/// backends, routes and reasons, never a token, a user or an id.
public final class GatewayMetrics: Sendable {
    private struct Request: Hashable {
        let route: String
        let method: String
        let status: Int
    }

    private struct RequestCells: Sendable {
        let total: CounterCell
        let duration: HistogramCell
    }

    /// The registry of all metrics.
    public let registry: MetricsRegistry
    /// The accepted deliveries and their ends since the start.
    package let ledger = Ledger()
    /// Arrivals and expiries, which counts over time need beside the metrics.
    package let series = SeriesTotals()
    private let requests = Mutex<[Request: RequestCells]>([:])
    private let accepted = Mutex<[AcceptanceLabels: CounterCell]>([:])
    private let counters = Mutex<[[String]: CounterCell]>([:])
    private let durations = Mutex<[[String]: HistogramCell]>([:])

    /// Makes metrics that count into a registry.
    public init(_ registry: MetricsRegistry = MetricsRegistry(), build: BuildInfo = .current) {
        self.registry = registry
        registry.gauge(.build, [build.version, build.commit]).set(1.0)
    }

    /// Counts a request that was answered.
    ///
    /// The route is a pattern, such as `/v1/notifications/{id}`.
    package func request(route: String, method: String, status: Int, duration: Duration) {
        let key = Request(route: route, method: method, status: status)
        let cells = requests.withLock { requests in
            if let cells = requests[key] { return cells }
            let values = [route, method, String(status)]
            let cells = RequestCells(
                total: registry.counter(.requests, values),
                duration: registry.histogram(
                    .requestDuration,
                    values,
                    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30]
                )
            )
            requests[key] = cells
            return cells
        }
        cells.total.increment(by: 1)
        cells.duration.observe(duration.inSeconds)
    }

    /// Counts a request or connection that was refused at a limit.
    package func limitReached(_ limit: APILimit) {
        count(
            .limitRefusals,
            [limit.rawValue],
            1
        )
    }

    /// Counts accepted notifications, each with its labels.
    package func accepted(_ all: [AcceptanceLabels]) {
        var index = 0
        while index < all.count {
            let labels = all[index]
            let begin = index
            while index < all.count, all[index] == labels { index += 1 }
            acceptances(labels).increment(by: Int64(index - begin))
        }
    }

    private func acceptances(_ labels: AcceptanceLabels) -> CounterCell {
        accepted.withLock { accepted in
            if let cell = accepted[labels] { return cell }
            let cell = registry.counter(.accepted, [labels.route, labels.app.rawValue])
            if accepted.count < MetricsRegistry.maximumSeries { accepted[labels] = cell }
            return cell
        }
    }

    func count(_ family: MetricFamily, _ values: [String], _ amount: Int) {
        let key = [family.name] + values
        let cell = counters.withLock { counters in
            if let cell = counters[key] { return cell }
            let cell = registry.counter(family, values)
            if counters.count < 4 * MetricsRegistry.maximumSeries { counters[key] = cell }
            return cell
        }
        cell.increment(by: Int64(amount))
    }

    func duration(_ family: MetricFamily, _ values: [String], _ seconds: Double, _ count: Int) {
        let key = [family.name] + values
        let cell = durations.withLock { durations in
            if let cell = durations[key] { return cell }
            let cell = registry.histogram(family, values)
            if durations.count < MetricsRegistry.maximumSeries { durations[key] = cell }
            return cell
        }
        cell.observe(seconds, count: count)
    }
}
