import Foundation
import Logging
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import ServiceLifecycleTestKit
import SimulationDisk

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer
@testable import ChaparStoreSQLite

extension World {
    /// One incarnation of the gateway, from a start to its end.
    final class Incarnation: @unchecked Sendable {
        let number: Int
        let time: VirtualTime
        let threads: SimulatedThreads
        var store: (any NotificationStore & DeviceStore & OutboxStore)?
        /// Its number as a node of the database.
        var node: Int64?
        var gateway: Gateway?
        var server: SimulatedServer?
        var metrics: GatewayMetrics?
        var shutDown: (() -> Void)?
        var stopped: Int64?
        var hasEnded = false
        var failure: String?
        /// Whether the wall clock was set while it lived.
        var hasJumped = false
        /// The number of the store's faults when it began.
        var faults = 0

        init(_ number: Int, _ scheduler: Scheduler) {
            self.number = number
            time = VirtualTime(scheduler)
            threads = SimulatedThreads(scheduler)
        }
    }

    /// Starts a gateway on what the disk has.
    func start() {
        incarnations += 1
        let incarnation = Incarnation(incarnations, scheduler)
        self.incarnation = incarnation
        trace.record("start of incarnation \(incarnations)")
        disk.begin(incarnation.threads, pauses: conditions.pauses)
        incarnation.faults = faults
        var options = SQLiteStoreOptions(path: disk.path)
        options.threads = incarnation.threads
        options.windowCapacity = conditions.memory
        options.pageSize = max(4, conditions.memory / 8)
        options.rowsPerCommit = conditions.commit
        options.cacheBytes = 256 << 10
        options.eventsInMemory = 64
        options.pageBytes = 1024
        options.rowsPerScan = 8
        options.checkpointPages = 100
        options.freeBytes = disk.freeBytes
        let logger = trace.logger
        let snapshot = snapshot(incarnation)
        startPeer(snapshot)
        Task { [options] in
            do {
                let store: any NotificationStore & DeviceStore & OutboxStore
                if let database = self.database {
                    let opened = database.open(incarnation.time)
                    incarnation.node = opened.number
                    store = opened
                } else {
                    store = try SQLiteStore(options, time: incarnation.time, logger: logger)
                }
                incarnation.store = store
                let metrics = GatewayMetrics()
                incarnation.metrics = metrics
                let gateway = try await Gateway(
                    snapshot,
                    store: store,
                    knownKinds: ["simulated"],
                    notices: EventSink(time: incarnation.time),
                    time: nil,
                    metrics: metrics,
                    logger: logger,
                    planning: { [scheduler] work in scheduler.add(work) },
                    mostOfCampaign: conditions.memory,
                    webhookTransport: conditions.hasWebhooks ? SimulatedHooks(self, incarnation.time) : nil
                ) { api in
                    let server = SimulatedServer(api, logger)
                    incarnation.server = server
                    return server
                }
                incarnation.gateway = gateway
                try await testGracefulShutdown { trigger in
                    incarnation.shutDown = { trigger.triggerGracefulShutdown() }
                    try await gateway.run()
                }
            } catch {
                incarnation.failure = "\(error)"
            }
            incarnation.hasEnded = true
            self.trace.record("end of incarnation \(incarnation.number) \(incarnation.failure ?? "")")
        }
    }

    /// The gateway's process is killed, or the machine loses power.
    func crash(_ kind: CrashKind) {
        guard let incarnation else { return }
        // A crash that was ordered for a call of the disk has come when that call was made.
        let isWriting = incarnation.threads.isAtWork || disk.crashed != nil || database?.isWriting == true
        trace.record("crash of incarnation \(incarnation.number) (\(kind))\(isWriting ? " while it writes" : "")")
        oracle.count(kind == .power ? .powerLoss : .crash)
        if isWriting { oracle.coverDeathWhileWriting() }
        let before = steady
        incarnation.threads.kill()
        scheduler.dropEverything()
        killPeer()  // Its tasks were among them.
        if let node = incarnation.node { database?.forget(node) }
        disk.crash(kind)
        for platform in platforms { platform.forgetUnderWay() }
        disconnectClients()
        self.incarnation = nil
        oracle.stopped(steady: before)
        oracle.disturb(scheduler.now)
    }

    /// Every client finds its connection closed.
    func disconnectClients() {
        (connections, readers) = ([], [])
        secondReader?.disconnect()
        // It has those too that are closed already, and whose clients were to hear of it at the next turn of the loop.
        incarnation?.server?.disconnect()
    }

    /// Does the work of an operator's SIGTERM.
    func terminate() {
        guard let incarnation, let shutDown = incarnation.shutDown, incarnation.stopped == nil else { return }
        trace.record("SIGTERM")
        oracle.count(.restart)
        incarnation.stopped = scheduler.now
        oracle.disturb(scheduler.now)
        shutDown()
    }

    /// Puts another configuration in force.
    func reload(_ variant: Int) {
        guard let incarnation, let gateway = incarnation.gateway, incarnation.stopped == nil else { return }
        if variant == 2 { oracle.devices.forget() }
        if variant == 1 || variant == 2 { for platform in platforms { platform.forgetPause() } }
        self.variant = variant
        trace.record("reload of variant \(variant)")
        do {
            try gateway.reload(snapshot(incarnation))
            oracle.count(.reload)
        } catch {
            oracle.fail("a reload was refused: \(error)")
        }
    }

    /// The configuration: all three backends; without beta; without gamma; with a rate.
    func snapshot(_ incarnation: Incarnation) -> GatewaySnapshot {
        var configuration = GatewayConfiguration()
        configuration.isKeyless = true
        configuration.queue.drain = .seconds(Self.drain)
        configuration.queue.firstRetry = .seconds(2)
        configuration.queue.maximumRetry = .seconds(60)
        if conditions.hasWebhooks {
            configuration.apps = [.default, AppName(rawValue: "other")]
            configuration.store.eventRetention = .seconds(30 * 86_400)
        }
        let gone = variant == 1 ? "beta" : variant == 2 ? "gamma" : ""
        let names = platforms.map(\.name).filter { $0 != gone }
        configuration.routes = (plans + [Self.devicePlan]).compactMap { name, plan in
            plan.filtered { $0 != gone }.map { GatewayConfiguration.Route(name: name, plan: $0) }
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
                    time: incarnation.time,
                    steady: { incarnation.store?.time.steady ?? incarnation.time.steady },
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

    /// The seconds for which a message waits for a report before beta takes over.
    static let escalationWait = 10

    /// Returns the routes by name; beta may take over where alpha reports no arrival.
    static func plans(escalating: Bool) -> [(String, DeliveryPlan)] {
        var next = DeliveryPlan(["alpha", "beta"], onUnknown: .next)
        if escalating { next.escalation = Escalation(step: 1, after: .seconds(escalationWait)) }
        return [
            ("alpha", DeliveryPlan(["alpha"])),
            ("beta", DeliveryPlan(["beta"])),
            ("next", next),
            ("stop", DeliveryPlan(["beta", "alpha"], onUnknown: .stop)),
            ("wait", DeliveryPlan(["alpha", "beta"], onUnknown: .wait)),
            ("retry", DeliveryPlan(["beta"], onUnknown: .retry)),
        ]
    }

    /// The plan of messages to devices, which have tokens of gamma's.
    static let devicePlan = ("gamma", DeliveryPlan(["gamma"]))
}
