internal import Foundation
internal import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

extension GatewayState {
    /// Returns the gateways that share the store; nil when it cannot be shared.
    func storeNodes() async throws(StoreError) -> [StoreNode]? { try await store.abilities.nodes?.nodes() }
}

/// The backends in `GET /v1/backends` and on the dashboard: identity, abilities and the state of the worker.
struct BackendsAnswer {
    /// The names that an answer has of a backend's worker and of the stop by quarantined tokens.
    struct WorkerNames: Sendable {
        let worker: StaticString
        let quarantine: StaticString

        static let current = Self(worker: "worker", quarantine: "invalidations_quarantined")
        /// The former names: answers show them beside the current ones, the event shows them alone.
        static let former = Self(
            worker: FormerName.worker.former,
            quarantine: FormerName.invalidationsQuarantined.former
        )
    }

    let backends: [BackendRegistry.ConfiguredBackend]
    private let isGone: (String) -> Bool
    let workers: [String: WorkerStatus]
    let depths: [String: QueueDepth]
    let operations: [String: OutboxDepth]
    /// The caller, who sees only some of it.
    let caller: Caller
    /// The reasons why outbox entries wait.
    let troubles: OutboxTroubles
    /// The expiry times of the gateway's own credentials, as far as the caller may see them.
    let expiries: [String: Date]
    let now: TimeReading
    /// The gateways that share the store; nil when it cannot be shared.
    let nodes: [StoreNode]?

    init(
        _ state: GatewayState,
        _ workers: any WorkerObserver,
        depths: [String: QueueDepth],
        operations: [String: OutboxDepth],
        expiries: [String: Date],
        nodes: [StoreNode]?,
        for caller: Caller
    ) {
        self.nodes = nodes
        self.operations = operations
        self.expiries = expiries
        self.caller = caller
        troubles = state.outcomes.troubles
        let snapshot = state.snapshot
        backends = snapshot.backends.filter { caller.mayUse(backend: $0.name) }
        isGone = snapshot.isGone
        self.workers = Dictionary(workers.workers.map { ($0.backend, $0) }) { first, _ in first }
        self.depths = depths
        now = state.clock.reading
    }

    /// Writes the field `backends`, and the fields about expiring credentials, into an object that the caller has
    /// begun.
    ///
    /// Each worker is written once under each of these names.
    func write(to writer: inout JSONWriter, workersAs names: [WorkerNames]) {
        writer.name("backends")
        writer.beginArray()
        for backend in backends {
            writer.beginObject()
            let own = backend.backend.health
            writer.field("name", backend.name)
            writer.field("kind", backend.backend.kind.rawValue)
            write(audience: backend.backend.audience, to: &writer)
            writer.name("abilities")
            writer.beginArray()
            for ability in ["send"] + backend.backend.abilityNames { writer.string(ability) }
            writer.endArray()
            write(health: troubles.health(of: backend.name, workers[backend.name]?.health(own) ?? own), to: &writer)
            for one in names { write(worker: backend.name, as: one, to: &writer) }
            write(operations: backend.name, to: &writer)
            writer.endObject()
        }
        for name in goneNames { write(gone: name, workersAs: names, to: &writer) }
        writer.endArray()
        write(expiries: expiries, to: &writer)
        writer.field("credential_warning_days", BackendHealth.credentialWarningDays)
        if let nodes { write(nodes: nodes, to: &writer) }
    }

    private func write(nodes: [StoreNode], to writer: inout JSONWriter) {
        writer.name("nodes")
        writer.beginArray()
        for node in nodes {
            writer.beginObject()
            writer.field("name", node.name)
            writer.field("number", Int(node.number))
            writer.name("started_at")
            RFC3339.write(node.startedAt, to: &writer)
            writer.field("lease_seconds", node.leaseLeft.inSeconds)
            writer.field("self", node.isSelf)
            writer.endObject()
        }
        writer.endArray()
    }

    /// The backends that are no longer configured and still have waiting deliveries.
    private var goneNames: [String] {
        depths.filter {
            caller.mayUse(backend: $0.key) && isGone($0.key) && $0.value.waiting + $0.value.claimed > 0
        }.keys.sorted()
    }

    private func write(gone name: String, workersAs names: [WorkerNames], to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("name", name)
        writer.field("kind", "gone")
        writer.field("gone", true)
        write(audience: BackendAudience(), to: &writer)
        writer.name("abilities")
        writer.beginArray()
        writer.endArray()
        let detail = "it is not configured; move or drop what waits for it, or configure it again"
        write(health: BackendHealth(status: .down, detail: detail), to: &writer)
        for one in names { write(worker: name, as: one, to: &writer) }
        write(operations: name, to: &writer)
        writer.endObject()
    }

    /// Writes the outbox entries of the platform.
    private func write(operations name: String, to writer: inout JSONWriter) {
        writer.name("operations")
        writer.beginObject()
        writer.field("waiting", operations[name]?.waiting ?? 0)
        writer.age("oldest_age", since: operations[name]?.oldest, at: now.wall)
        writer.endObject()
    }

    private func write(audience: BackendAudience, to writer: inout JSONWriter) {
        writer.name("audience")
        writer.beginObject()
        writer.name("services")
        writer.beginArray()
        for service in audience.services.map(\.rawValue).sorted() { writer.string(service) }
        writer.endArray()
        writer.name("forms")
        writer.beginArray()
        for form in audience.forms.map(\.rawValue).sorted() { writer.string(form) }
        writer.endArray()
        writer.endObject()
    }

    private func write(health: BackendHealth, to writer: inout JSONWriter) {
        writer.name("health")
        writer.beginObject()
        writer.field("status", health.status.rawValue)
        writer.field("detail", health.detail)
        writer.field("connections", health.connections)
        write(expiries: health.credentialExpiries, to: &writer)
        writer.endObject()
    }

    private func write(expiries: [String: Date], to writer: inout JSONWriter) {
        writer.name("credential_expiries")
        writer.beginObject()
        for (name, end) in expiries.sorted(by: { $0.key < $1.key }) {
            writer.name(name)
            RFC3339.write(end, to: &writer)
        }
        writer.endObject()
    }

    private static func write(_ quota: WorkerStatus.Quota, to writer: inout JSONWriter) {
        writer.name("quota")
        writer.beginObject()
        writer.field("per_second", quota.perSecond)
        writer.field("used", (quota.used * 1000).rounded() / 1000)
        writer.endObject()
    }

    /// Returns the status of a worker that does not run yet: in the first moments, what its configuration says.
    private func status(beforeStart name: String) -> WorkerStatus {
        var status = WorkerStatus(backend: name)
        let pacing = backends.first { $0.name == name }?.pacing
        status.quota = pacing.map { WorkerStatus.Quota(perSecond: $0.perSecond, used: 0) }
        return status
    }

    private func write(worker name: String, as names: WorkerNames, to writer: inout JSONWriter) {
        let worker = workers[name] ?? status(beforeStart: name)
        let depth = depths[name] ?? QueueDepth()
        writer.name(names.worker)
        writer.beginObject()
        writer.field("in_flight", worker.inFlight)
        writer.field("window", worker.window)
        writer.field("waiting", depth.waiting)
        writer.field("claimed", depth.claimed)
        writer.age("oldest_age", since: depth.oldestDue, at: now.steady)
        writer.field("parked", worker.isParked)
        writer.field("breaker", worker.breaker.status.rawValue)
        if let until = worker.breaker.until {
            writer.name("breaker_until")
            RFC3339.write(until, to: &writer)
        }
        writer.field("breaker_reason", worker.breaker.reason)
        writer.field(names.quarantine, worker.areInvalidationsQuarantined)
        if let until = worker.pausedUntil {
            writer.name("paused_until")
            RFC3339.write(until, to: &writer)
        }
        writer.field("pause_reason", worker.pauseReason)
        if let quota = worker.quota { Self.write(quota, to: &writer) }
        writer.endObject()
    }
}
