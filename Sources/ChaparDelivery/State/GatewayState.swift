package import ChaparComposition
package import Foundation
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The state that all parts of a running gateway share: the configuration in force, the store, the clock, the workers.
///
/// Made by ``Gateway`` and passed to endpoints, workers and upkeep. It holds references and makes no decisions.
package final class GatewayState: Sendable {
    /// The store.
    package let store: any NotificationStore
    /// The device registry with the outbox, kept by the same store or by another one.
    package let devices: any DeviceStore & OutboxStore
    /// The store's search for a user's data, for erasures; nil when the store cannot do that.
    package let traces: (any TraceStore)?
    /// The store's search for deliveries; nil when the store has none.
    package let search: (any SearchStore)?
    /// The guides to the reasons of attempts.
    package let reasons: ReasonBook
    /// The campaigns that run, as this gateway knows them.
    package let campaigns: CampaignDirectory
    /// The store's audiences; nil when the store has none.
    package let audiences: (any AudienceStore)?
    /// The stored segments.
    package var segments: Segments { Segments(store) }
    /// The keys of the ids with which apps report arrivals and openings.
    package let receiptKeys: ReceiptKeys
    /// The callers that wait for the outcomes of their operations.
    package let outcomes: OutboxOutcomes
    /// The sender of spans.
    package let tracing: TraceExporter
    /// The arrivals that were reported, for counts over time.
    package let series: SeriesTotals
    /// The clock.
    package let time: any TimeSource
    /// The translator between the two sides of ``time``.
    package let clock: WallClock
    /// The time when the gateway started, on the wall clock.
    package let startedAt: Date
    private let current: Mutex<GatewaySnapshot>
    private let steps = Mutex<[@Sendable (GatewaySnapshot) -> Void]>([])
    private let draining = Mutex(false)

    /// Makes the state of a gateway; `credentials` keeps what is secret, nil stands for `store`.
    package init(
        snapshot: GatewaySnapshot,
        store: any NotificationStore,
        devices: any DeviceStore & OutboxStore,
        audiences: (any AudienceStore)? = nil,
        credentials: (any StateStore)? = nil,
        time: any TimeSource = SystemTime(),
        reasons: ReasonBook = .ofGateway,
        series: SeriesTotals = SeriesTotals()
    ) {
        self.store = store
        self.devices = devices
        traces = store.abilities.traces
        search = store.abilities.search
        self.reasons = reasons
        self.series = series
        self.audiences = audiences ?? store.abilities.audiences
        campaigns = CampaignDirectory(store.abilities.campaigns, self.audiences, time: time)
        receiptKeys = ReceiptKeys(credentials ?? store)
        outcomes = OutboxOutcomes(store.abilities.nodes)
        tracing = TraceExporter(snapshot.configuration.tracing)
        self.time = time
        clock = WallClock(time)
        startedAt = time.now
        current = Mutex(snapshot)
    }

    /// The configuration in force.
    package var snapshot: GatewaySnapshot { current.withLock { $0 } }

    /// The time for outbox entries of devices that change now; nil when no platform keeps devices.
    package var outbox: Date? { snapshot.deviceSync.isNeeded ? time.now : nil }

    /// Adds a step that runs before each change of the configuration, with the one that will be in force.
    package func beforeReplacing(_ step: @escaping @Sendable (GatewaySnapshot) -> Void) {
        steps.withLock { $0.append(step) }
    }

    /// Puts another configuration in force and returns the previous one.
    @discardableResult
    package func replace(_ snapshot: GatewaySnapshot) -> GatewaySnapshot {
        for step in steps.withLock({ $0 }) { step(snapshot) }
        tracing.apply(snapshot.configuration.tracing)
        return current.withLock { current in
            let before = current
            current = snapshot
            return before
        }
    }

    /// Records reports about deliveries, and counts the arrivals among them.
    package func record(_ receipts: [ReceiptEntry]) async throws(StoreError) -> [ReceiptResult] {
        let results = try await store.record(receipts)
        series.received(receipts, results)
        return results
    }

    /// Whether the gateway is shutting down and refuses new work.
    package var isDraining: Bool { draining.withLock { $0 } }

    /// Begins to refuse new work.
    package func beginDraining() { draining.withLock { $0 = true } }
}
