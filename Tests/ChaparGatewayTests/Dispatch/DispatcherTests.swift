import Foundation
import ChaparCore
import ChaparQueue
import ChaparComposition
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Dispatcher", .timeLimit(.minutes(2)))
struct DispatcherTests {
    private static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p-1", status: 200))

    private static func refused(_ advice: Refusal.Advice, _ kind: Refusal.Kind = .platform) -> DeliveryOutcome {
        .refused(Refusal(kind, reason: "Reason", status: 400, advice: advice))
    }

    @Test("Every recipient gets its own end, and the counts add up")
    func everyRecipient() async throws {
        let backend = ScriptedBackend { addressee, _ in
            switch addressee.recipient {
            case .topic("good"): Self.accepted
            case .topic("dead"): Self.refused(.never, .token)
            case .topic("lost"): .unknown(UnknownOutcome(reason: "deadline", isRepeatHarmful: true))
            default: nil
            }
        }
        try await DispatcherRig.run(["a": backend]) { rig in
            let id = try await rig.accept(["good", "dead", "lost"])
            try await rig.expect(id, [.acceptedByPlatform: 1, .failed: 1, .unknown: 1])
            let story = try await rig.attemptLog(id)
            #expect(story.count == 1)
            #expect(story[0]["outcome"] == "accepted")
            #expect(story[0]["platform_id"] == "p-1")
            #expect(story[0]["backend"] == "a")
        }
        #expect(backend.isShutDown)
    }

    @Test("A refusal for now is tried again after its wait, not before, under the same message id")
    func retry() async throws {
        let backend = ScriptedBackend { _, attempt in
            attempt == 1 ? Self.refused(.retry(after: .seconds(30))) : Self.accepted
        }
        var queue = GatewayConfiguration.Queue()
        queue.firstRetry = .milliseconds(1)
        try await DispatcherRig.run(["a": backend], queue: queue) { rig in
            let id = try await rig.accept()
            try await rig.expect(id, [.retrying: 1])
            rig.time.advance(by: .seconds(29))
            try await rig.expect(id, [.retrying: 1])
            #expect(backend.attempts(.topic("t")).count == 1)
            rig.time.advance(by: .seconds(2))
            try await rig.expect(id, [.acceptedByPlatform: 1])
            let attempts = backend.attempts(.topic("t"))
            #expect(attempts.count == 2)
            #expect(attempts[0].messageID == attempts[1].messageID)
            #expect(attempts.map(\.isReplay) == [false, false])
            #expect(try await rig.attemptLog(id).map { $0["outcome"] } == ["refused", "accepted"])
        }
    }

    @Test("After no answer the next attempt says that it may be the second")
    func replay() async throws {
        let backend = ScriptedBackend { _, attempt in
            attempt == 1 ? .unknown(UnknownOutcome(reason: "deadline")) : Self.accepted
        }
        try await DispatcherRig.run(["a": backend]) { rig in
            let id = try await rig.accept()
            try await rig.expect(id, [.retrying: 1])
            rig.time.advance(by: .seconds(11))
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(backend.attempts(.topic("t")).map(\.isReplay) == [false, true])
        }
    }

    @Test("A delivery without a reported outcome is unknown, and is tried again")
    func silence() async throws {
        let backend = ScriptedBackend { _, attempt in attempt == 1 ? nil : Self.accepted }
        try await DispatcherRig.run(["a": backend]) { rig in
            let id = try await rig.accept()
            try await rig.expect(id, [.retrying: 1])
            rig.time.advance(by: .seconds(11))
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(try await rig.attemptLog(id).first?["reason"] == "not_reported")
        }
    }

    @Test("A refusal for good goes on to the next backend of the plan")
    func fallback() async throws {
        let first = ScriptedBackend { _, _ in Self.refused(.never, .token) }
        let second = ScriptedBackend { _, _ in Self.accepted }
        try await DispatcherRig.run(["a": first, "b": second]) { rig in
            let id = try await rig.accept(plan: DeliveryPlan(["a", "b"]))
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(try await rig.attemptLog(id).map { $0["backend"] } == ["a", "b"])
            #expect(first.attempts(.topic("t")).count == 1)
        }
    }

    @Test("A parked backend is probed one message at a time, and goes on with all when one is taken")
    func park() async throws {
        let isMended = Mutex(false)
        let backend = ScriptedBackend { _, _ in
            isMended.withLock { $0 } ? Self.accepted : Self.refused(.parkBackend, .account)
        }
        try await DispatcherRig.run(["a": backend]) { rig in
            let id = try await rig.accept((0..<20).map { "t\($0)" })
            try await rig.expect(id, [.retrying: 20])
            #expect(rig.dispatcher.workers.first?.isParked == true)
            isMended.withLock { $0 = true }
            rig.time.advance(by: .seconds(16))
            try await rig.expect(id, [.acceptedByPlatform: 20])
            #expect(rig.dispatcher.workers.first?.isParked == false)
            try await rig.until {
                let events = try await rig.store.events(after: 0, limit: 100, wait: .zero)
                let types = try events.compactMap { try JSONValue(parsing: $0.json)["type"]?.stringValue }
                return types.contains("backend.parked") && types.contains("backend.resumed")
            }
        }
    }

    /// A platform that stands still for one message gives the others back within 2 s: see `StrayAnswerTests` for the
    /// rows.
    @Test(
        "One odd answer among a thousand stops no other message for longer than 2 s",
        arguments: [Refusal.Advice.slowBackend(after: nil), .parkBackend]
    )
    func strayAnswer(advice: Refusal.Advice) async throws {
        let odd = Refusal(.account, reason: "Odd", detail: "What the operator is to do.", status: 429, advice: advice)
        let backend = ScriptedBackend { addressee, attempt in
            addressee.recipient == .topic("t7") && attempt == 1 ? .refused(odd) : Self.accepted
        }
        let log = RecordedLog()
        let rig = try await DispatcherRig(logger: log.logger)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let narrow = BackendRegistry.ConfiguredBackend(name: "a", backend: backend, maximumInFlight: 8)
        try await rig.run(GatewaySnapshot(configuration: .keyless, backends: [narrow])) {
            let id = try await rig.accept((0..<1_000).map { "t\($0)" })
            try await rig.until { backend.attempts(.topic("t7")).count == 1 }
            var counts: [DeliveryState: Int]?
            let end = rig.time.steady.addingTimeInterval(2)
            while rig.time.steady < end {
                rig.time.advance(by: .milliseconds(100))
                var looks = 0
                try await eventually("the others are accepted, or twenty looks", every: .milliseconds(1)) {
                    if looks == 20 || counts?[.acceptedByPlatform] ?? 0 >= 999 { return true }
                    counts = try await rig.store.notification(id)?.counts
                    looks += 1
                    return false
                }
            }
            try await rig.until { try await rig.store.notification(id)?.counts[.acceptedByPlatform] ?? 0 >= 999 }
        }
        await rig.store.close()
        // It stands in the log once, with the advice.
        let said = log.lines.filter {
            $0.contains("the platform slows the backend") || $0.contains("backend is parked, an operator must act")
        }
        #expect(said.count == 1, "\(said)")
        let isParked = advice == .parkBackend
        #expect(said.first?.contains(isParked ? "backend is parked" : "the platform slows the backend") == true)
        #expect(said.first?.contains("Odd") == true)
        #expect(said.first?.contains("What the operator is to do.") == true)
    }

    /// A backend whose credential has ended by its dates.
    private struct DatedBackend: BackendWrapper {
        let wrapped: any PushBackend
        static let problem = Refusal(
            .account,
            reason: "certificate_expired",
            detail: "It expired. Renew it.",
            advice: .parkBackend
        )

        func credentialProblem(at now: Date) -> Refusal? { Self.problem }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            for (row, request) in requests.enumerated() {
                report(
                    request.recipients.indices.map {
                        DeliveryReport(request: row, recipient: $0, outcome: .refused(Self.problem))
                    }
                )
            }
        }
    }

    @Test("A backend whose credential has ended is parked from the start on, says so once, and stops no other")
    func outOfDate() async throws {
        let log = RecordedLog()
        let rig = try await DispatcherRig(logger: log.logger)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let expired = DatedBackend(wrapped: ScriptedBackend { _, _ in Self.accepted })
        try await rig.run(["a": expired, "b": ScriptedBackend { _, _ in Self.accepted }]) {
            try await rig.until { rig.dispatcher.workers.first?.isParked == true }
            let worker = try #require(rig.dispatcher.workers.first)
            #expect(worker.pauseReason == "certificate_expired")
            #expect(worker.health(BackendHealth()).status == .down)
            #expect(worker.health(BackendHealth()).detail?.contains("Renew it.") == true)
            let waiting = try await rig.accept(["x"])
            let sent = try await rig.accept(["y"], plan: DeliveryPlan(["b"]))
            try await rig.expect(sent, [.acceptedByPlatform: 1])
            try await rig.until {
                rig.time.advance(by: .milliseconds(100))
                return try await rig.store.notification(waiting)?.counts == [.retrying: 1]
            }
            try await rig.until { try await rig.eventTypes().contains("backend.parked") }
        }
        #expect(log.lines.count { $0.contains("backend is parked") && $0.contains("Renew it.") } == 1)
        await rig.store.close()
    }

    /// A platform that answers nothing, and is shut down only together with another one.
    private final class PairedBackend: PushBackend {
        let kind: BackendKind = "paired"
        let audience = BackendAudience(forms: [.topic])
        private let pair: Pair

        final class Pair: Sendable {
            private let waiting = Mutex<[CheckedContinuation<Void, Never>]>([])

            func meet() async {
                await withCheckedContinuation { continuation in
                    let all = waiting.withLock { waiting in
                        waiting.append(continuation)
                        guard waiting.count == 2 else { return [CheckedContinuation<Void, Never>]() }
                        defer { waiting = [] }
                        return waiting
                    }
                    for one in all { one.resume() }
                }
            }

            var count: Int { waiting.withLock { $0.count } }

            func letGo() {
                for one in waiting.withLock({ waiting in
                    defer { waiting = [] }
                    return waiting
                }) { one.resume() }
            }
        }

        let calls = Mutex(0)
        private let isShut = Atomic(false)

        init(_ pair: Pair) { self.pair = pair }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            calls.withLock { $0 += 1 }
            try? await ManualTime().sleep(for: .seconds(1))  // Until it is cancelled.
        }

        func shutdown(grace: Duration) async {
            guard grace == .zero, !isShut.exchange(true, ordering: .sequentiallyConsistent) else { return }
            await pair.meet()
        }
    }

    @Test("A drain closes its backends side by side: one that takes its time keeps no other waiting")
    func drainTogether() async throws {
        let pair = PairedBackend.Pair()
        let (one, two) = (PairedBackend(pair), PairedBackend(pair))
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let running = Task { try await rig.dispatcher.run(DispatcherRig.snapshot(["a": one, "b": two])) }
        for name in ["a", "b"] { try await rig.accept(plan: DeliveryPlan([name], onUnknown: .stop)) }
        try await rig.until { one.calls.withLock { $0 } == 1 && two.calls.withLock { $0 } == 1 }
        rig.dispatcher.stop()
        try await rig.untilEnd(of: running) { pair.letGo() }
        await rig.store.close()
    }

    /// A plugin of which one part never returns.
    final class EndlessBackend: PushBackend {
        enum Part: CaseIterable { case shutdown, watch, send, all }

        let kind: BackendKind = "endless"
        let audience = BackendAudience(services: [.iOSAPNs], forms: [.topic])
        let part: Part
        let calls = Mutex(0)
        /// Those who wait, so that the test can end.
        private let held = Mutex<[CheckedContinuation<Void, Never>]>([])

        init(_ part: Part) { self.part = part }

        private func hang(in part: Part) async {
            guard self.part == part || self.part == .all else { return }
            await withCheckedContinuation { continuation in held.withLock { $0.append(continuation) } }
        }

        func letGo() {
            for one in held.withLock({ held in
                defer { held = [] }
                return held
            }) { one.resume() }
        }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            calls.withLock { $0 += 1 }
            await hang(in: .send)
            report([DeliveryReport(request: 0, recipient: 0, outcome: .accepted(Acceptance()))])
        }
        func watch() async { await hang(in: .watch) }
        func shutdown(grace: Duration) async { await hang(in: .shutdown) }
    }

    @Test(
        "A plugin that never returns keeps no drain beyond its deadline, nor another backend",
        arguments: EndlessBackend.Part.allCases
    )
    func endlessPlugin(part: EndlessBackend.Part) async throws {
        let (endless, other) = (EndlessBackend(part), ScriptedBackend { _, _ in Self.accepted })
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        var queue = GatewayConfiguration.Queue()
        queue.drain = .seconds(10)
        let snapshot = DispatcherRig.snapshot(["a": endless, "b": other], queue: queue)
        let running = Task { try await rig.dispatcher.run(snapshot) }
        try await rig.accept(plan: DeliveryPlan(["a"], onUnknown: .stop))
        try await rig.until { endless.calls.withLock { $0 } == 1 }
        let stopped = rig.time.now
        rig.dispatcher.stop()
        let ended = Mutex<Date?>(nil)
        async let end: Void = {
            try await running.value
            ended.withLock { $0 = rig.time.now }
        }()
        let result: Result<Void, any Error>
        do {
            try await rig.until {
                rig.time.advance(by: .milliseconds(50))
                return ended.withLock { $0 != nil }
            }
            result = .success(())
        } catch {
            result = .failure(error)
        }
        endless.letGo()  // Else this test would wait for it as well.
        try result.get()
        try await end
        let span = try #require(ended.withLock { $0 }).timeIntervalSince(stopped)
        #expect(span <= 10 + 2 * 3, "queue.drain, and what cancelled work and a shutdown get")
        #expect(other.isShutDown)
        await rig.store.close()
    }

    @Test("A message is sent at its time and ends at its time, wherever it waits")
    func times() async throws {
        let backend = ScriptedBackend { addressee, _ in
            addressee.recipient == .topic("never") ? Self.refused(.retry(after: .seconds(50))) : Self.accepted
        }
        try await DispatcherRig.run(["a": backend]) { rig in
            let scheduled = try await rig.accept(["later"], dueIn: .seconds(60))
            let ending = try await rig.accept(["never"], lives: .seconds(100))
            let stranded = try await rig.accept(["elsewhere"], plan: DeliveryPlan(["gone"]), lives: .seconds(30))
            try await rig.expect(scheduled, [.scheduled: 1])
            try await rig.expect(ending, [.retrying: 1])
            try await rig.expect(stranded, [.queued: 1])
            rig.time.advance(by: .seconds(59))
            try await rig.expect(scheduled, [.scheduled: 1])
            rig.time.advance(by: .seconds(1))
            try await rig.expect(scheduled, [.acceptedByPlatform: 1])
            // In steps: a wait that begins while the clock is moved would miss a single one.
            for id in [stranded, ending] {
                try await rig.until {
                    rig.time.advance(by: .seconds(1))
                    return try await rig.store.notification(id)?.counts == [.expired: 1]
                }
            }
        }
    }

    @Test("A delivery claimed while its backend pauses goes back, and is sent after the pause")
    func standstillDuringALook() async throws {
        let backend = ScriptedBackend { _, _ in .accepted(Acceptance()) }
        try await DispatcherRig.run(["a": backend]) { rig in
            let first = try await rig.accept(["first"])
            try await rig.expect(first, [.acceptedByPlatform: 1])
            try await eventually("the worker waits for work") { try await rig.store.hasOpenClaim(of: "a") }
            let worker = try #require(rig.dispatcher.workersGuarded.withLock { $0.current.first })
            let now = rig.time.steady
            // Without the end of the claim that follows at once elsewhere: the claim may come between the two.
            worker.gate.update { (_ = $0.pause(until: now.addingTimeInterval(60), reason: "Busy"), wakes: false) }
            let second = try await rig.accept(["second"])
            // The open claim took it as it came; it goes back.
            try await rig.until {
                let depth = try await rig.store.depths()["a"]
                return depth?.waiting == 1 && depth?.claimed == 0 && worker.status.inFlight == 0
            }
            #expect(backend.attempts(.topic("second")).isEmpty)
            try await rig.until {
                rig.time.advance(by: .seconds(5))
                return try await rig.store.notification(second)?.counts == [.acceptedByPlatform: 1]
            }
            #expect(rig.time.steady >= now.addingTimeInterval(60))
            #expect(backend.attempts(.topic("second")).count == 1)
        }
    }

    @Test("A reload hands waiting work to the new backend, and the old one ends")
    func reload() async throws {
        let old = ScriptedBackend { _, _ in Self.refused(.retry(after: .seconds(5))) }
        let new = ScriptedBackend { _, _ in Self.accepted }
        try await DispatcherRig.run(["a": old]) { rig in
            let id = try await rig.accept((0..<50).map { "t\($0)" })
            try await rig.expect(id, [.retrying: 50])
            rig.dispatcher.install(DispatcherRig.snapshot(["a": new]))
            try await rig.until { old.isShutDown }
            rig.time.advance(by: .seconds(60))
            try await rig.expect(id, [.acceptedByPlatform: 50])
        }
    }

    @Test("A reload before the first worker stands is not undone by what the start began with")
    func reloadAtStart() async throws {
        let old = ScriptedBackend { _, _ in Self.refused(.never) }
        let new = ScriptedBackend { _, _ in Self.accepted }
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        rig.dispatcher.install(DispatcherRig.snapshot(["a": new]))
        try await rig.run(["a": old]) {
            let id = try await rig.accept(["x"])
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(old.attemptCount == 0)
        }
        await rig.store.close()
    }

    @Test("A start after a death takes everything up; what may have been sent says so, and harm is not repeated")
    func restart() async throws {
        let first = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: first.folder) }
        let id = try await first.accept(["x"], plan: DeliveryPlan(["a"]))
        let call = try await first.accept(["y"], plan: DeliveryPlan(["call"]))
        // The first gateway claims both and dies without a word.
        for backend in ["a", "call"] {
            let claims = try await first.store.claim(backend: backend, limit: 10, wait: .seconds(1))
            #expect(claims.count == 1)
        }
        await first.store.close()

        let second = try await DispatcherRig(time: first.time, folder: first.folder)
        let backend = ScriptedBackend { _, _ in Self.accepted }
        let phone = ScriptedBackend(repeatIsHarmful: true) { _, _ in Self.accepted }
        try await second.run(["a": backend, "call": phone]) {
            try await second.expect(id, [.acceptedByPlatform: 1])
            try await second.expect(call, [.unknown: 1])
        }
        #expect(backend.attempts(.topic("x")).map(\.isReplay) == [true])
        #expect(phone.attempts(.topic("y")).isEmpty)
        await second.store.close()
    }
    @Test("A delivery that a dead owner may have sent is not sent again, although its recipient has to wait")
    func restartWithPause() async throws {
        let phone = ScriptedBackend(repeatIsHarmful: true) { _, _ in Self.accepted }
        try await DispatcherRig.run(["call": phone]) { (rig: DispatcherRig) async throws -> Void in
            try await rig.until { !rig.dispatcher.workers.isEmpty }
            let worker = try #require(rig.dispatcher.workersGuarded.withLock { $0.current.first })
            let now = TimeReading(rig.time.steady)
            worker.flow.pauses.withLock {
                $0.pause(Recipient.topic("t"), until: now.steady.addingTimeInterval(60), at: now.steady)
            }
            func transition(isRecovered: Bool) -> Resolution.Transition? {
                var claim = ClaimedDelivery(
                    id: 1,
                    notificationID: NotificationID(rawValue: 1),
                    content: .decoded(PushNotification()),
                    recipient: .topic("t"),
                    plan: DeliveryPlan(["call"]),
                    acceptedAt: now.steady,
                    expiresAt: now.steady.addingTimeInterval(3600)
                )
                claim.isRecovered = isRecovered
                return worker.withhold(claim, at: now)?.transition
            }
            #expect(transition(isRecovered: false) == .retry(at: now.steady.addingTimeInterval(60), step: 0))
            #expect(transition(isRecovered: true) == .end(.unknown))
        }
    }
}
