internal import Foundation
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The metrics that are computed at each scrape: queues, workers, backends, the ledger, the process.
///
/// Made by ``OperatorAPI`` for each `GET /metrics`. It reads the store's depths and the workers' states and changes
/// nothing.
struct ScrapedMetrics {
    let now: TimeReading
    let startedAt: Date
    let backends: [BackendRegistry.ConfiguredBackend]
    let workers: [WorkerStatus]
    /// The queue depth of each backend; nil while the store fails.
    let depths: [String: QueueDepth]?
    /// The oldest due time of each API key, nil for one without a delivery that is due; empty while the store fails.
    var keys: [String: Date?] = [:]
    /// The number of operations that wait for each backend; nil while the store fails.
    var operations: [String: OutboxDepth]?
    /// The number of device changes that are not planned; nil while the store fails.
    var unplanned: Int?
    let ledger: Ledger
    let store: StoreHealth
    let load: (requests: Int, streams: Int)
    /// The expiry of the gateway's own certificate; nil without one.
    var certificateNotAfter: Date?
    /// The limits of the API that are in force.
    let limits: [(String, Int)]
    /// The endpoints of webhooks; empty without any, and while the store fails.
    var webhooks: [WebhookLevel] = []

    /// Writes all metrics.
    func write(to text: inout PrometheusText) {
        text.begin(.storeUp)
        text.sample(.storeUp, depths == nil ? 0 : 1)
        if let depths {
            writeQueues(depths, to: &text)
            writeLedger(depths, to: &text)
        }
        writeKeys(to: &text)
        if let operations, !operations.isEmpty {
            text.begin(.operationsWaiting)
            for (name, depth) in operations.sorted(by: { $0.key < $1.key }) {
                text.sample(.operationsWaiting, [name], Double(depth.waiting))
            }
        }
        if let unplanned {
            text.begin(.changesUnplanned)
            text.sample(.changesUnplanned, Double(unplanned))
        }
        if let used = store.usedBytes {
            text.begin(.storeUsed)
            text.sample(.storeUsed, Double(used))
        }
        if let free = store.freeBytes {
            text.begin(.storeFree)
            text.sample(.storeFree, Double(free))
        }
        text.begin(.storeDeadRows)
        text.sample(.storeDeadRows, Double(store.deadRows ?? 0))
        text.begin(.storeOldestSnapshot)
        text.sample(.storeOldestSnapshot, store.oldestSnapshot?.inSeconds ?? 0)
        text.begin(.storeAcceptsWork)
        text.sample(.storeAcceptsWork, store.acceptsWork ? 1 : 0)
        text.begin(.brokenRun)
        text.sample(.brokenRun, store.brokenRun == nil ? 0 : 1)
        text.begin(.queueFull)
        text.sample(.queueFull, store.isQueueFull ? 1 : 0)
        writeWorkers(to: &text)
        writeBackends(to: &text)
        writeCredentials(to: &text)
        text.begin(.requestsInProgress)
        text.sample(.requestsInProgress, Double(load.requests))
        text.begin(.eventStreams)
        text.sample(.eventStreams, Double(load.streams))
        text.begin(.limit)
        for (name, value) in limits {
            text.sample(.limit, [name], Double(value))
        }
        WebhookLevel.write(webhooks, to: &text)
        ProcessMetrics.write(to: &text, startedAt: startedAt)
    }

    private func writeQueues(_ depths: [String: QueueDepth], to text: inout PrometheusText) {
        let names = Set(depths.keys).union(backends.map(\.name)).sorted()
        guard !names.isEmpty else { return }
        text.begin(.queueDepth)
        for name in names {
            let depth = depths[name] ?? QueueDepth()
            text.sample(.queueDepth, [name], Double(depth.waiting + depth.claimed))
        }
        text.begin(.queueOldestAge)
        for name in names {
            let age = depths[name]?.oldestDue.map { max(0, now.steady.timeIntervalSince($0)) } ?? 0
            text.sample(.queueOldestAge, [name], (age * 1000).rounded() / 1000)
        }
    }

    private func writeKeys(to text: inout PrometheusText) {
        guard !keys.isEmpty else { return }
        text.begin(.keyOldestAge)
        // As in the registry: further keys share one series, whose value is that of the longest overdue one.
        var ages: [String: Double] = [:]
        for (name, due) in keys.sorted(by: { $0.key < $1.key }) where text.shows(.keyOldestAge, [name]) {
            let age = due.map { max(0, now.steady.timeIntervalSince($0)) } ?? 0
            let label = ages.count < MetricsRegistry.maximumSeries || ages[name] != nil ? name : "other"
            ages[label] = max(ages[label] ?? 0, age)
        }
        for (name, age) in ages.sorted(by: { $0.key < $1.key }) {
            text.sample(.keyOldestAge, [name], (age * 1000).rounded() / 1000)
        }
    }

    private func writeWorkers(to text: inout PrometheusText) {
        guard !workers.isEmpty else { return }
        text.begin(.inFlight)
        for worker in workers { text.sample(.inFlight, [worker.backend], Double(worker.inFlight)) }
        text.begin(.window)
        for worker in workers { text.sample(.window, [worker.backend], Double(worker.window)) }
        for family in [MetricFamily.workerPaused, .formerWorkerPaused] {
            text.begin(family)
            for worker in workers {
                let isPaused = worker.isSlowed || worker.pausedUntil.map { $0 > now.wall } ?? false
                text.sample(family, [worker.backend], worker.isParked ? 2 : isPaused ? 1 : 0)
            }
        }
        text.begin(.breakerState)
        for worker in workers {
            let value =
                switch worker.breaker.status {
                case .closed: 0.0
                case .halfOpen: 1.0
                case .open: 2.0
                }
            text.sample(.breakerState, [worker.backend], value)
        }
        text.begin(.invalidationsStopped)
        for worker in workers {
            text.sample(.invalidationsStopped, [worker.backend], worker.areInvalidationsQuarantined ? 1 : 0)
        }
        text.begin(.invalidationsUndecided)
        for worker in workers {
            text.sample(.invalidationsUndecided, [worker.backend], Double(worker.undecidedCallers))
        }
    }

    private func writeBackends(to text: inout PrometheusText) {
        guard !backends.isEmpty else { return }
        let known = Dictionary(workers.map { ($0.backend, $0) }) { first, _ in first }
        let health = backends.map { backend in
            let own = backend.backend.health
            return (backend.name, backend.backend.kind.rawValue, known[backend.name]?.health(own) ?? own)
        }
        let apps = backends.map(\.app)
        text.begin(.backendUp)
        for ((name, kind, health), app) in zip(health, apps) {
            let value =
                switch health.status {
                case .ok: 1.0
                case .degraded: 0.5
                case .down: 0.0
                }
            text.sample(
                .backendUp,
                [name, kind, app.rawValue],
                value
            )
        }
        text.begin(.backendConnections)
        for (name, _, health) in health {
            text.sample(.backendConnections, [name], Double(health.connections))
        }
    }

    /// Writes the expiry of credentials; that of the gateway itself has an empty label `backend`.
    private func writeCredentials(to text: inout PrometheusText) {
        var ends: [(labels: [String], end: Date)] = []
        if let certificateNotAfter { ends.append((["", "server_certificate"], certificateNotAfter)) }
        for backend in backends {
            let expiries = backend.backend.health.credentialExpiries.sorted { $0.key < $1.key }
            ends += expiries.map { ([backend.name, $0.key], $0.value) }
        }
        guard !ends.isEmpty else { return }
        text.begin(.credentialExpiry)
        for (labels, end) in ends { text.sample(.credentialExpiry, labels, end.timeIntervalSince1970.rounded()) }
    }

    private func writeLedger(_ depths: [String: QueueDepth], to text: inout PrometheusText) {
        let totals = ledger.totals
        text.begin(.ledgerAccepted)
        text.sample(.ledgerAccepted, Double(totals.accepted))
        text.begin(.ledgerEnded)
        for state in DeliveryState.allCases where state.isFinal {
            text.sample(
                .ledgerEnded,
                [state.rawValue],
                Double(totals.ended[state] ?? 0)
            )
        }
        text.begin(.ledgerIgnored)
        text.sample(.ledgerIgnored, Double(ledger.ignored))
        let waiting = depths.values.reduce(0) { $0 + $1.waiting + $1.claimed }
        text.begin(.ledgerWaiting)
        text.sample(.ledgerWaiting, Double(waiting))
        guard let difference = ledger.difference(waiting: waiting) else { return }
        text.begin(.ledgerDifference)
        text.sample(.ledgerDifference, Double(difference))
    }
}
