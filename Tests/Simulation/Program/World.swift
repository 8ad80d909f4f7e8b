import Foundation
import Logging
import NIOCore
import NIOHTTP1
import PushCore
import PushComposition
import PushQueue
import ServiceLifecycleTestKit
import SimulationDisk

@testable import PushGateway
@testable import PushStoreSQLite

/// Everything outside of the gateway, which stays when it dies: the disk, the platforms, the clients, the time of day.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class World: @unchecked Sendable {
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

    let scheduler = Scheduler.shared
    let conditions: Conditions
    let disk: WorldDisk
    let platforms: [SimulatedPlatform]
    let book: Book
    let trace: Trace
    private(set) var life: Life?
    private(set) var lives = 0
    /// What is configured, see ``snapshot(_:)``.
    private(set) var variant = 0
    private var connections: [Connection] = []
    private var readers: [Connection] = []

    init(_ script: Script, trace: Trace) {
        scheduler.begin(seed: script.schedule)
        conditions = Conditions(script.records.first ?? Array(repeating: 0, count: Script.width))
        self.trace = trace
        platforms = ["alpha", "beta", "gamma"].map { SimulatedPlatform($0, trace) }
        disk = WorldDisk(scheduler)
        book = Book(trace)
        trace.scheduler = scheduler
    }

    // MARK: The gateway's lives

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
                    notices: NoticeBoard(time: life.time),
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
        book.crashed(steady: before)
    }

    /// Every client finds its connection closed.
    private func hangUp() {
        let open = connections
        (connections, readers) = ([], [])
        for connection in open { connection.end() }
    }

    /// What an operator's SIGTERM does.
    func terminate() {
        guard let life, let shutDown = life.shutDown, life.stopped == nil else { return }
        trace.note("SIGTERM")
        life.stopped = scheduler.now
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

    // MARK: Time

    /// Runs until so much virtual time has passed; a gateway that has ended or died comes back by itself.
    func run(milliseconds: Int) {
        let end = scheduler.now + Int64(milliseconds) * 1_000_000
        while scheduler.now < end, !book.hasFailed { step(until: end) }
    }

    /// Runs so many steps at most.
    func run(steps: Int) {
        for _ in 0..<steps where !book.hasFailed && !scheduler.isIdle { step(until: .max) }
    }

    private func step(until end: Int64) {
        if scheduler.isIdle || scheduler.chance(300) { tick() }
        if scheduler.isIdle {
            // Nothing goes on before time passes; a second at most, for timers of the event loop.
            var next = min(end, scheduler.now + 1_000_000_000)
            for wake in [life?.time.nextEnd, life?.turns.deadline].compactMap({ $0 }) { next = min(next, wake) }
            scheduler.advance(by: max(1, next - scheduler.now))
        }
        life?.time.wake()
        life?.turns.wake()
        _ = scheduler.step()
        if let kind = disk.crashed, life != nil { crash(kind) }
        check()
        revive()
    }

    private func tick() {
        life?.front?.tick()
        book.follow(self)
    }

    /// Starts it again when it is down.
    private func revive() {
        if let life {
            guard life.hasEnded else { return }
            if let failure = life.failure, disk.troubles == life.troubles {
                book.fail("the gateway ended by itself: \(failure)")
            }
            if life.turns.hasEnded || life.store == nil {
                // Over a restart spans follow the wall clock.
                if life.hasJumped { for platform in platforms { platform.forgetQuiet() } }
                self.life = nil
                hangUp()
                book.ended()
            } else {
                return
            }
        }
        start()
    }

    /// What must hold at any moment.
    private func check() {
        for platform in platforms where platform.underWay > conditions.window {
            book.fail("\(platform.name) has \(platform.underWay) messages at a time, more than \(conditions.window)")
        }
        if held.count > Self.mostHeld { held.removeAll { $0.object == nil } }
        if held.count > Self.mostHeld {
            book.fail("the store holds more than \(Self.mostHeld) calls that it has answered")
        }
        for platform in platforms { if let complaint = platform.complaint { book.fail(complaint) } }
        if let life, let stopped = life.stopped, !life.hasEnded,
            scheduler.now > stopped + Int64(Self.drain + 5) * 1_000_000_000
        {
            book.fail(
                "SIGTERM was \((scheduler.now - stopped) / 1_000_000_000) s ago, and the gateway still runs: \(life.front?.state ?? "no front"), \(life.turns.word), \(life.time.word)"
            )
        }
    }

    /// Sets the wall clock on or back.
    func jump(by seconds: Double) {
        life?.hasJumped = true
        scheduler.jump(by: seconds)
    }

    // MARK: Clients

    /// Two owners of one delivery, as code that embeds a store may have: what the first one says after its claim is over changes nothing.
    func contend() {
        guard let store = life?.store, life?.gateway != nil else { return }
        Task {
            let id = store.makeID(recipients: 1)
            book.ignore(id.description)
            let now = store.time.steady
            let new = NewNotification(
                id: id,
                notification: PushNotification(title: "two owners"),
                content: Array(#"{"content":{"title":"two owners"}}"#.utf8),
                recipients: [.topic("t")],
                plan: DeliveryPlan(["delta"]),
                caller: "",
                acceptedAt: now,
                expiresAt: now.addingTimeInterval(30),
                event: Array("{}".utf8)
            )
            let silent: @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8] = { _, _, _ in [] }
            guard case .accepted? = try? await store.enqueue(EnqueueBatch([new])),
                let first = try? await store.claim(lane: "delta", limit: 1, normal: 1, patience: .zero).first,
                first.notificationID == id,
                (try? await store.record([Resolution(of: first, .retry(at: store.time.steady, step: 0))], event: silent))
                    != nil,
                let second = try? await store.claim(lane: "delta", limit: 1, normal: 1, patience: .seconds(1)).first,
                second.id == first.id
            else { return }
            try? await store.record([Resolution(of: first, .end(.failed))], event: silent)
            guard (try? await store.record([Resolution(of: second, .end(.acceptedByPlatform))], event: silent)) != nil,
                let found = try? await store.notification(id)
            else { return }
            book.reach(.staleOwnerRefused)
            if found.counts != [.acceptedByPlatform: 1] {
                book.fail("an owner whose claim was over ended a delivery: \(found.counts)")
            }
        }
    }

    /// What calls bring along, to see that the store lets go of them when they are answered.
    private final class Load: Sendable {}
    private struct Held {
        weak var object: Load?
    }

    private var held: [Held] = []
    private static let mostHeld = 40

    /// Calls the store as code does that embeds it: each call brings something along that nobody needs after the answer.
    func callStore(_ count: Int) {
        guard let store = life?.store, life?.gateway != nil else { return }
        for _ in 0..<count {
            Task {
                let load = Load()
                let unknown = NotificationID(rawValue: 1)
                _ = try? await store.cancel(unknown) { _, _ in withExtendedLifetime(load) { [] } }
                held.append(Held(object: load))
            }
        }
    }

    /// The steady time of the store, which goes on over restarts; nil while it is down.
    var steady: Date? { life?.store?.time.steady }

    /// Asks the gateway; nil is no answer, since it was not there or went away.
    func ask(
        _ method: HTTPMethod,
        _ path: String,
        _ fields: [(String, String)] = [],
        _ body: String? = nil,
        _ done: @escaping (_ status: Int?, _ answer: JSONValue) -> Void
    ) {
        connections.removeAll { $0.isClosed }
        guard let connection = connections.first(where: { !$0.isBusy }) ?? connect() else { return done(nil, .null) }
        var status: Int?
        var bytes: [UInt8] = []
        connection.send(method, path, fields, body.map { Array($0.utf8) }) { part in
            switch part {
            case .head(let head): status = Int(head.status.code)
            case .body(let buffer): bytes += buffer.readableBytesView
            case .end:
                self.trace.note("\(method) \(path) \(status ?? 0) \(body?.suffix(40) ?? "")")
                done(status, (try? JSONValue(parsing: bytes)) ?? .null)
            }
        } onEnd: {
            done(nil, .null)
        }
    }

    private func connect() -> Connection? {
        guard let connection = life?.front?.connect() else { return nil }
        connections.append(connection)
        return connection
    }

    /// A client that listens to events.
    func listen(after number: Int64?, onPart: @escaping (HTTPClientResponsePart) -> Void, onEnd: @escaping () -> Void)
        -> Connection?
    {
        guard let connection = life?.front?.connect() else { return nil }
        let fields = number.map { [("Last-Event-ID", "\($0)")] } ?? []
        connection.send(.GET, "/v1/events", fields, nil, onPart: onPart, onEnd: onEnd)
        return connection
    }

    /// A client that opens a stream and never reads.
    func openIdleReader() {
        guard let connection = listen(after: 0, onPart: { _ in }, onEnd: {}) else { return }
        connection.isReading = false
        readers.append(connection)
    }

    /// The idle readers read again, or go.
    func releaseReaders(reading: Bool) {
        for reader in readers {
            if reading { reader.isReading = true } else { reader.close() }
        }
        readers = []
    }
}
