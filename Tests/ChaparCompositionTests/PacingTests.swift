import Foundation
import ChaparCore
import ChaparComposition
import ChaparTesting
import Testing

@Suite("Token bucket", .timeLimit(.minutes(1)))
struct TokenBucketTests {
    private static let start = Date(timeIntervalSince1970: 1_767_225_600)

    /// Takes all it can get for some seconds, asking every 10 ms; the messages of each second.
    private static func drain(
        _ bucket: inout TokenBucket,
        seconds: Int,
        from start: Date = start,
        isUrgent: Bool = false
    )
        -> [Int]
    {
        (0..<seconds).map { second in
            (0..<100).reduce(0) { sum, tick in
                let now = start.addingTimeInterval(Double(second) + Double(tick) / 100)
                return sum + bucket.reserve(.max / 2, isUrgent: isUrgent, at: now).granted
            }
        }
    }

    @Test("Lets through the rate, and a tenth of a second at once", arguments: [5.0, 100, 10_000])
    func rate(perSecond: Double) {
        var bucket = TokenBucket(Pacing(perSecond: perSecond), at: Self.start)
        let counts = Self.drain(&bucket, seconds: 10)
        let burst = max(1, perSecond / 10)
        #expect(Double(counts.reduce(0, +)) <= perSecond * 10 + burst)
        #expect(Double(counts.reduce(0, +)) >= perSecond * 9.8)
    }

    @Test("Says when the next may go, and is right")
    func retryAt() {
        var bucket = TokenBucket(Pacing(perSecond: 4), at: Self.start)
        #expect(bucket.reserve(10, at: Self.start).granted == 1)
        let (none, retryAt) = bucket.reserve(1, at: Self.start)
        #expect(none == 0)
        #expect(abs(retryAt.timeIntervalSince(Self.start) - 0.25) < 0.001)
        #expect(bucket.reserve(1, at: retryAt).granted == 1)
    }

    @Test("A clock that is set back fills nothing twice")
    func clockSetBack() {
        var bucket = TokenBucket(Pacing(perSecond: 1), at: Self.start)
        #expect(bucket.reserve(1, at: Self.start).granted == 1)
        #expect(bucket.reserve(1, at: Self.start.addingTimeInterval(-100)).granted == 0)
        #expect(bucket.reserve(1, at: Self.start.addingTimeInterval(-99)).granted == 1)
    }

    @Test("Returned permits can be taken again, up to the bucket's size")
    func givesBack() {
        var bucket = TokenBucket(Pacing(perSecond: 100), at: Self.start)
        #expect(bucket.reserve(10, at: Self.start).granted == 10)
        bucket.release(reserved: 10, used: 6, at: Self.start)
        #expect(bucket.reserve(10, at: Self.start).granted == 4)
        bucket.release(reserved: 1000, used: 0, at: Self.start)
        #expect(bucket.reserve(1000, at: Self.start).granted == 10)
    }

    @Test("Permits taken long before their use do not fill the bucket a second time")
    func usedLate() {
        var bucket = TokenBucket(Pacing(perSecond: 100, burst: .seconds(10)), at: Self.start)
        #expect(bucket.reserve(512, at: Self.start).granted == 512)
        let later = Self.start.addingTimeInterval(30)
        bucket.release(reserved: 512, used: 512, at: later)
        #expect(bucket.reserve(1000, at: later).granted == 488)
        let idle = later.addingTimeInterval(30)
        #expect(bucket.reserve(512, at: idle).granted == 512)
        bucket.release(reserved: 512, used: 0, at: idle.addingTimeInterval(30))
        #expect(bucket.reserve(2000, at: idle.addingTimeInterval(30)).granted == 1000)
    }

    @Test("A ramp rises from its start to the whole rate and no faster")
    func rampUp() {
        var bucket = TokenBucket(Pacing.perMinute(600_000, rampUp: .seconds(60)), at: Self.start)
        let counts = Self.drain(&bucket, seconds: 70)
        #expect(counts[0] <= 1_300)
        for second in 1..<70 {
            let allowed = 10_000 * min(1, 0.1 + 0.9 * Double(second + 1) / 60)
            #expect(Double(counts[second]) <= allowed + 1, "second \(second)")
        }
        #expect(counts[65] >= 9_900)
        #expect(counts[30] >= 5_000 && counts[30] <= 5_800)
    }

    @Test("Idle time lowers the ramp again")
    func rampDown() {
        var bucket = TokenBucket(Pacing(perSecond: 1_000, rampUp: .seconds(10)), at: Self.start)
        _ = Self.drain(&bucket, seconds: 12)
        #expect(bucket.rate > 990)
        _ = bucket.reserve(1, at: Self.start.addingTimeInterval(60))
        #expect(bucket.rate < 110)
    }

    @Test("Urgent messages find room while others take all they can")
    func urgent() {
        var bucket = TokenBucket(Pacing(perSecond: 1_000, urgentShare: 0.1), at: Self.start)
        var urgent = 0
        var others = 0
        for tick in 0..<1_000 {
            let now = Self.start.addingTimeInterval(Double(tick) / 100)
            others += bucket.reserve(.max / 2, at: now).granted
            if tick % 10 == 0 { urgent += bucket.reserve(10, isUrgent: true, at: now).granted }
        }
        #expect(urgent == 1_000, "ten a tenth of a second, each at once")
        #expect(others + urgent <= 10_000 + 200)
        #expect(others >= 8_800)
    }

    @Test("A paced backend spreads a batch over time, refuses what would wait too long, and reports all")
    func backend() async {
        let time = InstantTime()
        let start = time.now
        let inner = ScriptedBackend()
        let paced = RateLimitedBackend(inner, pacing: Pacing(perSecond: 10), maximumWait: .seconds(5), time: time)
        let outcomes = await paced.send(
            PushNotification(title: "Slow"),
            to: (0..<80).map { .token(DeviceToken("t\($0)", service: .iOSAPNs)) }
        )
        let refused = outcomes.filter { $0.refusal?.reason == "rate_limited" }
        #expect(inner.taken + refused.count == 80)
        #expect((50...52).contains(inner.taken))
        #expect(time.now.timeIntervalSince(start) <= 5.1)
    }
}
