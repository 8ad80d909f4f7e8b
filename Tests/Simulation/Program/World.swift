import PushStoreSQLite

@testable import PushGateway

/// Everything outside of the gateway, which stays when it dies: the disk, the platforms, the clients, the time of day.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class World: @unchecked Sendable {
    let scheduler = Scheduler.shared
    let conditions: Conditions
    let disk: WorldDisk
    let platforms: [SimulatedPlatform]
    let book: Book
    let trace: Trace
    var life: Life?
    var lives = 0
    /// What is configured, see ``snapshot(_:)``.
    var variant = 0
    var connections: [Connection] = []
    var readers: [Connection] = []
    /// What calls of the store brought along, see ``callStore(_:)``.
    var loads: [Load] = []

    init(_ script: Script, trace: Trace) {
        scheduler.begin(seed: script.schedule)
        conditions = Conditions(script.records.first ?? Array(repeating: 0, count: Script.width))
        self.trace = trace
        platforms = ["alpha", "beta", "gamma"].map { SimulatedPlatform($0, trace) }
        disk = WorldDisk(scheduler)
        book = Book(trace)
        trace.scheduler = scheduler
    }

    /// Runs until so much virtual time has passed; a gateway that has ended or died comes back by itself.
    func run(milliseconds: Int) {
        let end = scheduler.now + Int64(milliseconds) * 1_000_000
        while scheduler.now < end, !book.hasFailed { step(until: end) }
    }

    /// Runs so many steps at most.
    func run(steps: Int) {
        for _ in 0..<steps where !book.hasFailed && !scheduler.isIdle { step(until: .max) }
    }

    private var knownTroubles = 0

    private func step(until end: Int64) {
        if scheduler.isIdle || scheduler.chance(300) { tick() }
        if scheduler.isIdle {
            // Nothing goes on before time passes; a second at most, for timers of the event loop.
            var next = min(end, scheduler.now + 1_000_000_000)
            if let wake = life?.time.nextEnd { next = min(next, wake) }
            if let wake = life?.turns.deadline { next = min(next, wake) }
            scheduler.advance(by: max(1, next - scheduler.now))
        }
        life?.time.wake()
        life?.turns.wake()
        _ = scheduler.step()
        if let kind = disk.crashed, life != nil { crash(kind) }
        if disk.troubles != knownTroubles {
            knownTroubles = disk.troubles
            book.disturb(scheduler.now)
        }
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
                let steady = steady
                self.life = nil
                hangUp()
                book.stopped(steady: steady)
                book.disturb(scheduler.now)
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
        if loads.count > Self.mostLoads { loads.removeAll { $0.object == nil } }
        if loads.count > Self.mostLoads {
            book.fail("the store holds more than \(Self.mostLoads) calls that it has answered")
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
}
