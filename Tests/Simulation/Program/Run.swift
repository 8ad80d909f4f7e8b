import Foundation
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
        var faults: [Book.Fault: Int]
        var reached: Set<Book.Sometimes>
    }

    private let world: World
    private let script: Script
    private let trace: Trace
    private var isPushedOn = false
    /// No run is shorter.
    static let fewestSteps = 2_000

    static func result(of script: Script, trace: Trace = Trace()) -> Result {
        var run = Run(world: World(script, trace: trace), script: script, trace: trace)
        return run.result()
    }

    private mutating func result() -> Result {
        world.start()
        world.run(milliseconds: 100)
        for record in script.records.dropFirst() where !world.book.hasFailed {
            let action = Action(record, world.conditions)
            trace.note("action \(action)")
            if Self.disturbs(action.kind) { world.book.disturb(world.scheduler.now) }
            carryOut(action)
            world.run(steps: world.scheduler.draw(below: 60))
        }
        if !world.book.hasFailed { heal() }
        world.disk.remove()
        return Result(
            failure: world.book.failure,
            hash: trace.hash,
            steps: world.scheduler.steps,
            faults: world.book.faults,
            reached: world.book.reached
        )
    }

    private func carryOut(_ action: Action) {
        let numbers = action.numbers
        switch action.kind {
        case .wait: world.run(milliseconds: [1, 10, 100, 1_000, 5_000, 20_000, 70_000, 200_000][numbers[0] % 8])
        case .post: post(1, numbers)
        case .postMany: post(2 + numbers[4] % 12, numbers)
        case .batch: postBatch(2 + numbers[4] % 40, numbers)
        case .burst:
            world.book.count(.burst)
            for part in 0..<4 {
                postBatch(100, numbers.map { $0 + part })
                world.callStore(30)
                world.contend()
                world.run(steps: 40)
            }
        case .cancel: cancel(numbers[0])
        case .device: change(device: "d\(numbers[0] % 6)", to: "v\(numbers[1])")
        case .deviceRemoval: change(device: "d\(numbers[0] % 6)", to: nil)
        case .devicePost: post(1, numbers, device: "d\(numbers[3] % 6)")
        case .mood:
            let moods = SimulatedPlatform.Mood.allCases
            let platform = world.platforms[numbers[0] % world.platforms.count]
            platform.set(moods[numbers[1] % moods.count], at: world.scheduler.now)
            trace.note("\(platform.name) is \(platform.mood)")
            switch platform.mood {
            case .hanging: world.book.count(.hanging)
            // A device without tokens is removed from the platform.
            case .burying: if platform.name == "gamma" { world.book.forgetDevices() }
            case .flapping: world.book.count(.flapping)
            case .late: world.book.count(.lateAnswer)
            case .repeating: world.book.count(.repeatedAnswer)
            default: break
            }
        case .crash: crash(.process, numbers)
        case .powerLoss: crash(.power, numbers)
        case .restart:
            world.book.count(.restart)
            world.terminate()
        case .clock:
            let span = [1.0, 30, 600, 3_600, 86_400][numbers[0] % 5]
            world.book.count(.clockJump)
            world.jump(by: numbers[1] % 2 == 0 ? span : -span)
            trace.note("the clock jumps by \(numbers[1] % 2 == 0 ? span : -span) s")
        case .reload:
            world.book.count(.reload)
            world.reload(numbers[0] % 4)
        case .reader:
            switch numbers[0] % 3 {
            case 0:
                world.book.count(.idleReader)
                world.openIdleReader()
            case 1: world.releaseReaders(reading: true)
            default: world.releaseReaders(reading: false)
            }
        case .disk:
            var trouble = WorldDisk.Trouble.allCases[numbers[0] % WorldDisk.Trouble.allCases.count]
            if trouble == .forgettingSyncs, world.conditions.kinds.contains(.powerLoss) { trouble = .failingSyncs }
            world.disk.trouble(trouble, calls: 1 + numbers[1] % 12)
            world.book.count(.diskTrouble)
        }
    }

    private func crash(_ kind: CrashKind, _ numbers: [Int]) {
        if numbers[0] % 3 == 0 { world.crash(kind) } else { world.disk.crash(kind, inCalls: numbers[1] % 60) }
    }

    // MARK: What clients do

    private func change(device: String, to version: String?) {
        guard world.book.begin(device) else { return }
        let body = version.map {
            #"{"tokens":{"android-firebase":"\#(device)"},"app_version":"\#($0)"}"#
        }
        world.ask(version == nil ? .DELETE : .PUT, "/v1/devices/\(device)", [], body) { [world] status, answer in
            world.book.changed(device, to: version, status: status)
            guard let status, ![200, 201, 204, 404, 503].contains(status) else { return }
            world.book.fail("a change of \(device) is answered with \(status): \(answer.text)")
        }
    }

    private func message(_ serial: Int, _ recipients: Int, _ numbers: [Int], device: String? = nil) -> Book.Message {
        let (name, plan) = device == nil ? World.plans[numbers[0] % World.plans.count] : World.devicePlan
        let timeToLive = [5, 30, 120, 300, 600][numbers[1] % 5]
        let isUrgent = numbers[2] & 1 != 0
        let hasKey = numbers[2] & 2 != 0
        let isScheduled = numbers[2] % 16 == 12
        let tokens = (0..<recipients).map { #"{"token":"r\#($0)","service":"ios-apns"}"# }.joined(separator: ",")
        let audience = device.map { #""devices":["\#($0)"]"# } ?? #""tokens":[\#(tokens)]"#
        var options = #""ttl":\#(timeToLive),"priority":"\#(isUrgent ? "high" : "normal")""#
        if isScheduled, let now = world.life?.time.now {
            options += #","send_at":"\#(RFC3339.string(now.addingTimeInterval(Double(numbers[3] % 60))))""#
        }
        if numbers[2] % 8 == 5 { options += #","collapse_id":"c\#(numbers[3] % 4)""# }
        let body =
            #"{"to":{\#(audience)},"content":{"title":"\#(serial)"},"options":{\#(options)},"route":"\#(name)"}"#
        return Book.Message(
            serial: serial,
            body: body,
            recipients: recipients,
            device: device,
            timeToLive: timeToLive + (isScheduled ? 60 : 0),
            plan: plan,
            isUrgent: isUrgent,
            isScheduled: isScheduled,
            key: hasKey ? "k\(serial)" : nil
        )
    }

    private func post(_ recipients: Int, _ numbers: [Int], device: String? = nil) {
        let serial = world.book.add { message($0, recipients, numbers, device: device) }
        send(serial, attempts: 3)
    }

    private func send(_ serial: Int, attempts: Int) {
        let message = world.book.messages[serial]
        let fields = message.key.map { [("Idempotency-Key", $0)] } ?? []
        world.ask(.POST, "/v1/notifications", fields, message.body) { [world] status, answer in
            switch status {
            case 202?:
                guard let id = answer["id"]?.stringValue else {
                    return world.book.fail("202 without an id: \(answer.text)")
                }
                world.book.accepted(serial, id, world)
            case nil, 503?, 409?:
                // With a key it may be asked again; without one nobody knows.
                if status == 503 { world.book.reach(.refusedWhileFull) }
                guard message.key != nil, attempts > 0 else { return }
                world.scheduler.add { self.send(serial, attempts: attempts - 1) }
            case 422?: break  // The route is not configured now.
            case let status?: world.book.fail("message \(serial) is answered with \(status): \(answer.text)")
            }
        }
    }

    private func postBatch(_ count: Int, _ numbers: [Int]) {
        let serials = (0..<count).map { place in
            world.book.add { message($0, 1, [numbers[0], numbers[1], numbers[2] & 1, 0, 0]) }
        }
        let body = #"{"notifications":[\#(serials.map { world.book.messages[$0].body }.joined(separator: ","))]}"#
        world.ask(.POST, "/v1/notifications/batch", [], body) { [world] status, answer in
            guard status == 202 || status == 207 || status == 200 else {
                if let status, status != 503, status != 422 {
                    world.book.fail("a batch is answered with \(status): \(answer.text)")
                }
                return
            }
            let results = answer["notifications"]?.arrayValue ?? answer["results"]?.arrayValue ?? []
            if results.isEmpty { world.book.fail("a batch is answered without results: \(answer.text)") }
            for (serial, result) in zip(serials, results) {
                if let id = result["id"]?.stringValue { world.book.accepted(serial, id, world) }
            }
        }
    }

    private func cancel(_ number: Int) {
        let known = world.book.messages.suffix(20).filter { $0.id != nil && !$0.isAskedToCancel }
        guard !known.isEmpty else { return }
        let message = known[known.startIndex + number % known.count]
        guard let id = message.id else { return }
        world.book.askToCancel(message.serial)
        world.book.count(.cancel)
        world.ask(.DELETE, "/v1/notifications/\(id)") { [world] status, answer in
            guard status == 200 else {
                if let status, status != 503 {
                    world.book.fail("a cancellation is answered with \(status): \(answer.text)")
                }
                return
            }
            world.book.cancelled(message.serial, inFlight: Int(answer["in_flight"]?.integerValue ?? 0), world)
        }
    }

    // MARK: The end

    /// Everything works again: then every message must end within its time to live and a grace.
    private mutating func heal() {
        trace.note("healing")
        world.disk.heal()
        world.scheduler.setRight()
        for platform in world.platforms { platform.set(.healthy, at: world.scheduler.now) }
        world.releaseReaders(reading: false)
        world.run(milliseconds: 30_000)
        world.reload(0)
        for platform in world.platforms { settleInvalidations(of: platform.name) }
        let end = world.scheduler.now + (600 + 60 + 120) * 1_000_000_000
        while !world.book.hasFailed, world.scheduler.now < end,
            !world.book.isSettled || !world.book.areDevicesTold(world.platforms[2])
                || world.scheduler.steps < Self.fewestSteps
        {
            world.run(milliseconds: 5_000)
            // What is scheduled follows the wall clock: it goes on when the others have had their time.
            if world.scheduler.now > end - 120_000_000_000, !isPushedOn {
                isPushedOn = true
                world.jump(by: 2 * 86_400)
            }
        }
        guard !world.book.hasFailed else { return }
        for message in world.book.messages where !message.isSettled {
            guard let id = message.id else { continue }
            world.ask(.GET, "/v1/notifications/\(id)/deliveries") { [trace] _, answer in trace.note(answer.text) }
        }
        world.run(milliseconds: 100)
        world.book.judge(world)
        guard !world.book.hasFailed else { return }
        checkAtRest()
        world.terminate()
        world.run(milliseconds: (World.drain + 4) * 1000)
    }

    /// An operator looks at the tokens that were refused in numbers, and keeps them.
    private func settleInvalidations(of backend: String) {
        world.ask(.POST, "/v1/backends/\(backend)/invalidations", [], #"{"action":"discard"}"#) {
            [world] status, answer in
            if let status, status >= 500 { world.book.fail("invalidations are settled with \(status): \(answer.text)") }
        }
    }

    /// What must hold when nothing is under way.
    private func checkAtRest() {
        world.run(milliseconds: 1_000)
        guard let life = world.life, let store = life.store, let metrics = life.metrics else { return }
        Task { [world] in
            let depths = (try? await store.depths()) ?? [:]
            let waiting = depths.values.reduce(0) { $0 + $1.waiting + $1.claimed }
            let own = depths.filter { $0.key != "delta" }.values.reduce(0) { $0 + $1.waiting + $1.claimed }
            if own != 0 { world.book.fail("\(own) deliveries wait after all have ended") }
            if let difference = metrics.ledger.difference(waiting: waiting), difference != 0 {
                world.book.fail("the ledger's difference is \(difference)")
            }
            if let held = life.front?.bodyBytes, held != 0 {
                world.book.fail("\(held) bytes of bodies are held at rest")
            }
        }
        world.run(milliseconds: 1_000)
    }

    /// Whether an action may hold up messages that have nothing to do with it.
    private static func disturbs(_ kind: Action.Kind) -> Bool {
        switch kind {
        case .crash, .powerLoss, .restart, .reload, .disk: true
        default: false
        }
    }
}
