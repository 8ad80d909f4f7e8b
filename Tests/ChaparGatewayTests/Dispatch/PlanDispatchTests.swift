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

/// Says of every message what a test wants.
private struct Tracker: MessageTracker {
    let word: DeliveryState?
    func state(of platformID: String) async throws(PushError) -> DeliveryState? { platformID == "p" ? word : nil }
}

@Suite("A plan in the gateway", .timeLimit(.minutes(2)))
struct PlanDispatchTests {
    private static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p-1", status: 200))
    private static let silence = DeliveryOutcome.unknown(UnknownOutcome(reason: "deadline", platformID: "p"))
    private static let device = [Recipient.device("phone")]
    private static let chain = DeliveryPlan(["a", "b"])

    private static func dead(asOf: Date) -> DeliveryOutcome {
        .refused(
            Refusal(
                .token,
                reason: "Unregistered",
                status: 410,
                advice: .never,
                invalidation: Refusal.Invalidation(asOf: asOf, isCertain: true)
            )
        )
    }

    private static func down() -> DeliveryOutcome {
        .refused(Refusal(.platform, reason: "connect_failed", advice: .retry(after: nil)))
    }

    @Test("gives each backend the device's token of its own service, and passes over one that the device has none for")
    func tokens() async throws {
        let first = ScriptedBackend([.iOSHuawei]) { _, _ in Self.accepted }
        let second = ScriptedBackend([.iOSAPNs, .iOSFirebase]) { _, _ in Self.accepted }
        try await DispatcherRig.run(["a": first, "b": second]) { rig in
            let tokens: [(String, TokenService)] = [("fire", .iOSFirebase), ("apple", .iOSAPNs)]
            try await rig.register("phone", tokens, locale: "fa-IR")
            let id = try await rig.accept(Self.device, plan: Self.chain)
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(first.attemptCount == 0)
            let attempts = second.attempts(.token(DeviceToken("apple", service: .iOSAPNs)))
            #expect(attempts.map(\.language) == ["fa-IR"])
            let story = try await rig.attemptLog(id)
            #expect(story.map { $0["outcome"] } == ["skipped", "accepted"])
            #expect(story[0]["reason"] == "no_token")
            #expect(story[1]["service"] == "ios-apns")
        }
    }

    @Test("tells a backend when the app was seen last: told, or registered since")
    func lastSeen() async throws {
        let backend = ScriptedBackend([.androidFirebase]) { _, _ in Self.accepted }
        try await DispatcherRig.run(["a": backend]) { rig in
            let now = rig.time.now
            let year: TimeInterval = 365 * 86_400
            try await rig.register("untold", [("u", .androidFirebase)], ago: year)
            try await rig.register(
                "away",
                [("w", .androidFirebase)],
                ago: year,
                lastSeen: now.addingTimeInterval(-year / 2)
            )
            try await rig.register("back", [("b", .androidFirebase)], lastSeen: now.addingTimeInterval(-year))
            for (id, token, expected) in [
                ("untold", "u", nil), ("away", "w", now.addingTimeInterval(-year / 2)), ("back", "b", now),
            ] as [(String, String, Date?)] {
                let notification = try await rig.accept([.device(id)], plan: DeliveryPlan(["a"]))
                try await rig.expect(notification, [.acceptedByPlatform: 1])
                let attempt = try #require(backend.attempts(.token(token, service: .androidFirebase)).first)
                #expect(attempt.lastSeen == expected)
            }
        }
    }

    @Test("ends at once, with the reason, for a device that no backend can reach")
    func nobody() async throws {
        let backend = ScriptedBackend { _, _ in Self.accepted }
        try await DispatcherRig.run(["a": backend, "b": backend]) { rig in
            try await rig.register("phone", [("h", .androidHuawei)])
            let id = try await rig.accept(Self.device + [.device("unknown")], plan: Self.chain)
            try await rig.expect(id, [.failed: 2])
            #expect(try await rig.attemptLog(id).map { $0["reason"] } == ["no_token", "no_token"])
            #expect(backend.attemptCount == 0)
        }
    }

    @Test("buries a token that its platform declared dead, and goes on with the device's next one")
    func buries() async throws {
        let time = ManualTime()
        let first = ScriptedBackend([.iOSAPNs]) { _, _ in Self.dead(asOf: time.now) }
        let second = ScriptedBackend([.iOSFirebase]) { _, _ in Self.accepted }
        let rig = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(["a": first, "b": second]) {
            try await rig.register("phone", [("apple", .iOSAPNs), ("fire", .iOSFirebase)], ago: 60)
            let id = try await rig.accept(Self.device, plan: Self.chain)
            try await rig.expect(id, [.acceptedByPlatform: 1])
            try await rig.until { try await rig.store.device("phone")?.liveToken(of: .iOSAPNs) == nil }
            #expect(second.attempts(.token(DeviceToken("fire", service: .iOSFirebase))).count == 1)
            // The next message does not try the dead token again.
            let later = try await rig.accept(Self.device, plan: Self.chain)
            try await rig.expect(later, [.acceptedByPlatform: 1])
            #expect(try await rig.attemptLog(later).map { $0["outcome"] } == ["skipped", "accepted"])
            #expect(first.attemptCount == 1)
            try await rig.until { try await rig.eventTypes().contains("device.token_invalidated") }
        }
        await rig.store.close()
    }

    @Test("leaves a token alone that was registered after the platform's time")
    func registersAgain() async throws {
        let time = ManualTime()
        let backend = ScriptedBackend([.iOSAPNs]) { _, _ in Self.dead(asOf: time.now.addingTimeInterval(-3600)) }
        let rig = try await DispatcherRig(time: time)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(["a": backend]) {
            try await rig.register("phone", [("apple", .iOSAPNs)], ago: 60)
            let id = try await rig.accept(Self.device, plan: DeliveryPlan(["a"]))
            try await rig.expect(id, [.failed: 1])
            try await rig.until { try await rig.eventTypes().contains("device.token_invalidated") }
        }
        // The dispatcher has written everything that it was told before it ended.
        #expect(try await rig.store.device("phone")?.liveToken(of: .iOSAPNs) != nil)
        await rig.store.close()
    }

    @Test("goes on where it was after a restart: the first backend is not asked again")
    func restartBetweenSteps() async throws {
        let first = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: first.folder) }
        let a = ScriptedBackend { _, _ in .refused(Refusal(.token, reason: "gone", status: 410, advice: .never)) }
        var id: NotificationID?
        let busy = ScriptedBackend { _, _ in
            .refused(Refusal(.platform, reason: "busy", advice: .retry(after: .seconds(60))))
        }
        try await first.run(["a": a, "b": busy]) {
            let new = try await first.accept(plan: Self.chain)
            try await first.until { try await first.attemptLog(new).count == 2 }
            id = new
        }
        await first.store.close()
        let second = try await DispatcherRig(time: first.time, folder: first.folder)
        let b = ScriptedBackend { _, _ in Self.accepted }
        try await second.run(["a": a, "b": b]) {
            second.time.advance(by: .seconds(120))
            try await second.expect(try #require(id), [.acceptedByPlatform: 1])
        }
        #expect(a.attemptCount == 1)
        #expect(b.attemptCount == 1)
        await second.store.close()
    }

    @Test(
        "under the rule wait asks the platform after a while, and goes on only without a word that it arrived",
        arguments: [
            (nil, DeliveryState.acceptedByPlatform, 1), (.failed, .acceptedByPlatform, 1), (.delivered, .delivered, 0),
        ] as [(DeliveryState?, DeliveryState, Int)]
    )
    func wait(word: DeliveryState?, end: DeliveryState, second: Int) async throws {
        let a = ScriptedBackend(tracking: Tracker(word: word)) { _, _ in Self.silence }
        let b = ScriptedBackend { _, _ in Self.accepted }
        try await DispatcherRig.run(["a": a, "b": b]) { rig in
            let id = try await rig.accept(plan: DeliveryPlan(["a", "b"], onUnknown: .wait))
            try await rig.expect(id, [.retrying: 1])
            rig.time.advance(by: .seconds(29))
            #expect(b.attemptCount == 0)
            rig.time.advance(by: .seconds(2))
            try await rig.expect(id, [end: 1])
            #expect(a.attemptCount == 1)
            #expect(b.attemptCount == second)
            if second == 1 { #expect(b.attempts(.topic("t"))[0].isReplay) }
        }
    }

    @Test("under the rule wait goes on over a death in mid-send, too, and asks its backend no second time")
    func waitOverRestart() async throws {
        let first = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: first.folder) }
        let id = try await first.accept(plan: DeliveryPlan(["a", "b"], onUnknown: .wait))
        _ = try await first.store.claim(backend: "a", limit: 1, wait: .seconds(1))
        await first.store.close()
        let second = try await DispatcherRig(time: first.time, folder: first.folder)
        let a = ScriptedBackend { _, _ in Self.accepted }
        let b = ScriptedBackend { _, _ in Self.accepted }
        try await second.run(["a": a, "b": b]) {
            try await second.until { try await second.attemptLog(id).count == 1 }
            second.time.advance(by: .seconds(31))
            try await second.expect(id, [.acceptedByPlatform: 1])
        }
        #expect(a.attemptCount == 0)
        #expect(b.attemptCount == 1)
        await second.store.close()
    }

    @Test("leaves a backend that has been down for longer than the route's fallback_after, also without an attempt")
    func fallbackAfter() async throws {
        let a = ScriptedBackend { _, _ in Self.down() }
        let b = ScriptedBackend { _, _ in Self.accepted }
        let hurried = DeliveryPlan(["a", "b"], fallbackAfter: .seconds(20))
        try await DispatcherRig.run(["a": a, "b": b]) {
            $0.routes = [GatewayConfiguration.Route(plan: hurried)]
            $0.queue.firstRetry = .seconds(1000)
        } _: { rig in
            let opening = try await rig.accept((0..<5).map { "t\($0)" }, plan: DeliveryPlan(["a"]))
            try await rig.expect(opening, [.retrying: 5])
            try await rig.until { rig.dispatcher.workers.first?.breaker.status == .open }
            let attempts = a.attemptCount
            let patient = try await rig.accept(["patient"], plan: Self.chain)
            let id = try await rig.accept(["hurried"], plan: hurried)
            rig.time.advance(by: .seconds(15))
            try await rig.expect(id, [.queued: 1])
            rig.time.advance(by: .seconds(5))
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(a.attemptCount == attempts)
            #expect(b.attemptCount == 1)
            #expect(try await rig.attemptLog(id).map { $0["reason"] } == ["breaker_open", nil])
            #expect(try await rig.attemptLog(patient).isEmpty, "it still waits for the first backend")
        }
    }

    @Test("sends nothing to a backend whose breaker is open; one message probes it, and then all go")
    func breaker() async throws {
        let isUp = Mutex(false)
        let backend = ScriptedBackend { _, _ in isUp.withLock { $0 } ? Self.accepted : Self.down() }
        try await DispatcherRig.run(["a": backend]) { rig in
            let opening = try await rig.accept((0..<5).map { "t\($0)" })
            try await rig.expect(opening, [.retrying: 5])
            try await rig.until { rig.dispatcher.workers.first?.breaker.status == .open }
            #expect(rig.dispatcher.workers.first?.breaker.reason == "connect_failed")
            let waiting = try await rig.accept((0..<20).map { "u\($0)" })
            rig.time.advance(by: .seconds(29))
            try await rig.expect(waiting, [.queued: 20])
            #expect(backend.attemptCount == 5)
            isUp.withLock { $0 = true }
            rig.time.advance(by: .seconds(2))
            try await rig.expect(waiting, [.acceptedByPlatform: 20])
            try await rig.expect(opening, [.acceptedByPlatform: 5])
            #expect(rig.dispatcher.workers.first?.breaker.status == .closed)
            try await rig.until {
                let types = try await rig.eventTypes()
                return types.contains("backend.breaker_opened") && types.contains("backend.breaker_closed")
            }
        }
    }

    @Test("is not kept waiting by another backend that hangs: workers share nothing")
    func bulkhead() async throws {
        let hanging = HangingBackend()
        let healthy = ScriptedBackend { _, _ in Self.accepted }
        try await DispatcherRig.run(["a": hanging, "b": healthy]) { rig in
            let stuck = try await rig.accept((0..<3000).map { "t\($0)" }, plan: DeliveryPlan(["a"]))
            try await rig.until { hanging.held > 0 }
            for round in 0..<5 {
                let id = try await rig.accept((0..<500).map { "r\(round)-\($0)" }, plan: DeliveryPlan(["b"]))
                try await rig.expect(id, [.acceptedByPlatform: 500])
            }
            #expect(try await rig.store.notification(stuck)?.counts[.acceptedByPlatform] == nil)
            #expect(hanging.held <= DeliveryWorker.defaultWindow)
            hanging.letGo()
        }
    }
}

/// A platform that takes messages and does not answer before it is told to.
final class HangingBackend: PushBackend {
    let kind: BackendKind = "hanging"
    let audience = BackendAudience(forms: [.topic])
    private let waiting = Mutex((isOpen: false, held: 0, waiters: [CheckedContinuation<Void, Never>]()))

    /// Messages that wait for their answer.
    var held: Int { waiting.withLock { $0.held } }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let count = requests.reduce(0) { $0 + $1.recipients.count }
        await withCheckedContinuation { continuation in
            let isOpen = waiting.withLock { waiting in
                waiting.held += count
                if !waiting.isOpen { waiting.waiters.append(continuation) }
                return waiting.isOpen
            }
            if isOpen { continuation.resume() }
        }
        let lost = DeliveryOutcome.refused(
            Refusal(.platform, reason: GatewayReason.cancelled, advice: .retry(after: nil))
        )
        for (row, request) in requests.enumerated() {
            report(request.recipients.indices.map { DeliveryReport(request: row, recipient: $0, outcome: lost) })
        }
        waiting.withLock { $0.held -= count }
    }

    /// Ends every wait, and all that come.
    func letGo() {
        let waiters = waiting.withLock { waiting in
            waiting.isOpen = true
            defer { waiting.waiters = [] }
            return waiting.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func shutdown(grace: Duration) async { letGo() }
}
