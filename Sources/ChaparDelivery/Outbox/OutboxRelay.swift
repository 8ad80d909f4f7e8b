internal import Foundation
package import Logging
internal import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The outbox workers, one for each backend that keeps devices.
///
/// A reload replaces every worker; a pause that a platform asked for stays. Entries for a backend that is no longer
/// configured wait until it is configured again, or an operator removes them.
package final class OutboxRelay: Sendable {
    private enum Command: Sendable {
        case install
        case stop
    }

    private struct Workers {
        var current: [OutboxWorker] = []
    }

    private let state: GatewayState
    private let logger: Logger
    private let nodes: (any NodeExchange)?
    private let dependencies: OutboxWorker.Dependencies
    private let backfill: Backfill
    private let planner: OutboxPlanner
    private let workers = Mutex(Workers())
    private let ended = AsyncSignal()
    private let commands: AsyncStream<Command>
    private let commander: AsyncStream<Command>.Continuation

    /// Makes a relay; nothing happens before ``run()``.
    ///
    /// - Parameters:
    ///   - state: The state that all parts of the gateway share.
    ///   - metrics: Counts attempts.
    ///   - logger: Logs failures.
    convenience init(state: GatewayState, metrics: GatewayMetrics, logger: Logger) {
        self.init(state: state, metrics: metrics, logger: logger, planning: OutboxPlanner.ownThread())
    }

    /// Makes a relay that plans on a given thread; `nodes` connects to other gateways on the same store.
    package init(
        state: GatewayState,
        nodes: (any NodeExchange)? = nil,
        metrics: GatewayMetrics,
        logger: Logger,
        planning: @escaping OutboxPlanner.Thread
    ) {
        self.state = state
        self.nodes = nodes
        self.logger = logger
        let backfill = Backfill(store: state.devices, state: state.store, time: state.time, logger: logger)
        self.backfill = backfill
        planner = OutboxPlanner(store: state.devices, time: state.time, logger: logger, thread: planning) {
            state.snapshot.deviceSync
        }
        dependencies = OutboxWorker.Dependencies(
            store: state.devices,
            outcomes: state.outcomes,
            time: state.time,
            logger: logger,
            holdsClaims: { [store = state.store] in store.holdsClaims(since: $0) },
            count: { metrics.operated(backend: $0, kind: $1.rawValue, outcome: $2) },
            markIncomplete: { await backfill.markIncomplete($0) }
        )
        (commands, commander) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16))
    }

    /// Works until ``stop()`` or cancellation.
    package func run() async {
        commander.yield(.install)
        // Another gateway got the request to retry now. Its entries are due in the shared store; each gateway ends its
        // own pauses.
        nodes?.hear { [weak self] note in
            guard case .retried(let backend)? = NodeNews(note), let self else { return }
            _ = endOwnPause(of: backend, at: state.clock.reading)
        }
        await withTaskGroup(of: Void.self) { planning in
            planning.addTask { [planner] in await planner.run() }
            await runWorkers()
            planning.cancelAll()
        }
        ended.signal()
    }

    private func runWorkers() async {
        await withTaskGroup(of: Void.self) { group in
            await withTaskCancellationHandler {
                for await command in commands {
                    guard case .install = command else { break }
                    await install(&group)
                }
            } onCancel: {
                commander.yield(.stop)
            }
            for worker in workers.withLock({ $0.current }) { worker.stop() }
            await group.waitForAll()
        }
    }

    /// Replaces the workers by those for the backends of the configuration in force.
    package func install() { commander.yield(.install) }

    /// Ends the pause of a backend, unless a platform asked for it.
    package func endOwnPause(of backend: String, at now: TimeReading) -> EndedPauses {
        var result = EndedPauses()
        guard let worker = workers.withLock({ $0.current.first { $0.name == backend } }) else { return result }
        let (hasEnded, kept) = worker.endOwnPause()
        if hasEnded { result.ended.append(EndedPauses.Pause(.operations, reason: nil)) }
        if let kept { result.kept.append(EndedPauses.Pause(.operations, reason: nil, until: now.wall(kept))) }
        return result
    }

    /// Stops claiming, and lets ``run()`` end.
    package func beginStop() { commander.yield(.stop) }

    /// Stops claiming, and returns when ``run()`` has ended.
    ///
    /// Call it only for a relay that runs or will run.
    package func stop() async {
        beginStop()
        await ended.waitThroughCancellation(after: .start)
    }

    private func install(_ group: inout TaskGroup<Void>) async {
        let snapshot = state.snapshot
        let needed = snapshot.backends.filter { OutboxWorker.isNeeded(for: $0.backend) }
        let old = workers.withLock { $0.current }
        let new = needed.map { configured in
            let former = old.first { $0.name == configured.name && $0.flow.identity == configured.identity }
            return OutboxWorker(
                configured,
                flow: former?.flow ?? OutboxFlow(configured.identity),
                priority: snapshot.configuration.tokenPriority,
                dependencies
            )
        }
        workers.withLock { $0.current = new }
        for worker in old { worker.stop() }
        // Pauses that no platform asked for end here.
        let paused = new.filter { $0.endOwnPause().kept != nil }
        state.outcomes.troubles.beginAnew(keeping: Set(paused.map(\.name)))
        let registrars = needed.filter { $0.registersDevices && $0.backend.devices != nil }
        await backfill.keep(Set(registrars.map(\.name)))
        for worker in new {
            let registrar = registrars.first { $0.name == worker.name }?.backend.devices
            group.addTask { [backfill] in
                await withTaskGroup(of: Void.self) { inner in
                    if let registrar {
                        inner.addTask {
                            await backfill.run(for: worker.name, stamp: registrar.stamp, snapshot.deviceSync)
                        }
                    }
                    await worker.run()
                    inner.cancelAll()
                }
            }
        }
    }
}
