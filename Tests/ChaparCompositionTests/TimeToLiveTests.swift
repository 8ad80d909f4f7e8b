import Foundation
import ChaparCore
import ChaparComposition
import ChaparTesting
import Testing

@Suite("A time to live given to the everyday calls", .timeLimit(.minutes(1)))
struct TimeToLiveTests {
    private static let phone = Recipient.token(DeviceToken("a", service: .iOSAPNs))

    private static func message(_ timeToLive: Duration) -> PushNotification {
        PushNotification(title: "OTP 1234", timeToLive: timeToLive)
    }

    private static func end(_ time: InstantTime, _ seconds: Int64) -> PushRequest.Expiration {
        .at(Int64(time.now.timeIntervalSince1970) + seconds)
    }

    @Test("Ends retries, and every attempt has the same expiry")
    func retries() async {
        let time = InstantTime()
        let start = time.now
        let end = Self.end(time, 100)
        let backend = ScriptedBackend { _ in PlanAnswer.retryLater.outcome }
        let retrying = RetryingBackend(backend, deadline: .seconds(3600), time: time, random: { 1 })
        let outcome = await retrying.send(Self.message(.seconds(100)), to: Self.phone)
        #expect(outcome == PlanAnswer.retryLater.outcome)
        // 0 s, 31 s, 63 s, 97 s; the next would be after 100 s.
        #expect(backend.calls.map(\.expiration) == [end, end, end, end])
        #expect(time.now.timeIntervalSince(start) < 100)
    }

    @Test("Of a part of a second ends retries with that part, though platforms count whole seconds")
    func fraction() async {
        let time = InstantTime()
        let end = Self.end(time, 1)
        let backend = ScriptedBackend { _ in PlanAnswer.retry.outcome }
        let policy = RetryPolicy(firstWait: .milliseconds(600))
        let retrying = RetryingBackend(backend, policy: policy, time: time, random: { 1 })
        _ = await retrying.send(Self.message(.milliseconds(500)), to: Self.phone)
        #expect(backend.calls.map(\.expiration) == [end])
    }

    @Test("Of zero is exactly one attempt at each backend")
    func nowOrNever() async {
        let first = ScriptedBackend { _ in PlanAnswer.retry.outcome }
        let second = ScriptedBackend { _ in PlanAnswer.retry.outcome }
        let time = InstantTime()
        _ = await RetryingBackend(first, time: time).send(Self.message(.zero), to: Self.phone)
        #expect(first.calls.map(\.expiration) == [.immediately])
        let chain = FallbackBackend([NamedBackend("first", first), NamedBackend("second", second)], time: time)
        _ = await chain.send(Self.message(.zero), to: Self.phone)
        #expect(first.calls.count == 2)
        #expect(second.calls.map(\.expiration) == [.immediately])
        #expect(time.slept.isEmpty)
    }

    @Test("Ends the wait for a quota, and of zero does not wait", arguments: [(0, 1...1), (2, 19...22)])
    func pacing(seconds: Int, taken: ClosedRange<Int>) async {
        let time = InstantTime()
        let start = time.now
        let inner = ScriptedBackend()
        let paced = RateLimitedBackend(inner, pacing: Pacing(perSecond: 10), time: time)
        let outcomes = await paced.send(
            Self.message(.seconds(seconds)),
            to: (0..<80).map { .token(DeviceToken("t\($0)", service: .iOSAPNs)) }
        )
        let expired = outcomes.filter { $0.refusal?.reason == "expired" && $0.refusal?.advice == .never }
        #expect(inner.taken + expired.count == 80)
        #expect(taken.contains(inner.taken))
        #expect(time.now.timeIntervalSince(start) < Double(seconds) + 0.1)
    }

    @Test("Does not end the wait of the messages behind it")
    func others() async {
        let inner = ScriptedBackend()
        let paced = RateLimitedBackend(inner, pacing: Pacing(perSecond: 1), time: InstantTime())
        let recipients = (0..<3).map { Addressee(.token(DeviceToken("t\($0)", service: .iOSAPNs))) }
        let outcomes = await paced.send([
            PushRequest(Self.message(.zero), to: recipients), PushRequest(Self.message(.seconds(60)), to: recipients),
        ])
        #expect(outcomes[0].map(\.isAccepted) == [true, false, false])
        #expect(outcomes[1].map(\.isAccepted) == [true, true, true])
    }

    @Test("Is fixed by every composition, so that what is inside it counts no longer")
    func compositions() async {
        let time = InstantTime()
        let inner = ScriptedBackend()
        let members = [NamedBackend("inner", inner)]
        let compositions: [any PushBackend] = [
            FallbackBackend(members, time: time), FanOutBackend(members, time: time),
            CircuitBreakingBackend(inner, time: time), BulkheadBackend(inner, limit: 1, time: time),
            RateLimitedBackend(inner, pacing: Pacing(perSecond: 10), time: time), RetryingBackend(inner, time: time),
        ]
        let end = Self.end(time, 5)
        for composition in compositions {
            #expect(await composition.send(Self.message(.seconds(5)), to: Self.phone).isAccepted)
        }
        #expect(inner.calls.map(\.expiration) == compositions.map { _ in end })
    }
}
