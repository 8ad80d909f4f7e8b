import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Foundation
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Counts the results of escalations.
private final class Counter: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    var all: [String: Int] { counts.withLock { $0 } }

    func count(_ backend: String, _ result: EscalationResult, _ amount: Int) {
        guard amount > 0 else { return }
        counts.withLock { $0["\(backend) \(result.rawValue)", default: 0] += amount }
    }
}

/// An observer that counts escalations only.
private struct EscalationObserver: DispatchObserver {
    let counter: Counter

    func attempted(backend: String, app: AppName, kind: BackendKind, outcome: String, reason: String, count: Int) {}
    func answered(backend: String, kind: BackendKind, after duration: Duration, count: Int) {}
    func times(of backend: String) -> DeliveryTimes? { nil }
    func retried(backend: String, reason: String) {}
    func fellBack(from: String, to: String, reason: String) {}
    func escalated(backend: String, _ result: EscalationResult, count: Int) { counter.count(backend, result, count) }
    func expired(backend: String, count: Int) {}
    func invalidatedToken(backend: String, reason: String) {}
    func quarantinedInvalidations(backend: String, reason: String, count: Int) {}
    func waitedForQuota(backend: String, _ duration: Duration) {}
}

/// A push backend `a` and an SMS backend `b`, which takes over after two minutes.
private struct EscalationRig {
    static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p-1", status: 200))
    static let sms = TokenService(rawValue: "x-sms")
    static let phone = [Recipient.device("phone")]

    static func plan(_ limit: Int? = nil, unless report: Escalation.Report = .delivered) -> DeliveryPlan {
        var plan = DeliveryPlan(["a", "b"])
        plan.escalation = Escalation(step: 1, after: .seconds(120), unless: report, maximumPerDay: limit)
        return plan
    }

    let rig: DispatcherRig
    let counter: Counter
    let push: ScriptedBackend
    let text: ScriptedBackend

    /// Runs the two backends while `body` runs; the device `phone` has a token for each.
    static func run(
        push: @escaping @Sendable (Addressee, Int) -> DeliveryOutcome? = { _, _ in EscalationRig.accepted },
        text: @escaping @Sendable (Addressee, Int) -> DeliveryOutcome? = { _, _ in EscalationRig.accepted },
        tokens: [(String, TokenService)] = [("push", .androidFirebase), ("+1555", EscalationRig.sms)],
        _ body: (EscalationRig) async throws -> Void
    ) async throws {
        let counter = Counter()
        let rig = try await DispatcherRig(observer: EscalationObserver(counter: counter))
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let own = EscalationRig(
            rig: rig,
            counter: counter,
            push: ScriptedBackend([.androidFirebase], push),
            text: ScriptedBackend([sms], text)
        )
        try await rig.register("phone", tokens)
        try await own.serve { try await body(own) }
        await rig.store.close()
    }

    /// Runs the dispatcher while `body` runs.
    func serve(_ body: () async throws -> Void) async throws {
        try await rig.run(["a": push, "b": text], Self.routes, body)
    }

    private static func routes(_ configuration: inout GatewayConfiguration) {
        configuration.routes = [GatewayConfiguration.Route(plan: plan())]
    }

    /// Accepts a message that `a` takes, and waits until it waits for a report.
    func accept(_ plan: DeliveryPlan = EscalationRig.plan(), lives: Duration = .seconds(3600)) async throws
        -> NotificationID
    {
        let id = try await rig.accept(Self.phone, plan: plan, lives: lives)
        try await rig.expect(id, [.retrying: 1])
        return id
    }

    /// Records an app's report about a notification's only delivery; returns the result.
    func report(_ id: NotificationID, _ event: DeliveryReceipt.Event) async throws -> String {
        let receipt = DeliveryReceipt(event, reason: event.rawValue, at: rig.time.now)
        let logEntry = EventJSON.receipt(receipt, backend: "app")
        let address = ReceiptAddress(delivery: id.rawValue)
        let entry = ReceiptEntry(address, state: receipt.deliveryState, logEntry: logEntry) {
            EventJSON.received($0, changesState: true, backend: "a", logEntry: logEntry, at: receipt.at)
        }
        switch try await rig.store.record([entry]).first {
        case .recorded?: return "recorded"
        case .repeated?: return "repeated"
        case .early?: return "early"
        case .unknown?, nil: return "unknown"
        }
    }

    /// The backend and the state of a notification's only delivery.
    func end(_ id: NotificationID) async throws -> String {
        let delivery = try await rig.store.deliveries(of: id, after: nil, limit: 1).first
        return "\(delivery?.state.rawValue ?? "gone") \(delivery?.backend ?? "")"
    }
}

@Suite("Backends that take over when no report came", .timeLimit(.minutes(2)))
struct EscalationTests {
    private typealias Rig = EscalationRig

    private static func refusal(_ kind: Refusal.Kind, _ advice: Refusal.Advice) -> DeliveryOutcome {
        .refused(Refusal(kind, reason: "no", advice: advice))
    }

    @Test("The next backend takes over when the time is over and nothing was reported, and counts apart")
    func noReport() async throws {
        try await Rig.run { own in
            let id = try await own.accept()
            own.rig.time.advance(by: .seconds(119))
            #expect(try await own.end(id) == "retrying b")
            #expect(own.text.attemptCount == 0)
            own.rig.time.advance(by: .seconds(2))
            try await own.rig.expect(id, [.acceptedByPlatform: 1])
            #expect(own.push.attemptCount == 1)
            #expect(own.text.attempts(.token("+1555", service: Rig.sms)).count == 1)
            #expect(try await own.end(id) == "accepted_by_platform b")
            let story = try await own.rig.attemptLog(id)
            #expect(story.map { $0["outcome"] } == ["accepted", "accepted"])
            #expect(story.map { $0["backend"] } == ["a", "b"])
            #expect(own.counter.all == ["a awaited": 1, "b sent": 1])
            let types = try await own.rig.eventTypes()
            #expect(types.suffix(2) == ["delivery.retrying", "delivery.accepted_by_platform"])
            #expect(try await own.report(id, .opened) == "recorded", "a report that is late")
            #expect(try await own.end(id) == "opened b")
        }
    }

    @Test("A report in time ends the delivery, and no backend takes over", arguments: [false, true])
    func inTime(isOpened: Bool) async throws {
        try await Rig.run { own in
            let id = try await own.accept(Rig.plan(unless: isOpened ? .opened : .delivered))
            if isOpened {
                #expect(try await own.report(id, .delivered) == "recorded")
                #expect(try await own.end(id) == "retrying b", "an arrival is not what it waits for")
            }
            #expect(try await own.report(id, isOpened ? .opened : .delivered) == "recorded")
            #expect(try await own.end(id) == (isOpened ? "opened a" : "delivered a"))
            own.rig.time.advance(by: .seconds(200))
            let other = try await own.accept()
            own.rig.time.advance(by: .seconds(121))
            try await own.rig.expect(other, [.acceptedByPlatform: 1])
            #expect(own.text.attemptCount == 1, "only of the other")
            let types = try await own.rig.eventTypes()
            #expect(types.contains(isOpened ? "delivery.opened" : "delivery.delivered"))
            #expect(types.contains("delivery.receipt") == isOpened)
        }
    }

    @Test("A failure that the platform reports makes the next backend take over at once")
    func failed() async throws {
        try await Rig.run { own in
            let id = try await own.accept()
            #expect(try await own.report(id, .failed) == "recorded")
            try await own.rig.expect(id, [.acceptedByPlatform: 1])
            #expect(try await own.end(id) == "accepted_by_platform b")
        }
    }

    @Test("A restart keeps the wait: neither shorter nor forgotten")
    func restart() async throws {
        let counter = Counter()
        let rig = try await DispatcherRig(observer: EscalationObserver(counter: counter))
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let own = EscalationRig(
            rig: rig,
            counter: counter,
            push: ScriptedBackend([.androidFirebase]) { _, _ in Rig.accepted },
            text: ScriptedBackend([Rig.sms]) { _, _ in Rig.accepted }
        )
        try await rig.register("phone", [("push", .androidFirebase), ("+1555", Rig.sms)])
        var ids: [NotificationID] = []
        try await own.serve { ids = [try await own.accept(), try await own.accept()] }
        await rig.store.close()
        let again = try await DispatcherRig(
            time: rig.time,
            folder: rig.folder,
            observer: EscalationObserver(counter: counter)
        )
        let second = EscalationRig(
            rig: again,
            counter: counter,
            push: own.push,
            text: ScriptedBackend([Rig.sms]) { _, _ in Rig.accepted }
        )
        // A dispatcher stops for good, so the second run has one of its own.
        try await second.serve {
            #expect(try await second.report(ids[0], .delivered) == "recorded")
            #expect(try await second.end(ids[1]) == "retrying b")
            #expect(second.text.attemptCount == 0)
            again.time.advance(by: .seconds(121))
            try await again.expect(ids[1], [.acceptedByPlatform: 1])
            #expect(try await second.end(ids[0]) == "delivered a")
            #expect(second.text.attemptCount == 1)
        }
        await again.store.close()
    }

    @Test("As many a day as max_per_day allows, and what is above it ends as accepted by the first backend")
    func limit() async throws {
        try await Rig.run { own in
            let first = try await own.accept(Rig.plan(1))
            let second = try await own.accept(Rig.plan(1))
            own.rig.time.advance(by: .seconds(121))
            try await own.rig.expect(first, [.acceptedByPlatform: 1])
            try await own.rig.expect(second, [.acceptedByPlatform: 1])
            #expect(own.text.attemptCount == 1)
            let ends = [try await own.end(first), try await own.end(second)]
            #expect(ends.sorted() == ["accepted_by_platform a", "accepted_by_platform b"])
            let limited = ends[0].hasSuffix("a") ? first : second
            let story = try await own.rig.attemptLog(limited)
            #expect(story.last?["reason"] == "escalation_limit")
            #expect(own.counter.all == ["a awaited": 2, "b sent": 1, "b limited": 1])
            // The count is of the day, and in the store.
            own.rig.time.advance(by: .seconds(86_400))
            let third = try await own.accept(Rig.plan(1))
            own.rig.time.advance(by: .seconds(121))
            try await own.rig.expect(third, [.acceptedByPlatform: 1])
            #expect(try await own.end(third) == "accepted_by_platform b")
            let kept = try await own.rig.store.loadState(EscalationLimits.key(of: "b")) ?? []
            #expect(String(decoding: kept, as: UTF8.self).hasSuffix(" 1"))
        }
    }

    @Test("The count of a day is not lost to a gateway whose clock is behind, or was set back over midnight")
    func midnight() async throws {
        try await Rig.run { own in try await Self.countAroundMidnight(own.rig.store) }
    }

    private static func countAroundMidnight(_ store: any StateStore) async throws {
        let midnight = try #require(RFC3339.parse("2026-11-30T00:00:00Z"))
        let limits = EscalationLimits()
        for (seconds, isAllowed) in [
            (-60, true), (-1, true), (-1, false), (1, true), (-1, true), (1, false), (-1, false),
            (86_400, true), (86_401, true), (86_402, false), (0, false),
            // A clock that is far ahead counts for itself, and hides nothing for long.
            (30 * 86_400, true), (86_403, true),
        ] {
            let now = midnight.addingTimeInterval(TimeInterval(seconds))
            let allowed = try await limits.take([2], of: "b", at: now, in: store)
            #expect(allowed == [isAllowed], "at \(seconds)")
        }
    }

    @Test("The limit holds for messages that the first backend refuses, too")
    func limitOfRefused() async throws {
        try await Rig.run(push: { _, _ in Self.refusal(.message, .never) }) { own in
            let first = try await own.rig.accept(Rig.phone, plan: Rig.plan(1))
            try await own.rig.expect(first, [.acceptedByPlatform: 1])
            let second = try await own.rig.accept(Rig.phone, plan: Rig.plan(1))
            try await own.rig.expect(second, [.failed: 1])
            #expect(own.text.attemptCount == 1)
            #expect(own.counter.all == ["b sent": 1, "b limited": 1])
        }
    }

    @Test("A cancelled message goes to no other backend, and was accepted by the first")
    func cancelled() async throws {
        try await Rig.run { own in
            let id = try await own.accept()
            let result = try await own.rig.store.cancel(id) { EventJSON.delivery($0, state: $1, at: .distantPast) }
            #expect(result == Cancellation(cancelled: 1, tooLate: 0))
            own.rig.time.advance(by: .seconds(200))
            #expect(try await own.end(id) == "accepted_by_platform a")
            #expect(own.text.attemptCount == 0)
        }
    }

    @Test("A message whose time to live ends before the wait does waits for nothing")
    func shortLife() async throws {
        try await Rig.run { own in
            let id = try await own.rig.accept(Rig.phone, plan: Rig.plan(), lives: .seconds(100))
            try await own.rig.expect(id, [.acceptedByPlatform: 1])
            #expect(try await own.end(id) == "accepted_by_platform a")
            #expect(own.counter.all.isEmpty)
        }
    }

    @Test("A message that is now or never waits for nothing, however short the wait is")
    func nowOrNever() async throws {
        var plan = Rig.plan()
        plan.escalation?.after = .seconds(2)
        try await Rig.run { own in
            let id = try await own.rig.accept(Rig.phone, plan: plan, lives: .zero)
            try await own.rig.expect(id, [.acceptedByPlatform: 1])
            #expect(try await own.end(id) == "accepted_by_platform a")
            #expect(own.counter.all.isEmpty)
        }
    }

    @Test("A device that no other backend reaches waits for nothing")
    func unreachable() async throws {
        try await Rig.run(tokens: [("push", .androidFirebase)]) { own in
            let id = try await own.rig.accept(Rig.phone, plan: Rig.plan())
            try await own.rig.expect(id, [.acceptedByPlatform: 1])
            #expect(try await own.end(id) == "accepted_by_platform a")
        }
    }

    @Test("A message that the next backend refuses, or cannot take in time, stays accepted by the first")
    func refusedByNext() async throws {
        let isDown = Mutex(false)
        let text: @Sendable (Addressee, Int) -> DeliveryOutcome? = { _, _ in
            isDown.withLock { $0 }
                ? Self.refusal(.platform, .retry(after: .seconds(30))) : Self.refusal(.message, .never)
        }
        try await Rig.run(text: text) { own in
            let refused = try await own.accept()
            own.rig.time.advance(by: .seconds(121))
            try await own.rig.expect(refused, [.acceptedByPlatform: 1])
            #expect(try await own.end(refused) == "accepted_by_platform a")
            isDown.withLock { $0 = true }
            let late = try await own.accept(lives: .seconds(130))
            own.rig.time.advance(by: .seconds(121))
            try await own.rig.expect(late, [.acceptedByPlatform: 1])
            #expect(try await own.end(late) == "accepted_by_platform a")
            #expect(try await own.rig.attemptLog(late).map { $0["outcome"] } == ["accepted", "refused"])
        }
    }
}
