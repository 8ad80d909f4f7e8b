import Foundation
import NIOHTTP1
import ChaparComposition
import ChaparCore
import SimulationDisk

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The actions of clients on the gateway.
extension Run {
    /// The users; each has two devices.
    static let users = 3
    private static func devices(of user: Int) -> [String] { ["d\(user)", "d\(user + users)"] }
    private static func user(of device: String) -> Int { (Int(device.dropFirst()) ?? 0) % users }

    func change(device: String, to version: String?) {
        guard world.oracle.devices.begin(device) else { return }
        let body = version.map {
            #"{"user":"u\#(Self.user(of: device))","tokens":{"android-firebase":"\#(device)"},"app_version":"\#($0)"}"#
        }
        world.ask(version == nil ? .DELETE : .PUT, "/v1/devices/\(device)", [], body) { [world] status, answer in
            world.oracle.devices.changed(
                device,
                to: version,
                status: status,
                isOverDatabase: world.database != nil
            )
            guard let status, ![200, 201, 204, 404, 503].contains(status) else { return }
            world.oracle.fail("a change of \(device) is answered with \(status): \(answer.text)")
        }
    }

    private func message(
        _ serial: Int,
        _ recipients: Int,
        _ numbers: [Int],
        device: String? = nil,
        isByToken: Bool = false
    ) -> Submission {
        let (name, plan) = device == nil ? world.plans[numbers[0] % world.plans.count] : World.devicePlan
        let timeToLive = [5, 30, 120, 300, 600][numbers[1] % 5]
        let isUrgent = numbers[2] & 1 != 0
        let hasKey = numbers[2] & 2 != 0
        let isScheduled = numbers[2] % 16 == 12
        let tokens = (0..<recipients).map { #"{"token":"r\#($0)","service":"ios-apns"}"# }.joined(separator: ",")
        let audience =
            device.map {
                isByToken ? #""tokens":[{"token":"\#($0)","service":"android-firebase"}]"# : #""devices":["\#($0)"]"#
            } ?? #""tokens":[\#(tokens)]"#
        var options = #""ttl":\#(timeToLive),"priority":"\#(isUrgent ? "high" : "normal")""#
        if isScheduled, let now = world.incarnation?.time.now {
            options += #","send_at":"\#(RFC3339.string(now.addingTimeInterval(Double(numbers[3] % 60))))""#
        }
        if numbers[2] % 8 == 5 { options += #","collapse_id":"c\#(numbers[3] % 4)""# }
        let body =
            #"{"to":{\#(audience)},"content":{"title":"\#(serial)"},"options":{\#(options)},"route":"\#(name)"}"#
        return Submission(
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

    /// Posts a message; one for a device goes to its token if that is wanted, which an erasure of the user has to find
    /// as well.
    func post(_ recipients: Int, _ numbers: [Int], device: String? = nil, isByToken: Bool = false) {
        let serial = world.oracle.add { message($0, recipients, numbers, device: device, isByToken: isByToken) }
        send(serial, attempts: 3)
    }

    private func send(_ serial: Int, attempts: Int) {
        let message = world.oracle.submissions[serial]
        let fields = message.key.map { [("Idempotency-Key", $0)] } ?? []
        world.ask(.POST, "/v1/notifications", fields, message.body) { [world] status, answer in
            switch status {
            case 202?:
                guard let id = answer["id"]?.stringValue else {
                    return world.oracle.fail("202 without an id: \(answer.text)")
                }
                world.oracle.accepted(serial, id, world)
            case nil, 503?, 409?:
                // Only with a key a repetition is safe.
                if status == 503 { world.oracle.cover(.refusedWhileFull) }
                guard message.key != nil, attempts > 0 else { return }
                world.scheduler.add { self.send(serial, attempts: attempts - 1) }
            case 422?: break  // The route is not configured now.
            case let status?: world.oracle.fail("message \(serial) is answered with \(status): \(answer.text)")
            }
        }
    }

    /// Posts a batch; `isBurst` counts as one when it is answered.
    func postBatch(_ count: Int, _ numbers: [Int], isBurst: Bool = false) {
        let serials = (0..<count).map { index in
            world.oracle.add { message($0, 1, [numbers[0], numbers[1], numbers[2] & 1, 0, 0]) }
        }
        let body = #"{"notifications":[\#(serials.map { world.oracle.submissions[$0].body }.joined(separator: ","))]}"#
        world.ask(.POST, "/v1/notifications/batch", [], body) { [world] status, answer in
            guard status == 202 || status == 207 || status == 200 else {
                if let status, status != 503, status != 422 {
                    world.oracle.fail("a batch is answered with \(status): \(answer.text)")
                }
                return
            }
            if isBurst { world.oracle.count(.burst) }
            let results = answer["notifications"]?.arrayValue ?? answer["results"]?.arrayValue ?? []
            if results.isEmpty { world.oracle.fail("a batch is answered without results: \(answer.text)") }
            for (serial, result) in zip(serials, results) {
                if let id = result["id"]?.stringValue { world.oracle.accepted(serial, id, world) }
            }
        }
    }

    /// Cancels one of the newest messages, the last one without a number.
    func cancel(_ number: Int?) {
        let known = world.oracle.submissions.suffix(20).filter { $0.id != nil && !$0.isAskedToCancel }
        guard !known.isEmpty else { return }
        let message = known[known.startIndex + (number ?? known.count - 1) % known.count]
        guard let id = message.id else { return }
        world.oracle.askToCancel(message.serial)
        world.ask(.DELETE, "/v1/notifications/\(id)") { [world] status, answer in
            guard status == 200 else {
                let isErased = status == 404 && message.device.map(world.oracle.devices.everErased.contains) ?? false
                if let status, status != 503, !isErased {
                    world.oracle.fail("a cancellation is answered with \(status): \(answer.text)")
                }
                return
            }
            guard let inFlight = answer["in_flight"]?.integerValue else {
                return world.oracle.fail("a cancellation is answered without in_flight: \(answer.text)")
            }
            world.oracle.cancelled(message.serial, inFlight: Int(inFlight), world)
        }
    }

    /// Cancels a message during its first attempt, while the disk fails if this is a run in which it does.
    func cancelWhileFailing(_ numbers: [Int]) {
        world.platforms[numbers[2] % 2].set(.unreachable, at: world.scheduler.now)
        post(1, [numbers[2] % 2, 2, 0, 0, 0])
        world.run(steps: 60 + numbers[3] % 200)
        if world.conditions.kinds.contains(.disk) {
            if let database = world.database {
                database.fault([.losing, .cut, .slow][numbers[4] % 3], numbers[4] % 4, node: nil)
            } else {
                world.disk.fault([.shortWrites, .failingSyncs, .full][numbers[4] % 3], calls: 1 + numbers[4] % 4)
            }
            world.isStoreFaultOrdered = true
        }
        cancel(nil)
    }

    /// Kills the gateway while some messages of a batch are with a platform and others wait for a further attempt.
    ///
    /// They were claimed together, at the end of a pause: the ones keep that lease, under which the others were claimed
    /// at first.
    func crashAmidRetries(_ numbers: [Int]) {
        let platform = world.platforms[numbers[3] % 2]
        platform.set(.rateLimited, at: world.scheduler.now)
        post(1, [numbers[3] % 2, 3, 0, 0, 0])
        world.run(milliseconds: 200)
        // Too few for the breaker to open.
        postBatch(4 + numbers[4] % 3, [numbers[3] % 2, 3, 0])
        platform.set(.brownout, at: world.scheduler.now)
        let pause = max(0, (platform.pause?.until ?? 0) - world.scheduler.now)
        world.run(milliseconds: Int(pause / 1_000_000) + 2_000 + numbers[1] % 8 * 500)
        let open = world.oracle.submissions.suffix(6).filter { !$0.isSettled && $0.plan.backends == [platform.name] }
        let held = open.filter { platform.holds($0.key(0)) }
        if !held.isEmpty, open.contains(where: { (platform.offered[$0.key(0)]?.count ?? 0) > 1 }) {
            world.oracle.cover(.diedAmidRetries)
        }
        world.crash(.process)
    }

    /// Leads a message to a refusal that comes after something else: what may have arrived counts as unknown all the
    /// same, and what was refused for good stays refused over a restart.
    func refuseAfterSilence(_ numbers: [Int]) {
        let (alpha, beta) = (world.platforms[0], world.platforms[1])
        let count = 1 + numbers[4] % 3
        switch numbers[3] % 3 {
        case 0:
            // The time to live ends before the next attempt.
            alpha.set(.losing, at: world.scheduler.now)
            post(count, [0, 0, 0, 0, 0])
            world.run(milliseconds: 300)
            alpha.set(.busy, at: world.scheduler.now)
            world.run(milliseconds: 5_000)
        case 1:
            // The next backend refuses what this one may have.
            alpha.set(.losing, at: world.scheduler.now)
            beta.set(.refusing, at: world.scheduler.now)
            post(count, [2, 3, 0, 0, 0])
            world.run(milliseconds: 5_000)
        default:
            // The gateway is killed while what one backend has refused waits for the next one, which is paused.
            beta.set(.rateLimited, at: world.scheduler.now)
            alpha.set(.refusing, at: world.scheduler.now)
            post(1, [1, 3, 0, 0, 0])
            world.run(milliseconds: 200)
            beta.set(.refusing, at: world.scheduler.now)
            post(count, [2, 3, 0, 0, 0])
            world.run(milliseconds: 500)
            world.crash(.process)
        }
    }

    /// Lets syncs forget, kills the gateway, and cuts the power while the next one opens its store or soon afterwards.
    func losePowerAfterForgetting(_ numbers: [Int]) {
        world.disk.fault(.forgettingSyncs, calls: 2 + numbers[3] % 8)
        world.isStoreFaultOrdered = true
        for number in 0..<3 { post(1 + numbers[4] % 4, [numbers[0] + number, 3, 0, 0, 0]) }
        world.run(steps: 60 + numbers[4] % 120)
        world.crash(.process)
        if numbers[1] % 2 == 0 {
            world.disk.crash(.power, inCalls: numbers[0] % 40)
            world.run(steps: 100)
        } else {
            world.run(steps: 300)
            for number in 0..<3 { post(1, [numbers[0] + number, 3, 0, 0, 0]) }
            world.run(steps: 100 + numbers[0] % 100)
            world.crash(.power)
        }
    }

    // MARK: Erasures

    /// More messages than these are never accepted for a user while the erasure goes on, with a disk that works: for
    /// each message that there was before, a few.
    private var mostDuringErasure: Int { 12_000 + 32 * world.oracle.submissions.count }

    /// Requests the erasure of a user for whom deliveries may be under way, and goes on sending to the user meanwhile.
    func erase(user: Int, _ numbers: [Int]) {
        let devices = Self.devices(of: user)
        for device in devices where !world.oracle.devices.isRegistered(device) {
            change(device: device, to: "v\(numbers[0])")
        }
        world.run(steps: 200)
        // Attempts that take a while and are repeated: the erasure meets them while they are claimed.
        if numbers[3] & 2 != 0 { world.platforms[2].set(.unreachable, at: world.scheduler.now) }
        for number in 0..<1 + numbers[1] % 4 {
            post(1, [0, 2, numbers[2], 0, 0], device: devices[number % 2], isByToken: number < 3)
        }
        world.run(steps: 50 + 50 * (numbers[2] % 4))
        guard devices.allSatisfy({ !world.oracle.devices.isChanging($0) }) else { return }
        let registered = devices.filter(world.oracle.devices.isRegistered)
        let erasure = Erasure(faults: world.faults, limit: mostDuringErasure)
        if numbers[3] % 2 == 0 {
            for number in 0..<16 { send(to: devices[number % 2], during: erasure, numbers) }
            world.run(steps: 300 + 100 * (numbers[1] % 8))
            erasure.accepted = 0
        }
        world.oracle.devices.beginErasure(devices)
        let earlier = world.oracle.submissions.filter { submission in
            submission.id != nil && submission.device.map(registered.contains) ?? false
        }
        world.ask(.DELETE, "/v1/users/u\(user)") { [world] status, answer in
            erasure.isOver = true
            let isAnswered = status == 200 || status == 202
            world.oracle.devices.erased(devices, isAnswered: isAnswered)
            if isAnswered {
                guard let deliveries = answer["deliveries"], let inFlight = deliveries["in_flight"]?.integerValue,
                    let cancelled = deliveries["cancelled"]?.integerValue
                else { return world.oracle.fail("an erasure is answered without numbers: \(answer.text)") }
                world.oracle.erased(
                    earlier.map(\.serial),
                    inFlight: Int(inFlight),
                    cancelled: Int(cancelled),
                    world
                )
            } else if let status, status != 503 {
                world.oracle.fail("the erasure of u\(user) is answered with \(status): \(answer.text)")
            }
        }
    }

    /// An erasure that was asked for.
    ///
    /// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
    private final class Erasure: @unchecked Sendable {
        var isOver = false
        /// The number of messages accepted for the user since.
        var accepted = 0
        /// How often the store had failed when it began.
        let faults: Int
        /// How many may be accepted until it is over.
        let limit: Int

        init(faults: Int, limit: Int) { (self.faults, self.limit) = (faults, limit) }
    }

    /// Sends one message after the other to the token of a device, until the erasure of its user is over.
    private func send(to device: String, during erasure: Erasure, _ numbers: [Int]) {
        guard !erasure.isOver else { return }
        let serial = world.oracle.add { message($0, 1, [numbers[4], 2, 0, 0, 0], device: device, isByToken: true) }
        world.ask(.POST, "/v1/notifications", [], world.oracle.submissions[serial].body) { [self] status, answer in
            guard status == 202, let id = answer["id"]?.stringValue else { return }
            world.oracle.accepted(serial, id, world)
            erasure.accepted += 1
            if erasure.accepted > erasure.limit {
                if world.faults == erasure.faults {
                    world.oracle.fail(
                        "an erasure goes on for ever: \(erasure.accepted) messages were accepted meanwhile"
                    )
                }
                return
            }
            world.scheduler.add { [self] in send(to: device, during: erasure, numbers) }
        }
    }
}
