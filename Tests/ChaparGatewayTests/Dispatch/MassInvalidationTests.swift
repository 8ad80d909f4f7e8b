import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

extension InvalidationGuard {
    mutating func add(
        answers: Int,
        uncertain: Int,
        certain: Int,
        callers: [String: AnswerCounts.Dead] = [:],
        at now: TimeReading
    ) -> Verdict {
        add(
            AnswerCounts(
                answers: answers,
                dead: AnswerCounts.Dead(uncertain: uncertain, certain: certain),
                callers: callers
            ),
            at: now
        )
    }

    mutating func count(answers: Int, uncertain: Int, certain: Int, at now: TimeReading) {
        count(AnswerCounts(answers: answers, dead: AnswerCounts.Dead(uncertain: uncertain, certain: certain)), at: now)
    }

    /// Notes doubtful answers of some callers.
    fileprivate mutating func add(_ callers: [String: Int], of answers: Int, at now: Date) -> Verdict {
        add(
            answers: answers,
            uncertain: callers.values.reduce(0, +),
            certain: 0,
            callers: callers.mapValues { AnswerCounts.Dead(uncertain: $0) },
            at: TimeReading(now)
        )
    }
}

@Suite("Doubt about dead-token answers", .timeLimit(.minutes(1)))
struct InvalidationGuardTests {
    private static let now = Date(timeIntervalSince1970: 1_790_000_000)

    private func guarding(_ change: (inout GatewayConfiguration.InvalidationGuard) -> Void = { _ in })
        -> InvalidationGuard
    {
        var settings = GatewayConfiguration.InvalidationGuard()
        change(&settings)
        return InvalidationGuard(settings)
    }

    @Test(
        "begins above the share, and not before there are enough answers",
        arguments: [(49, 49, false), (50, 15, false), (50, 16, true), (1000, 300, false), (1000, 301, true)]
    )
    func share(answers: Int, dead: Int, trips: Bool) {
        var state = guarding()
        let verdict = state.add(answers: answers, uncertain: dead, certain: 0, at: TimeReading(Self.now))
        #expect((verdict != .invalidate) == trips)
        #expect((state.trip != nil) == trips)
    }

    @Test(
        "bears more of the answers that only a dead token explains",
        arguments: [
            (100, 0, 80, false), (100, 0, 81, true), (100, 30, 60, false), (100, 31, 0, true), (49, 0, 49, false),
        ]
    )
    func certain(answers: Int, uncertain: Int, certain: Int, trips: Bool) {
        var state = guarding()
        let verdict = state.add(answers: answers, uncertain: uncertain, certain: certain, at: TimeReading(Self.now))
        #expect((verdict != .invalidate) == trips)
        #expect(state.trip.map { $0.certain == certain && $0.dead == certain + uncertain } ?? !trips)
    }

    @Test("takes back all of the window, also when the clock was set meanwhile", arguments: [-86400.0, -1, 1, 86400])
    func clockWasSet(jump: Double) {
        var state = guarding()
        #expect(state.add(answers: 49, uncertain: 49, certain: 0, at: TimeReading(Self.now)) == .invalidate)
        let steady = Self.now.addingTimeInterval(100)
        let later = TimeReading(steady: steady, wall: steady.addingTimeInterval(jump), offset: jump)
        guard case .trip(let trip) = state.add(answers: 1, uncertain: 1, certain: 0, at: later) else {
            Issue.record("50 of 50 did not trip it")
            return
        }
        #expect(trip.since < Self.now)
        #expect(trip.at == later.wall)
    }

    @Test("looks at the window only: what is older does not count")
    func window() {
        var state = guarding()
        #expect(state.add(answers: 49, uncertain: 49, certain: 0, at: TimeReading(Self.now)) == .invalidate)
        #expect(
            state.add(answers: 49, uncertain: 1, certain: 0, at: TimeReading(Self.now.addingTimeInterval(301)))
                == .invalidate
        )
        #expect(
            state.add(answers: 1, uncertain: 0, certain: 0, at: TimeReading(Self.now.addingTimeInterval(302)))
                == .invalidate
        )
        var fast = guarding()
        #expect(fast.add(answers: 49, uncertain: 49, certain: 0, at: TimeReading(Self.now)) == .invalidate)
        guard
            case .trip(let trip) = fast.add(
                answers: 1,
                uncertain: 1,
                certain: 0,
                at: TimeReading(Self.now.addingTimeInterval(200))
            )
        else {
            Issue.record("50 of 50 did not trip it")
            return
        }
        #expect(trip.since < Self.now)
        #expect(trip.answers == 50 && trip.dead == 50)
    }

    @Test("holds everything until it is settled; a release is trusted for a window, a discard is not")
    func settling() {
        var state = guarding()
        _ = state.add(answers: 100, uncertain: 100, certain: 0, at: TimeReading(Self.now))
        #expect(
            state.add(answers: 1000, uncertain: 0, certain: 0, at: TimeReading(Self.now.addingTimeInterval(10_000)))
                == .quarantine
        )
        state.reset(isTrusting: true, at: Self.now)
        #expect(
            state.add(answers: 100, uncertain: 100, certain: 0, at: TimeReading(Self.now.addingTimeInterval(299)))
                == .invalidate
        )
        state.reset(isTrusting: false, at: Self.now)
        guard case .trip = state.add(answers: 100, uncertain: 100, certain: 0, at: TimeReading(Self.now)) else {
            Issue.record("after a discard it counts anew")
            return
        }
    }

    /// A guard of a backend whose platform has accepted a message.
    private func proven() -> InvalidationGuard {
        var state = guarding()
        state.noteAcceptance(under: "", at: Self.now)
        return state
    }

    @Test("is about one caller only where it alone is the cause; the others are believed, and the backend goes on")
    func oneCaller() {
        var state = proven()
        #expect(state.add(["shop": 2], of: 60, at: Self.now) == .invalidate)
        guard case .quarantineCaller("spammer", let trip) = state.add(["spammer": 100], of: 100, at: Self.now) else {
            Issue.record("100 dead tokens of one caller are not held")
            return
        }
        #expect(trip.answers == 160 && trip.dead == 102)
        #expect(state.trip == nil)
        #expect(state.doubt.covers("spammer") && !state.doubt.covers("shop") && !state.doubt.covers(""))
        #expect(state.add(["spammer": 1_000, "shop": 1], of: 1_010, at: Self.now) == .invalidate)
        #expect(state.sums.answers == 70 && state.sums.dead.total == 3, "what is held does not count")
        state.reset(isTrusting: false, at: Self.now)
        #expect(state.doubt == .callers([]))
    }

    @Test(
        "is about all where one caller is not the cause",
        arguments: [
            ["shop": 50, "bank": 50], ["": 100], ["": 60, "shop": 60],
        ]
    )
    func severalCallers(dead: [String: Int]) {
        var state = proven()
        let named = dead.filter { !$0.key.isEmpty }
        let verdict = state.add(
            answers: 150,
            uncertain: dead.values.reduce(0, +),
            certain: 0,
            callers: named.mapValues { AnswerCounts.Dead(uncertain: $0) },
            at: TimeReading(Self.now)
        )
        guard case .trip = verdict else {
            Issue.record("\(dead) of 150 gave \(verdict)")
            return
        }
        #expect(state.doubt == .all)
    }

    @Test("is about all when a second caller follows within the window, and nothing was accepted in between")
    func secondCaller() {
        for (later, accepted, trips) in [(100.0, nil, true), (301, nil, false), (100, 50.0, false)] {
            var state = proven()
            _ = state.add(["a": 60], of: 60, at: Self.now)
            #expect(state.doubt == .callers(["a"]))
            if let accepted { state.noteAcceptance(under: "", at: Self.now.addingTimeInterval(accepted)) }
            _ = state.add(["b": 60], of: 60, at: Self.now.addingTimeInterval(later))
            #expect(state.doubt == (trips ? .all : .callers(["a", "b"])))
        }
    }

    @Test("is about all as long as the platform has accepted nothing under this configuration")
    func nothingAccepted() {
        var fresh = guarding()
        _ = fresh.add(["shop": 100], of: 160, at: Self.now)
        #expect(fresh.doubt == .all)
        var reloaded = proven()
        reloaded.adopt(identity: "another")
        reloaded.noteAcceptance(under: "", at: Self.now)  // What is still under way at the old one.
        _ = reloaded.add(["shop": 100], of: 160, at: Self.now)
        #expect(reloaded.doubt == .all)
    }

    @Test("tells no more than so many callers apart, and has room again when the window is over")
    func bound() {
        var state = proven()
        for number in 0..<1_000 { _ = state.add(["k\(number)": 1], of: 100, at: Self.now) }
        #expect(state.sums.callers.count == AnswerCounts.mostCallers)
        #expect(state.sums.dead.total == 1_000)
        let later = Self.now.addingTimeInterval(301)
        #expect(state.add(["new": 1], of: 100, at: later) == .invalidate)
        #expect(state.sums.callers == ["new": AnswerCounts.Dead(uncertain: 1)])
    }

    @Test("can be switched off")
    func off() {
        var state = guarding { $0.isEnabled = false }
        #expect(state.add(answers: 1000, uncertain: 1000, certain: 0, at: TimeReading(Self.now)) == .invalidate)
    }

    @Test("survives a clock that goes back")
    func clock() {
        var state = guarding()
        #expect(state.add(answers: 49, uncertain: 0, certain: 0, at: TimeReading(Self.now)) == .invalidate)
        #expect(
            state.add(answers: 1, uncertain: 1, certain: 0, at: TimeReading(Self.now.addingTimeInterval(-10_000)))
                == .invalidate
        )
    }

    @Test("has its verdicts on tokens carried out in their order, for all callers")
    func order() async {
        for _ in 0..<10 {
            let watch = InvalidationWatch("a", guarding())
            let carried = Recorder<String>()
            await withTaskGroup(of: Void.self) { tasks in
                for _ in 0..<100 {
                    tasks.addTask {
                        watch.add(
                            AnswerCounts(answers: 1, dead: AnswerCounts.Dead(uncertain: 1)),
                            at: TimeReading(Self.now)
                        ) { verdict, _ in
                            usleep(.random(in: 0...1_000))  // Others overtake it, unless they are kept waiting.
                            switch verdict {
                            case .invalidate: carried.add("bury")
                            case .trip: carried.add("trip")
                            case .quarantine: carried.add("hold")
                            case .quarantineCaller: carried.add("hold one")
                            }
                        }
                    }
                }
            }
            let expected = Array(repeating: "bury", count: 49) + ["trip"] + Array(repeating: "hold", count: 50)
            #expect(carried.all == expected)
        }
    }

    @Test("is kept over a restart byte by byte")
    func stored() throws {
        let trip = InvalidationGuard.Trip(
            at: Self.now,
            since: Self.now.addingTimeInterval(-301),
            answers: 60,
            dead: 59,
            certain: 3
        )
        #expect(InvalidationGuard.Trip(stored: trip.stored) == trip)
        #expect(InvalidationGuard.Trip(stored: Array("{}".utf8)) == nil)
    }
}

@Suite("A platform that declares every token dead", .timeLimit(.minutes(2)))
struct MassInvalidationTests {
    private static let devices = 200
    private static let plan = DeliveryPlan(["a"])

    /// Refuses all until it is mended.
    private static func backend(_ time: ManualTime, _ isMended: @escaping @Sendable () -> Bool = { false })
        -> ScriptedBackend
    {
        ScriptedBackend([.iOSAPNs]) { _, _ in
            if isMended() { return .accepted(Acceptance(status: 200)) }
            return .refused(
                Refusal(
                    .token,
                    reason: "Unregistered",
                    status: 410,
                    advice: .never,
                    invalidation: Refusal.Invalidation(asOf: time.now, isCertain: true)
                )
            )
        }
    }

    private static func register(_ rig: DispatcherRig) async throws -> [Recipient] {
        for number in 0..<devices {
            try await rig.register("d\(number)", [("token-\(number)", .iOSAPNs)], ago: 60)
        }
        return (0..<devices).map { .device("d\($0)") }
    }

    private static func alive(_ rig: DispatcherRig) async throws -> Int {
        let found = try await rig.store.devices((0..<devices).map { "d\($0)" })
        return found.values.count { $0.liveToken(of: .iOSAPNs) != nil }
    }

    /// Runs a gateway whose platform refuses every token until it stands still; then `body`.
    private static func tripped(
        _ backend: (ManualTime) -> ScriptedBackend = { MassInvalidationTests.backend($0) },
        _ body: (DispatcherRig, [Recipient]) async throws -> Void
    ) async throws {
        let time = ManualTime()
        let rig = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(["a": backend(time)]) {
            let recipients = try await register(rig)
            // Before the limit is reached every verdict is believed, and taken back afterwards.
            for recipient in recipients.prefix(60) { try await rig.accept([recipient], plan: plan) }
            try await rig.until { rig.dispatcher.workers.first?.areInvalidationsQuarantined == true }
            try await rig.until { try await alive(rig) == devices }
            try await body(rig, recipients)
        }
        await rig.store.close()
    }

    @Test("loses no device: the worker stands still, whatever time passes, and an event says why")
    func nothingIsLost() async throws {
        try await Self.tripped { rig, recipients in
            let id = try await rig.accept([recipients[100]], plan: Self.plan)
            rig.time.advance(by: .seconds(600))
            try await rig.expect(id, [.queued: 1])
            #expect(try await Self.alive(rig) == Self.devices)
            #expect(rig.dispatcher.workers.first?.breaker.status == .open)
            let doubt = try #require(rig.dispatcher.invalidations?.trippedGuards.first)
            #expect(doubt.backend == "a")
            #expect(doubt.explanation.contains("wrong environment"))
            try await rig.until { try await rig.eventTypes().contains("backend.invalidations_held") }
        }
    }

    /// Takes every token but those that begin with `bad`.
    private static func picky(_ time: ManualTime) -> ScriptedBackend {
        ScriptedBackend([.iOSAPNs]) { addressee, _ in
            guard case .token(let token) = addressee.recipient, token.value.hasPrefix("bad") else {
                return .accepted(Acceptance(status: 200))
            }
            return .refused(
                Refusal(
                    .token,
                    reason: "BadDeviceToken",
                    status: 400,
                    advice: .never,
                    invalidation: Refusal.Invalidation(asOf: time.now, isCertain: false)
                )
            )
        }
    }

    @Test("stops nothing when they are one key's: its tokens are quarantined, over a restart too, and all else goes on")
    func oneKey() async throws {
        let time = ManualTime()
        let rig = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let spam = (0..<100).map { Recipient.device("bad\($0)") }
        try await rig.run(["a": Self.picky(time)]) {
            for number in 0..<100 { try await rig.register("bad\(number)", [("bad\(number)", .iOSAPNs)], ago: 60) }
            for number in 0..<20 { try await rig.register("good\(number)", [("good\(number)", .iOSAPNs)], ago: 60) }
            try await rig.register("gone", [("bad-gone", .iOSAPNs)], ago: 60)
            let good = (0..<20).map { Recipient.device("good\($0)") }
            let before = try await rig.accept(good, plan: Self.plan, caller: "shop")
            try await rig.expect(before, [.acceptedByPlatform: 20])
            let dead = try await rig.accept(spam, plan: Self.plan, caller: "spammer")
            try await rig.expect(dead, [.failed: 100])
            #expect(rig.dispatcher.workers.first?.areInvalidationsQuarantined == false)
            #expect(rig.dispatcher.workers.first?.undecidedCallers == 1)
            let after = try await rig.accept(good, plan: Self.plan, caller: "shop")
            try await rig.expect(after, [.acceptedByPlatform: 20])
            try await rig.until { try await rig.store.quarantined().first?.count == 100 }
            let gone = try await rig.accept([.device("gone")], plan: Self.plan, caller: "shop")
            try await rig.expect(gone, [.failed: 1])
            try await rig.until { try await rig.store.device("gone")?.liveToken(of: .iOSAPNs) == nil }
        }
        await rig.store.close()
        let second = try await DispatcherRig(time: time, folder: rig.folder)
        try await second.run(["a": Self.picky(time)]) {
            try await second.until { second.dispatcher.workers.first?.undecidedCallers == 1 }
            let again = try await second.accept(spam, plan: Self.plan, caller: "spammer")
            try await second.expect(again, [.failed: 100])
            #expect(second.dispatcher.workers.first?.areInvalidationsQuarantined == false)
            #expect(try await second.dispatcher.invalidations?.resolve("a", .discard) == 100)
            #expect(second.dispatcher.workers.first?.undecidedCallers == 0)
        }
        await second.store.close()
    }

    @Test("goes on with every token after the verdicts are discarded")
    func discard() async throws {
        let isMended = Mutex(false)
        try await Self.tripped {
            Self.backend($0) { isMended.withLock { $0 } }
        } _: { rig, recipients in
            let id = try await rig.accept(recipients, plan: Self.plan)
            isMended.withLock { $0 = true }
            let tokens = try await rig.dispatcher.invalidations?.resolve("a", .discard)
            #expect((tokens ?? 0) >= 50)
            try await rig.expect(id, [.acceptedByPlatform: Self.devices])
            #expect(try await rig.store.quarantined().isEmpty)
            try await rig.until { try await rig.eventTypes().contains("backend.invalidations_discarded") }
        }
    }

    @Test("has its tokens invalidated when an operator confirms it, each with an event, and later ones too")
    func release() async throws {
        try await Self.tripped { rig, recipients in
            let tokens = try await rig.dispatcher.invalidations?.resolve("a", .confirm) ?? 0
            #expect(tokens >= 50)
            #expect(try await Self.alive(rig) <= Self.devices - tokens)
            let id = try await rig.accept(recipients, plan: Self.plan)
            try await rig.expect(id, [.failed: Self.devices])
            try await rig.until { try await Self.alive(rig) == 0 }
            #expect(rig.dispatcher.workers.first?.areInvalidationsQuarantined == false)
            try await rig.until {
                try await rig.eventTypes().count { $0 == "device.token_invalidated" } >= Self.devices
            }
        }
    }

    @Test("loses no device when its answers come from many threads at once")
    func manyThreads() async throws {
        try await DispatcherRig.run(["a": ScriptedBackend { _, _ in nil }]) { rig in
            let desk = try #require(rig.dispatcher.invalidations)
            _ = try await Self.register(rig)
            for round in 0..<20 {
                let backend = "many-\(round)"
                let watch = await desk.watch(backend, GatewayConfiguration.InvalidationGuard())
                let now = rig.time.now
                await withTaskGroup(of: Void.self) { tasks in
                    for number in 0..<Self.devices {
                        tasks.addTask {
                            let token = DeviceToken("token-\(number)", service: .iOSAPNs)
                            let refusal = TokenRefusal(
                                token,
                                asOf: now,
                                at: now,
                                backend: backend,
                                reason: "dead",
                                isCertain: false
                            )
                            _ = desk.receive([refusal], answers: 1, watch, at: TimeReading(now))
                        }
                    }
                }
                try await rig.until { desk.backlog == 0 }
                #expect(desk.trippedGuards.contains { $0.backend == backend })
                #expect(try await Self.alive(rig) == Self.devices)
                #expect(try await desk.resolve(backend, .discard) == Self.devices)
            }
        }
    }

    @Test("leaves nothing held of what is refused while an operator settles it")
    func refusedMeanwhile() async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        _ = try await Self.register(rig)
        let meanwhile = Mutex<(@Sendable () -> Void)?>(nil)
        let desk = TokenInvalidation(
            devices: rig.store,
            state: rig.store,
            time: rig.time,
            observer: SilentObserver(),
            logger: quiet
        ) { events in
            // It has looked for what is held once more, and found none.
            guard events.isEmpty else { return }
            let refuse = meanwhile.withLock { refuse in
                defer { refuse = nil }
                return refuse
            }
            refuse?()
        }
        let watch = await desk.watch("a", GatewayConfiguration.InvalidationGuard())
        let now = rig.time.now
        let refuse = { @Sendable (numbers: Range<Int>) in
            let refusals = numbers.map {
                TokenRefusal(
                    DeviceToken("token-\($0)", service: .iOSAPNs),
                    asOf: now,
                    at: now,
                    backend: "a",
                    reason: "dead"
                )
            }
            _ = desk.receive(refusals, answers: refusals.count, watch, at: TimeReading(now))
        }
        async let running: Void = desk.run()
        refuse(0..<100)
        meanwhile.withLock { $0 = { refuse(100..<110) } }
        #expect(try await desk.resolve("a", .confirm) == 100)
        #expect(meanwhile.withLock { $0 == nil }, "nothing came meanwhile")
        #expect(try await desk.resolve("a", .discard) == 0, "are held, and nothing says so")
        #expect(try await Self.alive(rig) == Self.devices - 110)
        desk.finish()
        await running
        await rig.store.close()
    }

    @Test("is still doubted after a restart")
    func restart() async throws {
        let time = ManualTime()
        let first = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: first.folder) }
        try await first.run(["a": Self.backend(time)]) {
            let recipients = try await Self.register(first)
            try await first.accept(recipients, plan: Self.plan)
            try await first.until { first.dispatcher.workers.first?.areInvalidationsQuarantined == true }
        }
        await first.store.close()
        let second = try await DispatcherRig(time: time, folder: first.folder)
        let before = Self.backend(time)
        try await second.run(["a": before]) {
            try await second.until { second.dispatcher.workers.first?.areInvalidationsQuarantined == true }
            let id = try await second.accept([.device("d1")], plan: Self.plan)
            time.advance(by: .seconds(600))
            try await second.expect(id, [.queued: 1])
            #expect(try await Self.alive(second) == Self.devices)
            second.dispatcher.install(DispatcherRig.snapshot(["a": Self.backend(time)]))
            try await second.until { before.isShutDown }
            #expect(second.dispatcher.workers.first?.areInvalidationsQuarantined == true, "a reload settles nothing")
        }
        await second.store.close()
    }
}
