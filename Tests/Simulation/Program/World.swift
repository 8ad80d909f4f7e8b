import NIOCore
import ChaparComposition
import ChaparStoreSQLite
import SimulationDisk

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The environment of the gateway, which stays when it crashes: the disk, the platforms, the clients, the wall clock.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class World: @unchecked Sendable {
    let scheduler = Scheduler.shared
    let conditions: Conditions
    let disk: FaultyDisk
    /// The routes of messages to tokens, by name.
    let plans: [(String, DeliveryPlan)]
    /// The database, in a run that has one.
    let database: SimulatedDatabase?
    let platforms: [SimulatedPlatform]
    let oracle: Oracle
    let trace: Trace
    var incarnation: Incarnation?
    var incarnations = 0
    /// The second gateway, in a run that has a database and webhooks.
    var peer: Peer?
    /// When the second gateway is started again, once it has ended.
    var peerDue: Int64 = 0
    /// Second gateways that were killed: their tasks stay suspended.
    var lostPeers: [Peer] = []
    /// The number of the configuration, see ``snapshot(_:)``.
    var variant = 0
    var connections: [ClientConnection] = []
    var readers: [ClientConnection] = []
    /// The reports that platforms have still to make.
    var callbacks: [Callback] = []
    /// A client that reads the events beside the oracle; nil until one came.
    var secondReader: SecondReader?
    /// The values that went with calls of the store, see ``callStore(_:)``.
    var loads: [Load] = []

    init(_ script: Script, trace: Trace) {
        scheduler.begin(seed: script.schedule)
        conditions = script.conditions
        self.trace = trace
        platforms = ["alpha", "beta", "gamma"].map { SimulatedPlatform($0, trace) }
        plans = Self.plans(escalating: script.escalates)
        disk = FaultyDisk(scheduler)
        database = script.isOverDatabase ? SimulatedDatabase(scheduler) : nil
        oracle = Oracle(trace)
        trace.scheduler = scheduler
        platforms[0].onTake = { [unowned self] in report($0) }
        for platform in platforms {
            platform.onMeeting = { [oracle] behavior in
                if let fault = Self.fault(of: behavior) { oracle.count(fault, isEarlierOrder: true) }
            }
        }
    }

    /// Runs until so much virtual time has passed; a gateway that has ended or crashed is started again.
    func run(milliseconds: Int) {
        let end = scheduler.now + Int64(milliseconds) * 1_000_000
        while scheduler.now < end, !oracle.hasFailed { step(until: end) }
    }

    /// Runs so many steps at most.
    func run(steps: Int) {
        for _ in 0..<steps where !oracle.hasFailed && !scheduler.isIdle { step(until: .max) }
    }

    /// The fault that a behaviour of a platform is.
    static func fault(of behavior: SimulatedPlatform.Behavior) -> Oracle.Fault? {
        switch behavior {
        case .hanging: .hanging
        case .flapping: .flapping
        case .late: .lateAnswer
        case .repeating: .repeatedAnswer
        case .brownout: .brownout
        default: nil
        }
    }

    /// Whether something was ordered to go wrong with the store, and no call has met it yet.
    var isStoreFaultOrdered = false
    private var knownFaults = 0
    /// The number of the store's faults so far.
    var faults: Int { disk.faults + (database?.faults ?? 0) }

    private func step(until end: Int64) {
        if scheduler.isIdle || scheduler.chance(300) { tick() }
        if scheduler.isIdle {
            // Nothing goes on before time passes; a second at most, for timers of the event loop.
            var next = min(end, scheduler.now + 1_000_000_000)
            if let wake = incarnation?.time.nextEnd { next = min(next, wake) }
            if let wake = incarnation?.threads.deadline { next = min(next, wake) }
            if let wake = database?.nextEnd { next = min(next, wake) }
            if let wake = nextOfPeer { next = min(next, wake) }
            scheduler.advance(by: max(1, next - scheduler.now))
        }
        incarnation?.time.wake()
        incarnation?.threads.wake()
        if conditions.hasWebhooks { wakePeer() }
        // What a dead gateway had claimed comes now.
        if database?.wake() == true { oracle.disturb(scheduler.now) }
        _ = scheduler.step()
        if let kind = database?.hasCrashed == true ? .process : disk.crashed, incarnation != nil { crash(kind) }
        if faults != knownFaults {
            knownFaults = faults
            oracle.disturb(scheduler.now)
            if isStoreFaultOrdered { oracle.count(.diskFault) }
            isStoreFaultOrdered = false
        }
        check()
        restartIfEnded()
    }

    private func tick() {
        incarnation?.server?.tick()
        oracle.follow(self)
        secondReader?.follow(self)
        sendCallbacks()
    }

    /// Starts it again when it is down.
    private func restartIfEnded() {
        if let incarnation {
            guard incarnation.hasEnded else { return }
            if let failure = incarnation.failure, faults == incarnation.faults {
                oracle.fail("the gateway ended by itself: \(failure)")
            }
            if incarnation.threads.hasEnded || incarnation.store == nil || database != nil {
                // Over a restart spans follow the wall clock, but where the database keeps the time.
                if incarnation.hasJumped, database == nil { for platform in platforms { platform.forgetPause() } }
                let steady = steady
                disconnectClients()
                self.incarnation = nil
                oracle.stopped(steady: steady)
                oracle.disturb(scheduler.now)
            } else {
                return
            }
        }
        start()
    }

    /// Checks the promises that hold at any moment.
    private func check() {
        for platform in platforms where platform.underWay > conditions.window {
            oracle.fail(
                "\(platform.name) has \(platform.underWay) submissions at a time, more than \(conditions.window)"
            )
        }
        if loads.count > Self.mostLoads { loads.removeAll { $0.object == nil } }
        if loads.count > Self.mostLoads {
            oracle.fail("the store holds more than \(Self.mostLoads) calls that it has answered")
        }
        for platform in platforms { if let complaint = platform.complaint { oracle.fail(complaint) } }
        checkReaders()
        if let incarnation, let stopped = incarnation.stopped, !incarnation.hasEnded,
            scheduler.now > stopped + Int64(Self.drain + 5) * 1_000_000_000
        {
            oracle.fail(
                "SIGTERM was \((scheduler.now - stopped) / 1_000_000_000) s ago, and the gateway still runs: \(incarnation.server?.state ?? "no server"), \(incarnation.threads.summary), \(incarnation.time.summary)"
            )
        }
    }

    /// A client that does not read what is written to it is cut off.
    private func checkReaders() {
        for reader in readers {
            guard let since = reader.blockedSince else { continue }
            if !reader.isNoticed { oracle.count(.idleReader) }
            reader.isNoticed = true
            if reader.isClosedByServer {
                oracle.cover(.slowReaderClosed)
            } else if NIODeadline.now() - since > .seconds(Self.longestWrite) {
                oracle.fail("a connection is kept whose client has read nothing for \(Self.longestWrite) s")
            }
        }
        readers.removeAll { $0.isClosedByServer }
    }

    /// More seconds than a client may leave unread what is written to it: 30, and what the event loop needs to find
    /// out.
    private static let longestWrite: Int64 = 35

    /// Whether the wall clock was ever set: over a restart spans follow it, such as that for which keys are known.
    private(set) var hasJumped = false

    /// Sets the wall clock on or back.
    func jump(by seconds: Double) {
        hasJumped = true
        incarnation?.hasJumped = true
        if incarnation?.gateway != nil { oracle.count(.clockJump) }
        scheduler.jump(by: seconds)
    }
}
