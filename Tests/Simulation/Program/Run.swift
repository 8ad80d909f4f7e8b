import Foundation
import NIOCore
import NIOHTTP1
import ChaparCore
import ChaparQueue

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer
import ChaparStoreSQLite
import SimulationDisk

/// One run of a script: the actions with whatever they cause, then the healing, then what must be true.
struct Run {
    /// The result of one run.
    struct Result {
        var failure: String?
        var hash: UInt64
        var steps: Int
        var faults: [Oracle.Fault: Int]
        var reached: Set<Oracle.Coverage>
        /// Messages that were accepted.
        var accepted: Int
        /// Deliveries that a platform has accepted, by the events.
        var delivered: Int
    }

    /// A fault of the harness's own, for the tests of what judges a run.
    enum Bend: String, CaseIterable {
        /// A failure where a reload comes after a burst, for the test of the shrinker.
        case toy
        /// At rest the store fails to say what waits.
        case failingDepths
        /// At rest the store never says what waits.
        case silentDepths
        /// At rest what is asked of an erasure is answered with 503.
        case unavailableErasures
        /// At rest no event of an erasure comes.
        case silentEvents
        /// At rest what settles invalidations is answered with 503.
        case unavailableInvalidations
        /// At rest the second reader lacks the last event.
        case readerBehind
        /// At rest the gateway is not told to end.
        case deafEnd
    }

    let world: World
    private let script: Script
    let trace: Trace
    let bend: Bend?
    /// No run is shorter.
    static let fewestSteps = 2_000

    /// Runs a script, as it is or bent.
    static func result(of script: Script, trace: Trace = Trace(), bend: Bend? = nil) -> Result {
        Run(world: World(script, trace: trace), script: script, trace: trace, bend: bend).result()
    }

    private func result() -> Result {
        troubleFirstStart()
        world.start()
        world.run(milliseconds: 100)
        addWebhooks()
        var hasBurst = false
        for record in script.records.dropFirst() where !world.oracle.hasFailed {
            let action = Action(record, world.conditions)
            trace.record("action \(action)")
            if Self.disturbs(action.kind) { world.oracle.disturb(world.scheduler.now) }
            carryOut(action)
            hasBurst = hasBurst || action.kind == .burst
            if bend == .toy, action.kind == .reload, hasBurst { world.oracle.fail("a toy") }
            world.run(steps: world.scheduler.draw(below: 60))
        }
        if !world.oracle.hasFailed { heal() }
        world.disk.remove()
        return Result(
            failure: world.oracle.failure,
            hash: trace.hash,
            steps: world.scheduler.steps,
            faults: world.oracle.faults,
            reached: world.oracle.reached,
            accepted: world.oracle.accepted,
            delivered: world.oracle.delivered
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
            for part in 0..<4 {
                postBatch(50, numbers.map { $0 + part }, isBurst: part == 0)
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
            // A device without tokens is removed from the platform.
            if platform.behavior == .invalidating, platform.name == "gamma" { world.oracle.devices.forget() }
            // Often none would come before it does something else.
            if World.fault(of: platform.behavior) != nil, numbers[3] % 2 == 1 {
                let (place, device) = (numbers[0] % world.platforms.count, "d\(numbers[4] % 6)")
                if platform.name == "gamma" {
                    post(1, [0, 3, 0, 0, 0], device: device)
                } else {
                    post(1 + numbers[4] % 3, [place, 3, 0, 0, 0])
                }
            }
        case .crash: if numbers[2] % 3 == 0 { crashAmidRetries(numbers) } else { crash(.process, numbers) }
        case .powerLoss:
            if numbers[2] % 3 == 0, world.database == nil {
                losePowerAfterForgetting(numbers)
            } else {
                crash(.power, numbers)
            }
        case .restart: world.terminate()
        case .clock:
            // Over a restart the waits of webhooks follow the wall clock: they end within the time that is waited for.
            let spans: [Double] = world.conditions.hasWebhooks ? [1, 30, 600] : [1, 30, 600, 3_600, 86_400]
            let span = spans[numbers[0] % spans.count]
            world.jump(by: numbers[1] % 2 == 0 ? span : -span)
            trace.record("the clock jumps by \(numbers[1] % 2 == 0 ? span : -span) s")
        case .reload: world.reload(numbers[0] % 4)
        case .reader:
            switch numbers[0] % 3 {
            case 0:
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
            world.isStoreFaultOrdered = true
        case .cut: world.cutConnections()
        case .audience: registerAudience(numbers)
        case .campaign: postCampaign(numbers)
        case .campaignControl: control(numbers)
        case .campaignCrash: crashAmidCampaign(numbers)
        case .resend: sendAgain(numbers)
        case .webhook: troubleWebhook(numbers)
        case .webhookCrash: crashAmidWebhooks(numbers)
        case .peer: troublePeer(numbers)
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
        world.isStoreFaultOrdered = true
        if fault == .lapse, world.incarnation?.node != nil { world.oracle.lapse(steady: world.steady) }
        database.fault(fault, numbers[1], node: world.incarnation?.node)
    }

    /// Whether an action may delay messages that have nothing to do with it; of crashes and disk faults the world keeps
    /// the times itself.
    private static func disturbs(_ kind: Action.Kind) -> Bool {
        switch kind {
        case .reload: true
        default: false
        }
    }
}
