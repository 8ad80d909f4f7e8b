package import Foundation
package import Logging
package import PushCore
package import PushQueue
internal import Synchronization

/// What every part of a running gateway shares: the configuration in force, the store, the clock, the workers.
///
/// Made by ``Gateway``; endpoints, workers and upkeep get it at their start. It holds references and makes no
/// decisions.
package final class GatewayState: Sendable {
    /// The store.
    package let store: any NotificationStore
    /// The device registry with the outbox, which is kept by the same store or by another one.
    package let devices: any DeviceStore & OutboxStore
    /// Who did what; nil when no record is kept.
    let audit: AuditLog?
    /// Every request; nil when nobody asked for it.
    let access: AccessLog?
    /// When each API key was used last.
    let keyUses = KeyUses()
    /// The code in the dashboard's link, and what it was exchanged for.
    package let dashboard = DashboardAccess()
    /// The erasures of users.
    let erasures = UserErasures()
    /// What finds and removes what is stored of a user; nil when the store cannot.
    let traces: (any NotificationStore & TraceStore)?
    /// Tells callers that wait what became of their operations.
    let outcomes: OutboxOutcomes
    /// The clock.
    package let time: any TimeSource
    /// Translates between the two sides of ``time``.
    package let clock: WallClock
    /// When the gateway started, as a time of day.
    package let startedAt: Date
    /// Whether others than this machine reach the address that the gateway listens on; false before it listens.
    let isExposed = Atomic<Bool>(false)
    private let current: Mutex<GatewaySnapshot>
    private let draining = Mutex(false)

    /// Makes the state of a gateway.
    package init(
        snapshot: GatewaySnapshot,
        store: any NotificationStore,
        devices: any DeviceStore & OutboxStore,
        time: any TimeSource = SystemTime(),
        logger: Logger = Logger(label: "chapar")
    ) {
        self.store = store
        self.devices = devices
        traces = store as? any NotificationStore & TraceStore
        outcomes = OutboxOutcomes(devices as? any NodeExchange)
        self.time = time
        clock = WallClock(time)
        audit = snapshot.configuration.audit.map { [clock] in AuditLog($0, clock: clock, logger: logger) }
        access = snapshot.configuration.accessLog.map { [clock] in AccessLog($0, clock: clock, logger: logger) }
        startedAt = time.now
        current = Mutex(snapshot)
    }

    /// The configuration in force.
    package var snapshot: GatewaySnapshot { current.withLock { $0 } }

    /// The time under which devices that change now go into the outbox; nil when no platform keeps devices.
    var outbox: Date? { snapshot.deviceSync.isNeeded ? time.now : nil }

    /// Puts another configuration in force and gives back the one before.
    @discardableResult
    package func replace(_ snapshot: GatewaySnapshot) -> GatewaySnapshot {
        // Else they would count again when a later configuration has no keys.
        if !snapshot.configuration.apiKeys.contains(where: \.isFirst) { dashboard.end() }
        return current.withLock { current in
            let before = current
            current = snapshot
            return before
        }
    }

    /// Whether the gateway is shutting down: it is not ready for new work then.
    package var isDraining: Bool { draining.withLock { $0 } }

    /// Begins to refuse new work.
    package func beginDraining() { draining.withLock { $0 = true } }
}
