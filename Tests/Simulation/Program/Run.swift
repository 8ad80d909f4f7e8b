import Foundation
import NIOCore
import NIOHTTP1
import PushCore
import PushQueue

@testable import PushGateway
import PushStoreSQLite
import SimulationDisk

/// One run of a script: the actions with whatever they cause, then the healing, then what must be true.
struct Run {
    /// What came of a run.
    struct Result {
        var failure: String?
        var hash: UInt64
        var steps: Int
        var faults: [Oracle.Fault: Int]
        var reached: Set<Oracle.Coverage>
    }

    let world: World
    private let script: Script
    private let trace: Trace
    private let isToy: Bool
    private var isPushedOn = false
    /// No run is shorter.
    static let fewestSteps = 2_000

    /// Runs a script; a toy fails where a reload comes after a burst, for the test of the shrinker.
    static func result(of script: Script, trace: Trace = Trace(), isToy: Bool = false) -> Result {
        var run = Run(world: World(script, trace: trace), script: script, trace: trace, isToy: isToy)
        return run.result()
    }

    private mutating func result() -> Result {
        troubleFirstStart()
        world.start()
        world.run(milliseconds: 100)
        for record in script.records.dropFirst() where !world.oracle.hasFailed {
            let action = Action(record, world.conditions)
            trace.record("action \(action)")
            if Self.disturbs(action.kind) { world.oracle.disturb(world.scheduler.now) }
            carryOut(action)
            if isToy, action.kind == .reload, world.oracle.faults[.burst] != nil { world.oracle.fail("a toy") }
            world.run(steps: world.scheduler.draw(below: 60))
        }
        if !world.oracle.hasFailed { heal() }
        world.disk.remove()
        return Result(
            failure: world.oracle.failure,
            hash: trace.hash,
            steps: world.scheduler.steps,
            faults: world.oracle.faults,
            reached: world.oracle.reached
        )
    }

    private func carryOut(_ action: Action) {
        let numbers = action.numbers
        switch action.kind {
        case .wait: world.run(milliseconds: [1, 10, 100, 1_000, 5_000, 20_000, 50_000, 120_000][numbers[0] % 8])
        case .post: post(1, numbers)
        case .postMany: post(2 + numbers[4] % 12, numbers)
        case .batch: postBatch(2 + numbers[4] % 40, numbers)
        case .burst:
            world.oracle.count(.burst)
            for part in 0..<4 {
                postBatch(50, numbers.map { $0 + part })
                world.callStore(30)
                world.raceStaleOwner()
                world.run(steps: 40)
            }
        case .cancel:
            if numbers[1] % 3 == 0 { cancelWhileFailing(numbers) } else { cancel(numbers[0]) }
        case .device: change(device: "d\(numbers[0] % 6)", to: "v\(numbers[1])")
        case .erasure: erase(user: numbers[0] % Self.users, numbers)
        case .deviceRemoval: change(device: "d\(numbers[0] % 6)", to: nil)
        case .devicePost: post(1, numbers, device: "d\(numbers[3] % 6)")
        case .behavior where numbers[2] % 6 == 5: refuseAfterSilence(numbers)
        case .behavior:
            // What happens most to a platform under load.
            let behaviors = SimulatedPlatform.Behavior.allCases + [.brownout, .hanging, .repeating, .flapping]
            let platform = world.platforms[numbers[0] % world.platforms.count]
            platform.set(behaviors[numbers[1] % behaviors.count], at: world.scheduler.now)
            trace.record("\(platform.name) is \(platform.behavior)")
            switch platform.behavior {
            case .hanging: world.oracle.count(.hanging)
            // A device without tokens is removed from the platform.
            case .invalidating: if platform.name == "gamma" { world.oracle.devices.forget() }
            case .flapping: world.oracle.count(.flapping)
            case .late: world.oracle.count(.lateAnswer)
            case .repeating: world.oracle.count(.repeatedAnswer)
            case .brownout: world.oracle.count(.brownout)
            default: break
            }
        case .crash: if numbers[2] % 3 == 0 { crashAmidRetries(numbers) } else { crash(.process, numbers) }
        case .powerLoss:
            if numbers[2] % 3 == 0, world.database == nil {
                losePowerAfterForgetting(numbers)
            } else {
                crash(.power, numbers)
            }
        case .restart:
            world.oracle.count(.restart)
            world.terminate()
        case .clock:
            let span = [1.0, 30, 600, 3_600, 86_400][numbers[0] % 5]
            world.oracle.count(.clockJump)
            world.jump(by: numbers[1] % 2 == 0 ? span : -span)
            trace.record("the clock jumps by \(numbers[1] % 2 == 0 ? span : -span) s")
        case .reload:
            world.oracle.count(.reload)
            world.reload(numbers[0] % 4)
        case .reader:
            switch numbers[0] % 3 {
            case 0:
                world.oracle.count(.idleReader)
                world.openIdleReader()
                world.secondReader?.read(false)
            case 1:
                world.releaseReaders(reading: true)
                world.secondReader = world.secondReader ?? SecondReader(after: world.oracle.lastEvent / 2)
                world.secondReader?.read(true)
            default: world.releaseReaders(reading: false)
            }
        case .disk where world.database != nil: troubleDatabase(numbers)
        case .disk:
            let fault = FaultyDisk.Fault.allCases[numbers[0] % FaultyDisk.Fault.allCases.count]
            world.disk.fault(fault, calls: 1 + numbers[1] % 12)
            world.oracle.count(.diskFault)
        case .cut:
            world.oracle.count(.cut)
            world.cutConnections()
        }
    }

    private func troubleFirstStart() {
        guard let (kind, call) = world.conditions.firstTrouble else { return }
        if let database = world.database {
            if kind == .crash || kind == .powerLoss { database.crash(inCalls: call) }
            return
        }
        switch kind {
        case .crash: world.disk.crash(.process, inCalls: call)
        case .powerLoss: world.disk.crash(.power, inCalls: call)
        case .full: world.disk.fault(.full, inCalls: call)
        case .failingSync: world.disk.fault(.failingSyncs, inCalls: call)
        case .forgettingSync: world.disk.fault(.forgettingSyncs, inCalls: call)
        }
    }

    private func crash(_ kind: CrashKind, _ numbers: [Int]) {
        if numbers[0] % 3 == 0 {
            world.crash(kind)
        } else if let database = world.database {
            database.crash(inCalls: numbers[1] % 60)
        } else {
            world.disk.crash(kind, inCalls: numbers[1] % 60)
        }
    }

    /// Something goes wrong with the database or the way to it.
    func troubleDatabase(_ numbers: [Int]) {
        guard let database = world.database else { return }
        let fault = SimulatedDatabase.Fault.allCases[numbers[0] % SimulatedDatabase.Fault.allCases.count]
        trace.record("trouble with the database: \(fault)")
        world.oracle.count(.diskFault)
        if fault == .lapse { world.oracle.interrupt(steady: world.steady) }
        database.fault(fault, numbers[1], node: world.incarnation?.node)
    }

    // MARK: The end

    /// Everything works again: then every message must end within its time to live and a grace.
    private mutating func heal() {
        trace.record("healing")
        world.disk.heal()
        world.database?.heal()
        world.scheduler.setRight()
        for platform in world.platforms { platform.set(.healthy, at: world.scheduler.now) }
        world.releaseReaders(reading: false)
        world.secondReader?.read(true)
        world.run(milliseconds: 30_000)
        world.reload(0)
        for platform in world.platforms { settleInvalidations(of: platform.name) }
        let end = world.scheduler.now + (600 + 60 + 120) * 1_000_000_000
        while !world.oracle.hasFailed, world.scheduler.now < end,
            !world.oracle.isSettled || world.oracle.devices.difference(from: world.platforms[2]) != nil
                || world.scheduler.steps < Self.fewestSteps
        {
            world.run(milliseconds: 5_000)
            // What is scheduled follows the wall clock: it goes on when the others have had their time.
            if world.scheduler.now > end - 120_000_000_000, !isPushedOn {
                isPushedOn = true
                world.jump(by: 2 * 86_400)
            }
        }
        guard !world.oracle.hasFailed else { return }
        for message in world.oracle.submissions where !message.isSettled {
            guard let id = message.id else { continue }
            world.ask(.GET, "/v1/notifications/\(id)/deliveries") { [trace] _, answer in trace.record(answer.text) }
        }
        world.run(milliseconds: 100)
        world.oracle.judge(world)
        guard !world.oracle.hasFailed else { return }
        checkErasures()
        checkAtRest()
        // A client that does not read must not hold up the end.
        world.openIdleReader()
        world.run(milliseconds: 1_000)
        world.terminate()
        world.run(milliseconds: (World.drain + 6) * 1000)
    }

    /// An operator looks at the tokens that were refused in numbers, and keeps them.
    private func settleInvalidations(of backend: String) {
        world.ask(.POST, "/v1/backends/\(backend)/invalidations", [], #"{"action":"discard"}"#) {
            [world] status, answer in
            if let status, status >= 500 {
                world.oracle.fail("invalidations are settled with \(status): \(answer.text)")
            }
        }
    }

    /// Nothing is known any more of what went to a user alone who was erased.
    private func checkErasures() {
        let erased = world.oracle.submissions.filter { $0.erasedAt != nil }
        guard !erased.isEmpty else { return }
        // What was being sent at the time is made up for within half a minute of its end.
        world.run(milliseconds: 90_000)
        for submission in erased {
            guard let id = submission.id else { continue }
            world.ask(.GET, "/v1/notifications/\(id)") { [world] status, _ in
                if let status, status != 404, status != 503 {
                    world.oracle.fail(
                        "message \(submission.serial) went to a user who was erased, and is answered with \(status)"
                    )
                }
            }
            world.run(milliseconds: 10)
        }
        var frames = EventFrames()
        let serials = Set(erased.map(\.serial))
        let stream = world.listen(after: 0) { [world] part in
            guard case .body(let buffer) = part else { return }
            for event in frames.append(buffer.readableBytesView) {
                guard let title = event.json?["title"]?.stringValue, let serial = Int(title), serials.contains(serial)
                else { continue }
                world.oracle.fail("message \(serial) went to a user who was erased, and its events name it")
            }
        } onEnd: {
        }
        world.run(milliseconds: 3_000)
        stream?.close()
        world.run(milliseconds: 100)
    }

    /// What must hold when nothing is under way.
    private func checkAtRest() {
        world.callbacks = []
        world.run(milliseconds: 2_000)
        if let second = world.secondReader, second.last != world.oracle.lastEvent {
            world.oracle.fail("a second reader has the events to \(second.last) of \(world.oracle.lastEvent)")
        }
        guard let incarnation = world.incarnation, let store = incarnation.store, let metrics = incarnation.metrics
        else { return }
        Task { [world] in
            let depths = (try? await store.depths()) ?? [:]
            let waiting = depths.values.reduce(0) { $0 + $1.waiting + $1.claimed }
            let own = depths.filter { $0.key != "delta" }.values.reduce(0) { $0 + $1.waiting + $1.claimed }
            if own != 0 { world.oracle.fail("\(own) deliveries wait after all have ended") }
            // An acceptance of which no answer came is in the database and not in the counters.
            if world.database == nil, let difference = metrics.ledger.difference(waiting: waiting), difference != 0 {
                world.oracle.fail("the ledger's difference is \(difference)")
            }
            if let held = incarnation.server?.bodyBytes, held != 0 {
                world.oracle.fail("\(held) bytes of bodies are held at rest")
            }
        }
        world.run(milliseconds: 1_000)
    }

    /// Whether an action may delay messages that have nothing to do with it; of crashes and disk faults the world keeps the times itself.
    private static func disturbs(_ kind: Action.Kind) -> Bool {
        switch kind {
        case .reload: true
        default: false
        }
    }
}
