import Foundation
import ChaparCore
import ChaparComposition
import ChaparTesting
import Synchronization
import Testing

@Suite("Circuit breaker", .timeLimit(.minutes(1)))
struct BreakerTests {
    private static let start = Date(timeIntervalSince1970: 1_767_225_600)
    private static func at(_ seconds: Double) -> Date { start.addingTimeInterval(seconds) }
    private static let failure = BackendSignal.fails(reason: "deadline")

    private static func opened() -> Breaker {
        var breaker = Breaker()
        for _ in 0..<5 { breaker.record(failure, at: start) }
        return breaker
    }

    @Test("Opens at the fifth failure of the window, not before")
    func opens() {
        var breaker = Breaker()
        for second in 0..<4 { #expect(breaker.record(Self.failure, at: Self.at(Double(second))) == nil) }
        #expect(breaker.admit(at: Self.at(4)) == .pass)
        #expect(breaker.record(Self.failure, at: Self.at(5)) == .opened(until: Self.at(35), reason: "deadline"))
        #expect(breaker.admit(at: Self.at(6)) == .refuse(until: Self.at(35), reason: "deadline"))
    }

    @Test("Old failures do not count")
    func window() {
        var breaker = Breaker()
        for number in 0..<50 { #expect(breaker.record(Self.failure, at: Self.at(Double(number) * 10)) == nil) }
        #expect(breaker.state == .closed)
    }

    @Test("Failures among many successes do not open it")
    func share() {
        var breaker = Breaker()
        breaker.record(.works, count: 1_000, at: Self.start)
        for _ in 0..<900 { breaker.record(Self.failure, at: Self.start) }
        #expect(breaker.state == .closed)
        for _ in 0..<100 { breaker.record(Self.failure, at: Self.start) }
        #expect(breaker.state != .closed)
    }

    @Test("A request that carried many messages is one failure, and the share is one of messages")
    func requests() {
        var breaker = Breaker()
        func fail(_ messages: Int) -> Breaker.Change? {
            breaker.record(failure: "http_500", messages: messages, at: Self.start)
        }
        for _ in 0..<4 { #expect(fail(1_000) == nil) }
        #expect(fail(1_000) == .opened(until: Self.at(30), reason: "http_500"))
        breaker.reset()
        breaker.record(.works, count: 5_500, at: Self.start)
        for _ in 0..<5 { #expect(fail(1_000) == nil) }
        #expect(fail(1_000) == .opened(until: Self.at(30), reason: "http_500"))
        breaker.reset()
        breaker.record(.works, count: 4_000, at: Self.start)
        for _ in 0..<100 { #expect(fail(1) == nil, "one of forty in each answer") }
    }

    @Test("Requests that carried many messages count however slowly they fail, while none works")
    func slowRequests() {
        var breaker = Breaker()
        var now = 0.0
        func fail() -> Breaker.Change? {
            now += 60
            return breaker.record(failure: "timeout", messages: 1_000, at: Self.at(now))
        }
        for _ in 0..<4 { #expect(fail() == nil) }
        breaker.record(.works, at: Self.at(now))
        for _ in 0..<4 { #expect(fail() == nil) }
        #expect(fail() == .opened(until: Self.at(now + 30), reason: "timeout"))
    }

    /// A platform that takes a hundred messages in a request, and fails.
    private struct Batches: PushBackend {
        let kind: BackendKind = "batches"
        let audience = BackendAudience(services: [.iOSAPNs])
        var batching: RequestBatching? { RequestBatching(limit: 100, isMixed: true) }

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            report(
                requests.enumerated().flatMap { row, request in
                    request.recipients.indices.map {
                        DeliveryReport(request: row, recipient: $0, outcome: PlanAnswer.retry.outcome)
                    }
                }
            )
        }

        func shutdown(grace: Duration) async {}
    }

    @Test("A group of answers counts as the fewest requests that can have carried what failed of it")
    func groups() async {
        let breaking = CircuitBreakingBackend(Batches(), time: ManualTime())
        func send(_ count: Int) async {
            let recipients = (0..<count).map { Recipient.token(DeviceToken("t\($0)", service: .iOSAPNs)) }
            _ = await breaking.send(PushNotification(), to: recipients)
        }
        for _ in 0..<2 {
            await send(100)
            #expect(breaking.state == .closed)
        }
        await send(201)
        #expect(breaking.health.status == .down)
    }

    @Test("After the cool-down one probe goes; a success closes, a failure opens for twice as long, up to a bound")
    func probes() {
        var breaker = Self.opened()
        #expect(breaker.admit(at: Self.at(30)) == .probe)
        #expect(breaker.admit(at: Self.at(31)) == .refuse(until: Self.at(60), reason: "deadline"))
        #expect(breaker.record(Self.failure, at: Self.at(32)) == .opened(until: Self.at(92), reason: "deadline"))
        var now = 92.0
        for cooldown in [120.0, 240, 300, 300] {
            #expect(breaker.admit(at: Self.at(now)) == .probe)
            #expect(
                breaker.record(Self.failure, at: Self.at(now))
                    == .opened(until: Self.at(now + cooldown), reason: "deadline")
            )
            now += cooldown
        }
        #expect(breaker.admit(at: Self.at(now)) == .probe)
        #expect(breaker.record(.works, at: Self.at(now)) == .closed)
        #expect(breaker.admit(at: Self.at(now)) == .pass)
        for _ in 0..<5 { breaker.record(Self.failure, at: Self.at(now)) }
        #expect(breaker.state == .open(until: Self.at(now + 30), reason: "deadline"))
    }

    @Test("A probe that never answers is given up, one that tells nothing is given back")
    func lostProbe() {
        var breaker = Self.opened()
        #expect(breaker.admit(at: Self.at(30)) == .probe)
        #expect(breaker.admit(at: Self.at(60)) == .probe)
        breaker.abandonProbe()
        #expect(breaker.admit(at: Self.at(61)) == .probe)
    }

    @Test("An answer to an old message does not close an open breaker")
    func lateSuccess() {
        var breaker = Self.opened()
        #expect(breaker.record(.works, at: Self.at(1)) == nil)
        #expect(breaker.admit(at: Self.at(2)) == .refuse(until: Self.at(30), reason: "deadline"))
    }

    @Test("A platform's wish opens it for that long, credentials open it at once, a hand opens and closes it")
    func otherCauses() {
        var breaker = Breaker()
        breaker.record(.pause(.seconds(7), reason: "Quota"), at: Self.start)
        #expect(breaker.state == .open(until: Self.at(7), reason: "Quota"))
        var parked = Breaker()
        parked.record(.park(reason: "BadKey", detail: nil), at: Self.start)
        #expect(parked.state == .open(until: Self.at(30), reason: "BadKey"))
        parked.trip(until: Self.at(900), reason: "mass_invalidation")
        #expect(parked.admit(at: Self.at(100)) == .refuse(until: Self.at(900), reason: "mass_invalidation"))
        #expect(parked.reset() == .closed)
        #expect(parked.admit(at: Self.at(100)) == .pass)
    }

    @Test(
        "Outcomes and their signals about the backend",
        arguments: [
            (.accepted, .works), (.dead, .works), (.never, .works), (.retry, .fails(reason: "Unavailable")),
            (.slowRecipient, .works), (.slowBackend, .pause(.seconds(5), reason: "Quota")),
            (.park, .park(reason: "BadKey", detail: nil)), (.silence, .fails(reason: "deadline")),
        ] as [(PlanAnswer, BackendSignal)]
    )
    func signals(answer: PlanAnswer, signal: BackendSignal) {
        #expect(answer.outcome.signal == signal)
    }

    @Test(
        "A pause without a length, or of none, is a second, each time for longer, until something works",
        arguments: [nil, .zero, .milliseconds(999)] as [Duration?]
    )
    func slow(after: Duration?) {
        let asked = Refusal(.platform, reason: "Busy", detail: "Later.", advice: .slowBackend(after: after))
        let signal = DeliveryOutcome.refused(asked).signal
        #expect(signal == .slow(reason: "Busy", detail: "Later."))
        var breaker = Breaker()
        var now = 0.0
        for wait in [1.0, 2, 4, 8, 16, 32, 60, 60] {
            #expect(breaker.record(signal, at: Self.at(now)) == .opened(until: Self.at(now + wait), reason: "Busy"))
            #expect(
                breaker.record(signal, at: Self.at(now)) == nil,
                "those that were sent together are refused together"
            )
            now += wait
            #expect(breaker.admit(at: Self.at(now)) == .probe)
        }
        #expect(breaker.record(.works, at: Self.at(now)) == .closed)
        #expect(breaker.record(signal, at: Self.at(now)) == .opened(until: Self.at(now + 1), reason: "Busy"))
    }

    @Test("Chapar's own refusals are no signal about the backend")
    func ownRefusals() {
        for reason in ["cancelled", "breaker_open", "bulkhead_full", "rate_limited", "no_token", "not_addressable"] {
            let outcome = DeliveryOutcome.refused(Refusal(.platform, reason: reason, advice: .retry(after: nil)))
            #expect(outcome.signal == .nothing)
        }
        #expect(DeliveryOutcome.accepted(Acceptance(isDryRun: true)).signal == .nothing)
    }

    @Test("A broken backend is left alone until a probe finds it well; then the rest of the batch goes at once")
    func backend() async {
        let time = ManualTime()
        let isBroken = Mutex(true)
        let inner = ScriptedBackend { _ in isBroken.withLock { $0 } ? PlanAnswer.retry.outcome : nil }
        let changes = Mutex<[Breaker.Change]>([])
        let breaking = CircuitBreakingBackend(inner, time: time) { change in changes.withLock { $0.append(change) } }
        let recipients = (0..<10).map { Recipient.token(DeviceToken("t\($0)", service: .iOSAPNs)) }
        _ = await breaking.send(PushNotification(), to: recipients)
        #expect(inner.calls.count == 10)
        let refused = await breaking.send(PushNotification(), to: recipients)
        #expect(inner.calls.count == 10)
        #expect(breaking.health.status == .down)
        for outcome in refused {
            #expect(outcome.refusal?.reason == "breaker_open")
            #expect(outcome.refusal?.advice == .retry(after: .seconds(30)))
        }
        time.advance(by: .seconds(30))
        _ = await breaking.send(PushNotification(), to: recipients)
        #expect(inner.calls.count == 11, "one probe")
        isBroken.withLock { $0 = false }
        time.advance(by: .seconds(60))
        _ = await breaking.send(PushNotification(), to: recipients)
        #expect(inner.taken == 10)
        #expect(breaking.state == .closed)
        #expect(changes.withLock { $0.last } == .closed)
    }
}
