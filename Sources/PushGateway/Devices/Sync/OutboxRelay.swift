internal import Foundation
public import Logging
internal import PushCore
internal import PushQueue
internal import Synchronization

/// Tells platforms what happens to devices: a lane for each backend that wants to know.
///
/// A reload replaces every lane. What waits for a backend that is not configured any more waits until it is again, or until
/// somebody removes it.
public final class OutboxRelay: Sendable {
    private enum Command: Sendable {
        case install
        case stop
    }

    private struct Lanes {
        var current: [OutboxWorker] = []
        var hasEnded = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state: GatewayState
    private let logger: Logger
    private let around: OutboxWorker.Dependencies
    private let introductions: Backfill
    private let planner: OutboxPlanner
    private let lanes = Mutex(Lanes())
    private let commands: AsyncStream<Command>
    private let commander: AsyncStream<Command>.Continuation

    /// Makes a desk; nothing happens before ``run()``.
    ///
    /// - Parameters:
    ///   - state: What every part of the gateway shares.
    ///   - metrics: Where attempts are counted.
    ///   - logger: Where trouble is told.
    public convenience init(state: GatewayState, metrics: GatewayMetrics, logger: Logger) {
        self.init(state: state, metrics: metrics, logger: logger, planning: OutboxPlanner.ownThread())
    }

    /// Makes a desk that plans on a thread of the caller's.
    init(state: GatewayState, metrics: GatewayMetrics, logger: Logger, planning: @escaping OutboxPlanner.Thread) {
        self.state = state
        self.logger = logger
        let introductions = Backfill(store: state.devices, state: state.store, time: state.time, logger: logger)
        self.introductions = introductions
        planner = OutboxPlanner(store: state.devices, time: state.time, logger: logger, thread: planning) {
            state.snapshot.teller
        }
        around = OutboxWorker.Dependencies(
            store: state.devices,
            outcomes: state.outcomes,
            time: state.time,
            logger: logger,
            count: { metrics.operated(backend: $0, kind: $1.rawValue, outcome: $2) },
            doubt: { await introductions.doubt($0) }
        )
        (commands, commander) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16))
    }

    /// Works until `stop` or cancellation.
    public func run() async {
        commander.yield(.install)
        await withTaskGroup(of: Void.self) { planning in
            planning.addTask { [planner] in await planner.run() }
            await runLanes()
            planning.cancelAll()
        }
        let waiters = lanes.withLock { lanes in
            lanes.hasEnded = true
            defer { lanes.waiters = [] }
            return lanes.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func runLanes() async {
        await withTaskGroup(of: Void.self) { group in
            await withTaskCancellationHandler {
                for await command in commands {
                    guard case .install = command else { break }
                    await install(&group)
                }
            } onCancel: {
                commander.yield(.stop)
            }
            for lane in lanes.withLock({ $0.current }) { lane.stop() }
            await group.waitForAll()
        }
    }

    /// Puts the backends of the configuration in force in the place of those before.
    func install() { commander.yield(.install) }

    /// Claims nothing more and lets ``run()`` end.
    func beginStop() { commander.yield(.stop) }

    /// Claims nothing more, and returns when ``run()`` has ended.
    ///
    /// Only for a desk that runs or will run.
    func stop() async {
        beginStop()
        await withCheckedContinuation { continuation in
            let hasEnded = lanes.withLock { lanes in
                if !lanes.hasEnded { lanes.waiters.append(continuation) }
                return lanes.hasEnded
            }
            if hasEnded { continuation.resume() }
        }
    }

    private func install(_ group: inout TaskGroup<Void>) async {
        let snapshot = state.snapshot
        let wanted = snapshot.backends.filter { OutboxWorker.isWanted(for: $0.backend) }
        let new = wanted.map { OutboxWorker($0, priority: snapshot.configuration.tokenPriority, around) }
        let old = lanes.withLock { lanes in
            defer { lanes.current = new }
            return lanes.current
        }
        for lane in old { lane.stop() }
        let registrars = wanted.filter { $0.registersDevices && $0.backend.devices != nil }
        await introductions.keep(Set(registrars.map(\.name)))
        for lane in new {
            let registrar = registrars.first { $0.name == lane.name }?.backend.devices
            group.addTask { [introductions] in
                await withTaskGroup(of: Void.self) { inner in
                    if let registrar {
                        inner.addTask {
                            await introductions.introduce(to: lane.name, stamp: registrar.stamp, snapshot.teller)
                        }
                    }
                    await lane.run()
                    inner.cancelAll()
                }
            }
        }
    }
}
