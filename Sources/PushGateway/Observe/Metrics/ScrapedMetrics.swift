internal import Foundation
internal import PushCore
internal import PushQueue

/// The metrics that are computed at each scrape: queues, workers, backends, the ledger, the process.
///
/// Made by ``OperatorAPI`` for each `GET /metrics`. It reads the store's depths and the workers' states and changes nothing.
struct ScrapedMetrics {
    let now: TimeReading
    let startedAt: Date
    let backends: [BackendRegistry.ConfiguredBackend]
    let workers: [WorkerStatus]
    /// How much waits in each worker; nil while the store fails.
    let depths: [String: QueueDepth]?
    /// How many operations wait for each backend; nil while the store fails.
    var operations: [String: OutboxDepth]?
    /// How many changes of devices are not planned; nil while the store fails.
    var unplanned: Int?
    let ledger: Ledger
    let store: StoreHealth
    let load: (requests: Int, streams: Int)
    /// The limits of the API that are in force.
    let limits: [(String, Int)]

    /// Writes all of them.
    func write(to text: inout PrometheusText) {
        text.family("chapar_store_up", .gauge, "1 while the store answers.")
        text.sample("chapar_store_up", depths == nil ? 0 : 1)
        if let depths {
            writeQueues(depths, to: &text)
            writeLedger(depths, to: &text)
        }
        if let operations, !operations.isEmpty {
            text.family("chapar_operations_waiting", .gauge, "What platforms are still to be told about devices.")
            for (name, depth) in operations.sorted(by: { $0.key < $1.key }) {
                text.sample("chapar_operations_waiting", label(name), Double(depth.waiting))
            }
        }
        if let unplanned {
            text.family("chapar_device_changes_unplanned", .gauge, "Changes of devices that wait for the planner.")
            text.sample("chapar_device_changes_unplanned", Double(unplanned))
        }
        if let used = store.usedBytes {
            text.family("chapar_store_used_bytes", .gauge, "Bytes in use in the store's files; free pages are not.")
            text.sample("chapar_store_used_bytes", Double(used))
        }
        if let free = store.freeBytes {
            text.family("chapar_store_free_bytes", .gauge, "Free bytes of the disk that holds the store.")
            text.sample("chapar_store_free_bytes", Double(free))
        }
        text.family("chapar_store_accepts_work", .gauge, "1 while new work is taken.")
        text.sample("chapar_store_accepts_work", store.acceptsWork ? 1 : 0)
        writeWorkers(to: &text)
        writeBackends(to: &text)
        text.family("chapar_http_requests_in_progress", .gauge, "Requests being answered.")
        text.sample("chapar_http_requests_in_progress", Double(load.requests))
        text.family("chapar_event_streams", .gauge, "Event streams that are open.")
        text.sample("chapar_event_streams", Double(load.streams))
        text.family("chapar_limit", .gauge, "The limits of the API that are in force; 0 is none.")
        for (name, value) in limits {
            text.sample("chapar_limit", PrometheusText.labels([("limit", name)]), Double(value))
        }
        ProcessMetrics.write(to: &text, startedAt: startedAt)
    }

    private func label(_ backend: String) -> String { PrometheusText.labels([("backend", backend)]) }

    private func writeQueues(_ depths: [String: QueueDepth], to text: inout PrometheusText) {
        let names = Set(depths.keys).union(backends.map(\.name)).sorted()
        guard !names.isEmpty else { return }
        text.family("chapar_queue_depth", .gauge, "Deliveries that wait or are claimed, scheduled ones included.")
        for name in names {
            let depth = depths[name] ?? QueueDepth()
            text.sample("chapar_queue_depth", label(name), Double(depth.waiting + depth.claimed))
        }
        text.family(
            "chapar_queue_oldest_age_seconds",
            .gauge,
            "How long the delivery that is overdue the longest has been due; alert on this one."
        )
        for name in names {
            let age = depths[name]?.oldestDue.map { max(0, now.steady.timeIntervalSince($0)) } ?? 0
            text.sample("chapar_queue_oldest_age_seconds", label(name), (age * 1000).rounded() / 1000)
        }
    }

    private func writeWorkers(to text: inout PrometheusText) {
        guard !workers.isEmpty else { return }
        text.family("chapar_inflight", .gauge, "Messages with the backend now.")
        for worker in workers { text.sample("chapar_inflight", label(worker.backend), Double(worker.inFlight)) }
        text.family("chapar_window", .gauge, "The most messages that may be with the backend now.")
        for worker in workers { text.sample("chapar_window", label(worker.backend), Double(worker.window)) }
        text.family("chapar_lane_paused", .gauge, "0 while messages flow, 1 during a pause, 2 parked until mended.")
        for worker in workers {
            let isPaused = worker.pausedUntil.map { $0 > now.wall } ?? false
            text.sample("chapar_lane_paused", label(worker.backend), worker.isParked ? 2 : isPaused ? 1 : 0)
        }
        text.family("chapar_breaker_state", .gauge, "0 closed, 1 half open, 2 open: no messages go to the backend.")
        for worker in workers {
            let value =
                switch worker.breaker.status {
                case .closed: 0.0
                case .halfOpen: 1.0
                case .open: 2.0
                }
            text.sample("chapar_breaker_state", label(worker.backend), value)
        }
        text.family("chapar_invalidations_stopped", .gauge, "1 while held invalidations stop the lane until settled.")
        for worker in workers {
            text.sample("chapar_invalidations_stopped", label(worker.backend), worker.areInvalidationsHeld ? 1 : 0)
        }
    }

    private func writeBackends(to text: inout PrometheusText) {
        guard !backends.isEmpty else { return }
        let health = backends.map { ($0.name, $0.backend.kind.rawValue, $0.backend.health) }
        let apps = backends.map(\.app)
        text.family("chapar_backend_up", .gauge, "1 in order, 0.5 degraded, 0 down, as the backend itself sees it.")
        for ((name, kind, health), app) in zip(health, apps) {
            let value =
                switch health.status {
                case .ok: 1.0
                case .degraded: 0.5
                case .down: 0.0
                }
            text.sample(
                "chapar_backend_up",
                PrometheusText.labels([("backend", name), ("kind", kind), ("app", app.rawValue)]),
                value
            )
        }
        text.family("chapar_backend_connections", .gauge, "Connections that take messages.")
        for (name, _, health) in health {
            text.sample("chapar_backend_connections", label(name), Double(health.connections))
        }
        guard health.contains(where: { !$0.2.credentialExpiries.isEmpty }) else { return }
        text.family(
            "chapar_credential_expiry_timestamp_seconds",
            .gauge,
            "When a credential ends, in seconds since 1970."
        )
        for (name, _, health) in health {
            for (credential, end) in health.credentialExpiries.sorted(by: { $0.key < $1.key }) {
                text.sample(
                    "chapar_credential_expiry_timestamp_seconds",
                    PrometheusText.labels([("backend", name), ("credential", credential)]),
                    end.timeIntervalSince1970.rounded()
                )
            }
        }
    }

    private func writeLedger(_ depths: [String: QueueDepth], to text: inout PrometheusText) {
        let totals = ledger.totals
        text.family("chapar_ledger_accepted_total", .counter, "Deliveries accepted since the start.")
        text.sample("chapar_ledger_accepted_total", Double(totals.accepted))
        text.family("chapar_ledger_ended_total", .counter, "Deliveries that reached a final state since the start.")
        for state in DeliveryState.allCases where state.isFinal {
            text.sample(
                "chapar_ledger_ended_total",
                PrometheusText.labels([("state", state.rawValue)]),
                Double(totals.ended[state] ?? 0)
            )
        }
        let waiting = depths.values.reduce(0) { $0 + $1.waiting + $1.claimed }
        text.family("chapar_ledger_waiting", .gauge, "Deliveries that are not final.")
        text.sample("chapar_ledger_waiting", Double(waiting))
        guard let difference = ledger.difference(waiting: waiting) else { return }
        text.family(
            "chapar_ledger_difference",
            .gauge,
            "Accepted less ended and waiting. It is 0 at rest; another value that stays means lost or doubled deliveries."
        )
        text.sample("chapar_ledger_difference", Double(difference))
    }
}
