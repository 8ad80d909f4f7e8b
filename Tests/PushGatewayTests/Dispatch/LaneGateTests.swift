import Foundation
import PushCore
import Testing

@testable import PushGateway

/// A value that an expectation can change and look at in one expression.
private final class Box<Value> {
    var value: Value
    init(_ value: Value) { self.value = value }
    func callAsFunction<Result>(_ body: (inout Value) -> Result) -> Result { body(&value) }
}

@Suite("The gate of a lane", .timeLimit(.minutes(1)))
struct LaneGateTests {
    private let now = Date(timeIntervalSince1970: 1_790_000_000)

    @Test("Only what there is room for is claimed, and not in crumbs while plenty is under way")
    func room() {
        let state = Box(LaneGate.State())
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
        let state = Box(LaneGate.State())
        _ = state { $0.step(window: 1000, at: now) }
        state.value.inFlight = 1000
        #expect(!state({ $0.finish(100) }))
        #expect(state({ $0.finish(150) }))
        state.value.inFlight = 1
        #expect(state({ $0.finish(1) }))
        let small = Box(LaneGate.State())
        _ = small { $0.step(window: 2, at: now) }
        small.value.inFlight = 2
        #expect(small({ $0.finish(1) }))
    }

    @Test("A pause holds until its time, and a shorter one does not shorten it")
    func pause() {
        let state = Box(LaneGate.State())
        let until = now.addingTimeInterval(60)
        #expect(state({ $0.pause(until: until, reason: "slow") }))
        #expect(!state({ $0.pause(until: now.addingTimeInterval(5), reason: "slow") }))
        #expect(state({ $0.step(window: 10, at: now) }) == .wait(until: until))
        #expect(state({ $0.step(window: 10, at: until) }) == .claim(10))
        #expect(state.value.pauseReason == nil)
    }

    @Test("A parked lane tries one delivery at a time, after waits that double, until one is taken")
    func park() throws {
        let state = Box(LaneGate.State())
        let first = try #require(state({ $0.park(reason: "key", at: now) }))
        #expect(first == now.addingTimeInterval(15))
        #expect(state({ $0.park(reason: "key", at: now) }) == nil, "a thousand refusals at once are one piece of news")
        #expect(state({ $0.step(window: 1000, at: first) }) == .claim(1))
        state.value.inFlight = 1
        #expect(state({ $0.step(window: 1000, at: first) }) == .wait(until: nil))
        let second = try #require(state({ $0.park(reason: "key", at: first) }))
        #expect(second == first.addingTimeInterval(30))
        state.value.inFlight = 0
        #expect(state({ $0.works() }))
        #expect(!state({ $0.works() }))
        #expect(state({ $0.step(window: 1000, at: first) }) == .claim(1000))
    }

    @Test("A stop is seen by a loop that waits, and by one that waits only afterwards")
    func stop() async {
        let gate = LaneGate()
        async let waiting: Void = gate.waitForChange()
        gate.stop()
        await waiting
        await gate.waitForChange()
        #expect(gate.update { ($0.step(window: 1, at: now), wakes: false) } == .stop)
    }

    @Test("A change that comes before the wait is not lost")
    func earlyChange() async {
        let gate = LaneGate()
        gate.wake()
        await gate.waitForChange()
    }
}

@Suite("Limits of a lane", .timeLimit(.minutes(1)))
struct LaneLimitTests {
    private let now = Date(timeIntervalSince1970: 1_790_000_000)

    @Test("A rate is kept over any span, with a burst of a tenth of a second")
    func rate() {
        let limiter = Box(RateLimiter(rate: 100, at: now))
        var sent = 0
        for step in 0...1000 {
            sent += limiter({ $0.take(1000, at: now.addingTimeInterval(Double(step) / 100)) }).granted
        }
        #expect((1000...1011).contains(sent))
    }

    @Test("An empty bucket says when to ask again; what was not used goes back")
    func waiting() {
        let limiter = Box(RateLimiter(rate: 10, at: now))
        #expect(limiter({ $0.take(5, at: now) }).granted == 1)
        let refused = limiter { $0.take(1, at: now) }
        #expect(refused.granted == 0)
        #expect(abs(refused.retryAt.timeIntervalSince(now) - 0.1) < 0.001)
        limiter { $0.giveBack(1) }
        #expect(limiter({ $0.take(1, at: now) }).granted == 1)
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
