import Foundation
import ChaparCore
import ChaparComposition
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A value that an expectation can change and look at in one expression.
private final class Box<Value> {
    var value: Value
    init(_ value: Value) { self.value = value }
    func callAsFunction<Result>(_ body: (inout Value) -> Result) -> Result { body(&value) }
}

@Suite("The gate of a worker", .timeLimit(.minutes(1)))
struct FlowGateTests {
    private let now = Date(timeIntervalSince1970: 1_790_000_000)

    @Test("Only what there is room for is claimed, and not in crumbs while plenty is under way")
    func room() {
        let state = Box(FlowGate.State())
        #expect(state({ $0.step(window: 1000, at: now) }) == .claim(1000))
        state.value.inFlight = 900
        #expect(state({ $0.step(window: 1000, at: now) }) == .wait(until: nil))
        state.value.inFlight = 750
        #expect(state({ $0.step(window: 1000, at: now) }) == .claim(250))
        state.value.inFlight = 1000
        #expect(
            state({ $0.step(window: 500, at: now) }) == .wait(until: nil),
            "the window shrank below what is under way"
        )
    }

    @Test("The loop is woken when there is room worth a claim, or nothing under way")
    func waking() {
        let state = Box(FlowGate.State())
        _ = state { $0.step(window: 1000, at: now) }
        state.value.inFlight = 1000
        #expect(!state({ $0.finish(Int64(1)...100) }))
        #expect(state({ $0.finish(Int64(101)...250) }))
        state.value.inFlight = 1
        #expect(state({ $0.finish([251]) }))
        let small = Box(FlowGate.State())
        _ = small { $0.step(window: 2, at: now) }
        small.value.inFlight = 2
        #expect(small({ $0.finish([1]) }))
    }

    @Test("A pause holds until its time, and a shorter one does not shorten it")
    func pause() {
        let state = Box(FlowGate.State())
        let until = now.addingTimeInterval(60)
        #expect(state({ $0.pause(until: until, reason: "slow") }))
        #expect(!state({ $0.pause(until: now.addingTimeInterval(5), reason: "slow") }))
        #expect(state({ $0.step(window: 10, at: now) }) == .wait(until: until))
        #expect(state({ $0.step(window: 10, at: until) }) == .claim(10))
        #expect(state.value.pauseReason == nil)
    }

    @Test("A parked worker tries one delivery at a time, after waits that double, until one is taken")
    func park() throws {
        let state = Box(FlowGate.State())
        let first = now.addingTimeInterval(1)
        let second = first.addingTimeInterval(2)
        #expect(
            state({ $0.park(reason: "key", detail: "Mend it.", at: now) })
                == .parked(until: first, reason: "key", detail: "Mend it.", isFirst: true)
        )
        #expect(
            state({ $0.park(reason: "key", detail: nil, at: now) }) == nil,
            "a thousand refusals at once are one piece of news"
        )
        #expect(state.value.blockDetail == ("key", "Mend it."))
        #expect(state({ $0.step(window: 1000, at: first) }) == .claim(1))
        state { $0.begin([1], at: first) }
        #expect(state({ $0.step(window: 1000, at: first) }) == .wait(until: first.addingTimeInterval(1)))
        #expect(
            state({ $0.park(reason: "key", detail: nil, at: first) })
                == .parked(until: second, reason: "key", detail: nil, isFirst: false)
        )
        #expect(state({ $0.finish([1]) }))
        #expect(state({ $0.works(1, isProbe: false, at: second) }) == nil, "the answer of a message sent before")
        #expect(state({ $0.works(1, at: second) }) == .resumed)
        #expect(state({ $0.works(1, at: second) }) == nil)
        #expect(state({ $0.step(window: 1000, at: second) }) == .claim(1000))
    }

    @Test(
        "A platform that asks for a pause without a length gets single messages, from a second to a minute apart, until it takes one"
    )
    func slow() {
        let state = Box(FlowGate.State())
        let signal = BackendSignal.slow(reason: "busy", detail: nil)
        var now = now
        for wait in [1.0, 2, 4, 8, 16, 32, 60, 60] {
            let until = now.addingTimeInterval(wait)
            let isFirst = wait == 1
            #expect(
                state({ $0.apply(signal, at: now) }).0
                    == .slowed(until: until, reason: "busy", detail: nil, isFirst: isFirst)
            )
            #expect(state({ $0.step(window: 1000, at: now) }) == .wait(until: until))
            now = until
            #expect(state({ $0.step(window: 1000, at: now) }) == .claim(1))
            #expect(state.value.status == .paused)
        }
        #expect(state({ $0.works(1, at: now) }) == .resumed)
        #expect(state({ $0.step(window: 1000, at: now) }) == .claim(1000))
        #expect(state.value.status == .sending && state.value.blockDetail.reason == nil)
    }

    private static let busy = BackendSignal.slow(reason: "busy", detail: nil)

    private func message(_ delivery: Int64, sentAt: Date) -> FlowGate.State.Message {
        FlowGate.State.Message(delivery: delivery, sentAt: sentAt)
    }

    @Test("A message that hangs since before the pause keeps no probe back, and neither does a probe that hangs")
    func hangingProbe() {
        let state = Box(FlowGate.State())
        func at(_ seconds: Double) -> Date { now.addingTimeInterval(seconds) }
        state { $0.begin([1, 2], at: now) }
        let shut = state { $0.apply(Self.busy, of: message(1, sentAt: now), at: now) }
        #expect(shut.0 != nil && shut.wakes, "a loop that waits for room learns the time of the probe")
        #expect(state({ $0.finish([1]) }))
        #expect(state({ $0.step(window: 2, at: at(1)) }) == .claim(1), "beside the one that hangs")
        state { $0.begin([3], at: at(1)) }
        #expect(state({ $0.step(window: 2, at: at(9)) }) == .wait(until: nil), "the window has no room")
        #expect(state({ $0.step(window: 10, at: at(1)) }) == .wait(until: at(2)))
        #expect(state({ $0.step(window: 10, at: at(2)) }) == .claim(1), "beside a probe that hangs")
        state { $0.begin([4], at: at(2)) }
        #expect(state({ $0.step(window: 10, at: at(2)) }) == .wait(until: at(4)), "for longer with each")
        #expect(state({ $0.apply(.works, of: message(2, sentAt: now), at: at(3)) }).0 == nil)
        #expect(state({ $0.apply(.works, of: message(4, sentAt: at(2)), at: at(3)) }).0 == .resumed)
        #expect(!state({ $0.isProbe(anyOf: [3]) }), "its answer is of no account any more")
    }

    @Test("Probes are remembered up to a bound")
    func manyProbes() {
        let state = Box(FlowGate.State())
        _ = state { $0.apply(Self.busy, at: now) }
        state { $0.begin(Int64(1)...100, at: now) }
        #expect(!state({ $0.isProbe(anyOf: Int64(1)...92) }))
        #expect(state({ $0.isProbe(anyOf: [93]) }) && state({ $0.isProbe(anyOf: [100]) }))
    }

    @Test("The late refusal of a message sent before the pause hides no accepted probe, and shuts the gate no more")
    func lateRefusal() {
        for late in [Self.busy, .park(reason: "key", detail: nil)] {
            let state = Box(FlowGate.State())
            func at(_ seconds: Double) -> Date { now.addingTimeInterval(seconds) }
            state { $0.begin([1, 2, 3], at: now) }
            _ = state { $0.apply(Self.busy, of: message(1, sentAt: now), at: now) }
            #expect(state({ $0.step(window: 10, at: at(1)) }) == .claim(1))
            state { $0.begin([4], at: at(1)) }
            #expect(state({ $0.apply(late, of: message(2, sentAt: now), at: at(1.1)) }).0 == nil)
            #expect(state({ $0.apply(.works, of: message(4, sentAt: at(1)), at: at(1.2)) }).0 == .resumed)
            #expect(state({ $0.apply(late, of: message(3, sentAt: now), at: at(1.3)) }).0 == nil)
            #expect(state.value.status == .sending)
            #expect(state({ $0.apply(late, of: message(5, sentAt: at(1.4)), at: at(1.5)) }).0 != nil)
            #expect(state.value.status != .sending)
        }
    }

    @Test("The late failure of a message sent before does not open a breaker again whose probe is taken")
    func lateFailure() {
        let state = Box(FlowGate.State(breaker: Breaker(Breaker.Settings(failures: 1, cooldown: .seconds(30)))))
        let fails = BackendSignal.fails(reason: "deadline")
        let later = now.addingTimeInterval(30)
        state { $0.begin([1, 2, 3], at: now) }
        _ = state { $0.apply(fails, of: message(1, sentAt: now), at: now) }
        #expect(state({ $0.step(window: 10, at: later) }) == .claim(1))
        state { $0.begin([4], at: later) }
        #expect(state({ $0.apply(fails, of: message(2, sentAt: now), at: later) }).0 == nil)
        #expect(state({ $0.apply(.works, of: message(4, sentAt: later), at: later) }).0 == .closed)
        #expect(state({ $0.apply(fails, of: message(3, sentAt: now), at: later) }).0 == nil)
        #expect(state.value.breakerState.status == .closed)
    }

    @Test("A platform that slows us again and again gets a second's pause each time, and one line in ten minutes")
    func slowAgain() {
        let state = Box(FlowGate.State())
        var said: [Int] = []
        for second in 0..<1_300 {
            let time = now.addingTimeInterval(Double(second))
            if case .slowed(_, _, _, true)? = state({ $0.apply(.slow(reason: "busy", detail: nil), at: time) }).0 {
                said.append(second)
            }
            #expect(state({ $0.step(window: 10, at: time) }) == .wait(until: time.addingTimeInterval(1)))
            let change = state { $0.works(1, at: time.addingTimeInterval(1)) }
            #expect(change == (said.last == second ? .resumed : .resumedQuietly))
        }
        #expect(said == [0, 600, 1_200])
    }

    @Test("An answer of a platform that works ends a slowing, and not a pause for a time")
    func pauseBesideProbes() {
        let until = now.addingTimeInterval(60)
        for signal in [BackendSignal.slow(reason: "busy", detail: nil), .park(reason: "key", detail: nil)] {
            let state = Box(FlowGate.State())
            _ = state { $0.apply(signal, at: now) }
            _ = state { $0.apply(.pause(.seconds(60), reason: "quota"), at: now) }
            #expect(state({ $0.works(1, isProbe: false, at: now) }) == nil, "the answer of a message sent before")
            #expect(state({ $0.works(1, at: now.addingTimeInterval(1)) }) == .resumed)
            #expect(state({ $0.step(window: 10, at: now) }) == .wait(until: until))
            #expect(state.value.blockDetail.reason == "quota")
            #expect(state({ $0.step(window: 10, at: until) }) == .claim(10))
        }
    }

    @Test("The status shows the pause that holds now, neither an earlier park nor good health")
    func pauseThatHolds() {
        let state = Box(FlowGate.State())
        _ = state { $0.apply(.park(reason: "foreign_answer", detail: "A wrong base_url."), at: now) }
        #expect(!state.value.isPauseInForce)
        _ = state { $0.apply(.pause(.seconds(60), reason: "quota"), at: now) }
        _ = state { $0.apply(.pause(.seconds(5), reason: "busy"), at: now) }
        #expect(state.value.isPauseInForce)
        #expect(state.value.blockDetail.reason == "quota")
        #expect(state.value.blockDetail.sentence == nil)
        _ = state { $0.step(window: 10, at: now.addingTimeInterval(60)) }
        #expect(!state.value.isPauseInForce)
        #expect(state.value.blockDetail.reason == "foreign_answer")
        #expect(state.value.blockDetail.sentence == "A wrong base_url.")
        let paused = WorkerStatus(backend: "a", pauseReason: "quota", isPaused: true).health(BackendHealth())
        #expect(paused.status == .degraded)
        #expect(paused.detail == "paused by the platform, quota")
        let parked = WorkerStatus(backend: "a", pauseReason: "quota", isParked: true, isPaused: true)
        #expect(parked.health(BackendHealth()).status == .down)
        #expect(parked.health(BackendHealth()).detail == "paused by the platform, quota")
    }

    @Test("A probe goes at once when an operator says so, but not before the time that the platform asked for")
    func retryNow() {
        let state = Box(FlowGate.State())
        #expect(state({ $0.endOwnPauses(at: now) }) == EndedPauses())
        _ = state { $0.apply(.park(reason: "key", detail: nil), at: now) }
        #expect(state({ $0.endOwnPauses(at: now) }).ended == [EndedPauses.Pause(.parked, reason: "key")])
        #expect(state({ $0.step(window: 10, at: now) }) == .claim(1))
        let until = now.addingTimeInterval(60)
        _ = state { $0.apply(.pause(.seconds(60), reason: "quota"), at: now) }
        let kept = EndedPauses.Pause(.platform, reason: "quota", until: until)
        #expect(state({ $0.endOwnPauses(at: now) }).kept == [kept])
        #expect(state({ $0.step(window: 10, at: now) }) == .wait(until: until))
    }

    @Test("A platform that was out of reach gets its probe as soon as it is back, and not more often than every 10 s")
    func backInReach() throws {
        let state = Box(FlowGate.State(breaker: Breaker(BreakerSettings(failures: 1))))
        func at(_ seconds: Double) -> Date { now.addingTimeInterval(seconds) }
        _ = state { $0.apply(.fails(reason: "http_500"), at: now) }
        #expect(!state.value.waitsForReach(at: now), "a platform that fails is no platform out of reach")
        _ = state { $0.step(window: 10, at: at(30)) }
        _ = state { $0.apply(.fails(reason: "connect_failed"), at: at(30)) }
        #expect(state.value.waitsForReach(at: at(31)))
        #expect(
            state({ $0.note(isInReach: true, at: at(31)) }) == nil,
            "one whose health says nothing makes no difference"
        )
        #expect(state({ $0.note(isInReach: false, at: at(32)) }) == at(32.5))
        #expect(state({ $0.step(window: 10, at: at(32)) }) == .wait(until: at(90)))
        #expect(state({ $0.note(isInReach: true, at: at(32.5)) }) == at(32.5))
        #expect(state({ $0.step(window: 10, at: at(32.5)) }) == .claim(1), "the probe")
        // It fails: the breaker is open for as long as it would have been without.
        _ = state { $0.apply(.fails(reason: "connect_failed"), at: at(33)) }
        #expect(state({ $0.note(isInReach: false, at: at(34)) }) == at(34.5))
        #expect(state({ $0.note(isInReach: true, at: at(35)) }) == at(35.5))
        #expect(state({ $0.step(window: 10, at: at(35)) }) == .wait(until: at(33 + 120)))
        #expect(state({ $0.note(isInReach: true, at: at(43)) }) == at(43))
        #expect(state({ $0.step(window: 10, at: at(43)) }) == .claim(1))
    }

    @Test("A slowing of the gateway's own ends when an operator says so")
    func slowedNow() {
        let state = Box(FlowGate.State())
        _ = state { $0.apply(.slow(reason: "busy", detail: nil), at: now) }
        #expect(state({ $0.endOwnPauses(at: now) }).ended == [EndedPauses.Pause(.backoff, reason: "busy")])
        #expect(state({ $0.step(window: 10, at: now) }) == .claim(1))
    }

    @Test("A change is seen by every loop that waits, and by one that waits only afterwards")
    func change() async {
        let gate = FlowGate()
        let mark = gate.step(window: 1, at: now).mark
        async let first: Void = gate.waitForChange(after: mark)
        async let second: Void = gate.waitForChange(after: mark)
        gate.wake()
        await first
        await second
        await gate.waitForChange(after: mark)
    }

    @Test("Failures open the breaker; then one message probes, and its acceptance lets all go")
    func breaker() throws {
        let state = Box(FlowGate.State(breaker: Breaker(Breaker.Settings(failures: 3, cooldown: .seconds(30)))))
        #expect(state({ $0.step(window: 100, at: now) }) == .claim(100))
        state { $0.begin(Int64(1)...3, at: now) }
        for _ in 0..<2 { #expect(state({ $0.apply(.fails(reason: "deadline"), at: now) }).0 == nil) }
        let until = now.addingTimeInterval(30)
        #expect(
            state({ $0.apply(.fails(reason: "deadline"), at: now) }).0 == .opened(until: until, reason: "deadline")
        )
        #expect(state.value.breakerState == WorkerStatus.Breaker(.open, until: until, reason: "deadline"))
        _ = state { $0.finish(Int64(1)...3) }
        #expect(state({ $0.step(window: 100, at: now) }) == .wait(until: until))
        #expect(state({ $0.step(window: 100, at: until) }) == .claim(1))
        state { $0.begin([4], at: until) }
        guard case .wait = state({ $0.step(window: 100, at: until) }) else {
            Issue.record("a second message went along with the probe")
            return
        }
        #expect(state({ $0.works(1, at: until) }) == .closed)
        _ = state { $0.finish([4]) }
        #expect(state({ $0.step(window: 100, at: until) }) == .claim(100))
        #expect(state.value.troubleSince == nil)
    }

    @Test("A probe that sent nothing is made again at once")
    func probe() {
        let state = Box(FlowGate.State(breaker: Breaker(Breaker.Settings(failures: 1, cooldown: .seconds(30)))))
        _ = state { $0.apply(.fails(reason: "deadline"), at: now) }
        let later = now.addingTimeInterval(31)
        #expect(state({ $0.step(window: 10, at: later) }) == .claim(1))
        state { $0.begin([1], at: later) }
        _ = state { $0.finish([1]) }  // It had expired.
        #expect(state({ $0.step(window: 10, at: later) }) == .claim(1))
    }

    @Test("A worker that stands still looks for deliveries without a fallback delay, and only when there are such")
    func fallback() {
        let bears = Box(FlowGate.State(breaker: Breaker(Breaker.Settings(failures: 1, cooldown: .seconds(30)))))
        _ = bears { $0.apply(.fails(reason: "deadline"), at: now) }
        #expect(
            bears({ $0.step(window: 10, at: now.addingTimeInterval(20)) }) == .wait(until: now.addingTimeInterval(30))
        )
        let settings = Breaker.Settings(failures: 1, cooldown: .seconds(30))
        let hurries = Box(FlowGate.State(breaker: Breaker(settings), fallbackAfter: .seconds(10)))
        _ = hurries { $0.apply(.fails(reason: "deadline"), at: now) }
        #expect(hurries({ $0.step(window: 10, at: now) }) == .wait(until: now.addingTimeInterval(10)))
        let end = now.addingTimeInterval(10)
        #expect(hurries({ $0.step(window: 10, at: end) }) == .passOn)
        #expect(hurries({ $0.step(window: 10, at: end) }) == .wait(until: end.addingTimeInterval(0.25)))
        #expect(hurries.value.blockReason == "breaker_open")
    }

    @Test("One answer that works does not end the wait for a fallback that a pause or a doubt uses up")
    func fallbackBesideWork() {
        let end = now.addingTimeInterval(1_200)
        let paused = Box(FlowGate.State(fallbackAfter: .seconds(30)))
        _ = paused { $0.apply(.pause(.seconds(1_200), reason: "slow_down"), at: now) }
        _ = paused { $0.works(999, at: now) }
        #expect(paused({ $0.step(window: 10, at: now) }) == .wait(until: now.addingTimeInterval(30)))
        #expect(paused({ $0.step(window: 10, at: now.addingTimeInterval(30)) }) == .passOn)
        _ = paused { $0.works(1, at: end) }
        #expect(paused.value.troubleSince == nil)

        let settled = Box(FlowGate.State(fallbackAfter: .seconds(30)))
        _ = settled { $0.apply(.pause(.seconds(1_200), reason: "slow_down"), at: now) }
        _ = settled { $0.quarantine(true, at: now) }
        _ = settled { $0.quarantine(false, at: now) }
        #expect(settled({ $0.step(window: 10, at: now.addingTimeInterval(30)) }) == .passOn)
    }

    @Test("A worker that found as many without a fallback delay as it may take looks again at once")
    func passingOnMore() {
        let settings = Breaker.Settings(failures: 1, cooldown: .seconds(300))
        let state = Box(FlowGate.State(breaker: Breaker(settings), fallbackAfter: .seconds(10)))
        _ = state { $0.apply(.fails(reason: "deadline"), at: now) }
        let end = now.addingTimeInterval(10)
        #expect(state({ $0.step(window: 10, at: end) }) == .passOn)
        state { $0.passOnMore() }
        #expect(state({ $0.step(window: 10, at: end) }) == .passOn)
    }

    @Test("A worker whose invalidations are quarantined sends nothing, whatever time passes, until they are settled")
    func held() {
        let state = Box(FlowGate.State())
        _ = state { $0.quarantine(true, at: now) }
        #expect(state({ $0.step(window: 10, at: now.addingTimeInterval(1e6)) }) == .wait(until: nil))
        #expect(state.value.breakerState == WorkerStatus.Breaker(.open, reason: "mass_invalidation"))
        _ = state { $0.quarantine(false, at: now) }
        #expect(state({ $0.step(window: 10, at: now) }) == .claim(10))
    }
}

@Suite("Limits of a worker", .timeLimit(.minutes(1)))
struct WorkerLimitTests {
    private let now = Date(timeIntervalSince1970: 1_790_000_000)

    @Test("A full list of recipients takes many more at no greater cost")
    func manyRecipients() {
        let pauses = Box(RecipientPauses())
        for number in 0..<18_000 {
            let until = now.addingTimeInterval(Double(1_000_000 + number))
            pauses { $0.pause(.topic("t\(number)"), until: until, at: now) }
        }
        #expect(pauses({ $0.pause(of: .topic("t7999"), at: now) }) == nil, "those that end first go")
        #expect(pauses({ $0.pause(of: .topic("t8000"), at: now) }) != nil)
        for _ in 0..<50_000 { pauses { $0.pause(.topic("t17999"), until: now.addingTimeInterval(2e6), at: now) } }
        #expect(pauses({ $0.pause(of: .topic("t8000"), at: now) }) != nil, "the same one again takes no place")
        #expect(
            pauses.value.longest(3, at: now).map(\.recipient) == [.topic("t17999"), .topic("t17998"), .topic("t17997")]
        )
    }

    @Test("A shorter wish does not end a longer one")
    func shorter() {
        let pauses = Box(RecipientPauses())
        let until = now.addingTimeInterval(600)
        for seconds in [600.0, 60] {
            pauses { $0.pause(.topic("a"), until: now.addingTimeInterval(seconds), at: now) }
        }
        #expect(pauses({ $0.pause(of: .topic("a"), at: now) }) == until)
        #expect(pauses({ $0.pause(of: .topic("a"), at: now.addingTimeInterval(61)) }) == until)
        pauses { $0.pause(.topic("a"), until: now.addingTimeInterval(900), at: now) }
        #expect(pauses({ $0.pause(of: .topic("a"), at: until) }) == now.addingTimeInterval(900))
    }

    @Test("A recipient is left alone until its time, and the list of such is bounded")
    func recipients() {
        let pauses = Box(RecipientPauses(capacity: 2))
        #expect(pauses.value.isEmpty)
        for (place, name) in ["a", "b", "c"].enumerated() {
            pauses { $0.pause(.topic(name), until: now.addingTimeInterval(Double(place + 10)), at: now) }
        }
        #expect(pauses({ $0.pause(of: .topic("a"), at: now) }) == nil)
        #expect(pauses({ $0.pause(of: .topic("c"), at: now) }) != nil)
        #expect(pauses({ $0.pause(of: .topic("c"), at: now.addingTimeInterval(12)) }) == nil)
    }
}
