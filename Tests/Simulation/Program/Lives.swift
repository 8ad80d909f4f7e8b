import Foundation
import Logging
import PushComposition
import PushCore
import PushQueue
import ServiceLifecycleTestKit
import SimulationDisk

@testable import PushGateway
@testable import PushStoreSQLite

extension World {
    /// One life of the gateway, from a start to its end.
    final class Life: @unchecked Sendable {
        let number: Int
        let time: VirtualTime
        let turns: Turns
        var store: SQLiteStore?
        var gateway: Gateway?
        var front: SimulatedFront?
        var metrics: GatewayMetrics?
        var shutDown: (() -> Void)?
        var stopped: Int64?
        var hasEnded = false
        var failure: String?
        /// Whether the wall clock was set while it lived.
        var hasJumped = false
        /// What had gone wrong with the disk when it began.
        var troubles = 0

        init(_ number: Int, _ scheduler: Scheduler) {
            self.number = number
            time = VirtualTime(scheduler)
            turns = Turns(scheduler)
        }
    }

    /// Starts a gateway on what the disk has.
    func start() {
        lives += 1
        let life = Life(lives, scheduler)
        self.life = life
        trace.note("start of life \(lives)")
        disk.begin(life.turns, pauses: conditions.pauses)
        life.troubles = disk.troubles
        var options = SQLiteStoreOptions(path: disk.path)
        options.threads = life.turns
        options.windowCapacity = conditions.memory
        options.pageSize = max(4, conditions.memory / 8)
        options.rowsPerCommit = conditions.commit
        options.cacheBytes = 256 << 10
        options.eventsInMemory = 64
        options.pageBytes = 1024
        options.checkpointPages = 100
        options.freeBytes = disk.freeBytes
        let logger = trace.logger
        let snapshot = snapshot(life)
        Task { [options] in
            do {
                let store = try SQLiteStore(options, time: life.time, logger: logger)
                life.store = store
                let metrics = GatewayMetrics()
                life.metrics = metrics
                let gateway = try await Gateway.assemble(
                    snapshot,
                    store: store,
                    knownKinds: ["simulated"],
                    notices: EventSink(time: life.time),
                    time: nil,
                    metrics: metrics,
                    logger: logger,
                    planning: { [scheduler] work in scheduler.add(work) }
                ) { api in
                    let front = SimulatedFront(api, logger)
                    life.front = front
                    return front
                }
                life.gateway = gateway
                try await testGracefulShutdown { trigger in
                    life.shutDown = { trigger.triggerGracefulShutdown() }
                    try await gateway.run()
                }
            } catch {
                life.failure = "\(error)"
            }
            life.hasEnded = true
            self.trace.note("end of life \(life.number) \(life.failure ?? "")")
        }
    }

    /// The gateway's process dies, or the machine loses power.
    func crash(_ kind: CrashKind) {
        guard let life else { return }
        trace.note("crash of life \(life.number) (\(kind))\(life.turns.isAtWork ? " while it writes" : "")")
        book.count(kind == .power ? .powerLoss : .crash)
        if life.turns.isAtWork { book.reach(.diedWhileWriting) }
        let before = steady
        life.turns.kill()
        scheduler.dropEverything()
        disk.crash(kind)
        for platform in platforms { platform.forgetUnderWay() }
        self.life = nil
        hangUp()
        book.stopped(steady: before)
        book.disturb(scheduler.now)
    }

    /// Every client finds its connection closed.
    func hangUp() {
        let open = connections
        (connections, readers) = ([], [])
        for connection in open { connection.end() }
    }

    /// What an operator's SIGTERM does.
    func terminate() {
        guard let life, let shutDown = life.shutDown, life.stopped == nil else { return }
        trace.note("SIGTERM")
        life.stopped = scheduler.now
        book.disturb(scheduler.now)
        shutDown()
    }

    /// Puts another configuration in force.
    func reload(_ variant: Int) {
        guard let life, let gateway = life.gateway, life.stopped == nil else { return }
        if variant == 2 { book.forgetDevices() }
        if variant == 1 || variant == 2 { for platform in platforms { platform.forgetQuiet() } }
        self.variant = variant
        trace.note("reload of variant \(variant)")
        do {
            try gateway.reload(snapshot(life))
        } catch {
            book.fail("a reload was refused: \(error)")
        }
    }

    /// The configuration: all three backends; without beta; without gamma; with a rate.
    private func snapshot(_ life: Life) -> GatewaySnapshot {
        var configuration = GatewayConfiguration()
        configuration.queue.drain = .seconds(Self.drain)
        configuration.queue.firstRetry = .seconds(2)
        configuration.queue.maximumRetry = .seconds(60)
        let gone = variant == 1 ? "beta" : variant == 2 ? "gamma" : ""
        let names = platforms.map(\.name).filter { $0 != gone }
        configuration.routes = Self.allPlans.compactMap { name, plan in
            var plan = plan
            plan.backends.removeAll { $0 == gone }
            return plan.backends.isEmpty ? nil : GatewayConfiguration.Route(name: name, plan: plan)
        }
        let backends = platforms.filter { names.contains($0.name) }.map { platform in
            BackendRegistry.ConfiguredBackend(
                name: platform.name,
                backend: SimulatedBackend(
                    audience: BackendAudience(
                        services: platform.name == "gamma" ? [.androidFirebase] : [.iOSAPNs],
                        forms: [.topic]
                    ),
                    platform: platform,
                    scheduler: scheduler,
                    time: life.time,
                    steady: { life.store?.time.steady ?? life.time.steady },
                    isHarmful: platform.name == "beta",
                    keepsDevices: platform.name == "gamma"
                ),
                maximumInFlight: conditions.window,
                pacing: variant == 3 ? Pacing(perSecond: 20, burst: .seconds(1), urgentShare: 0.3) : nil
            )
        }
        return GatewaySnapshot(configuration: configuration, backends: backends)
    }

    /// How long open sends get at shutdown, in seconds.
    static let drain = 10

    /// The routes by name.
    static let plans: [(String, DeliveryPlan)] = [
        ("alpha", DeliveryPlan(["alpha"])),
        ("beta", DeliveryPlan(["beta"])),
        ("next", DeliveryPlan(["alpha", "beta"], onUnknown: .next)),
        ("stop", DeliveryPlan(["beta", "alpha"], onUnknown: .stop)),
        ("wait", DeliveryPlan(["alpha", "beta"], onUnknown: .wait)),
        ("retry", DeliveryPlan(["beta"], onUnknown: .retry)),
    ]
    private static let allPlans = plans + [devicePlan]

    /// The plan of messages to devices, which have tokens of gamma's.
    static let devicePlan = ("gamma", DeliveryPlan(["gamma"]))
}
