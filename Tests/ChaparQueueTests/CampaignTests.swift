import ChaparComposition
import ChaparCore
import Foundation
import Testing

@testable import ChaparQueue

@Suite("The decisions about a campaign", .timeLimit(.minutes(1)))
struct CampaignTests {
    private static let start = Date(millisecondsSince1970: 1_800_000_000_000)

    private static func campaign(_ pace: CampaignPace = CampaignPace()) -> Campaign {
        Campaign(
            id: NotificationID(rawValue: 77),
            caller: "shop",
            app: .default,
            record: NotificationRecord(content: Array("{}".utf8), plans: [.init([""])], acceptedAt: start),
            audience: Array("{}".utf8),
            name: "spring",
            expiresAt: start + 86_400,
            pace: pace
        )
    }

    /// Runs a campaign over devices with the numbers up to `bound`, of which each `every`-th matches, in steps of a
    /// tenth of a second.
    ///
    /// Returns the deliveries that were made, by the number of the step.
    private static func run(
        _ campaign: inout Campaign,
        bound: Int64,
        every: Int64 = 1,
        for seconds: Int,
        from first: Int = 0,
        restartEvery: Int? = nil
    ) -> [Int: Int] {
        var made: [Int: Int] = [:]
        var windows = 0
        for step in first * 10..<(first + seconds) * 10 {
            let now = Date(millisecondsSince1970: start.millisecondsSince1970 + Int64(step) * 100)
            guard case .window(let most) = campaign.next(at: now, node: "a", load: CampaignLoad(), bound: 20_000) else {
                continue
            }
            campaign.begin(at: now, bound: bound)
            let end = min(bound, campaign.cursor + Int64(most) * every)
            let count = Int(end / every - campaign.cursor / every)
            campaign.count(upTo: end, matched: count, reached: count, enqueued: count, skipped: [:])
            made[step, default: 0] += count
            windows += 1
            if let restartEvery, windows % restartEvery == 0 {
                // A restart: the campaign as the store has it.
                campaign = Campaign(encoded: campaign.encoded, version: campaign.version) ?? campaign
            }
        }
        return made
    }

    /// Calls a change, which the macro of an expectation cannot.
    private func changed(_ change: () -> Bool) -> Bool { change() }

    @Test("1,019 a minute are 1,019 in each minute, also over restarts", arguments: [nil, 1, 7])
    func rate(restartEvery: Int?) {
        var campaign = Self.campaign(CampaignPace(perMinute: 1_019))
        let made = Self.run(&campaign, bound: 1_000_000, for: 300, restartEvery: restartEvery)
        for minute in 0..<5 {
            let span = minute * 600..<minute * 600 + 600
            let count = made.filter { span.contains($0.key) }.values.reduce(0, +)
            #expect(abs(count - 1_019) <= 1, "minute \(minute)")
        }
    }

    @Test("One in three minutes is one in three minutes")
    func slowest() {
        var campaign = Self.campaign(CampaignPace(perMinute: 1.0 / 3))
        let made = Self.run(&campaign, bound: 100, for: 3_600)
        #expect(made.values.reduce(0, +) == 20)
        #expect(made.values.max() == 1)
    }

    @Test("Deliveries missed during a pause are not sent in a burst after it")
    func noBurst() {
        var campaign = Self.campaign(CampaignPace(perMinute: 6_000))
        _ = Self.run(&campaign, bound: 1_000_000, for: 10)
        let made = Self.run(&campaign, bound: 1_000_000, for: 10, from: 3_600)
        #expect((1_000...1_300).contains(made.values.reduce(0, +)), "100 a second, and at most two seconds' more")
    }

    @Test("A span is filled evenly, whatever part of the registry matches", arguments: [1, 3, 40] as [Int64])
    func span(every: Int64) {
        var campaign = Self.campaign(CampaignPace(over: 600))
        let bound: Int64 = 120_000
        let made = Self.run(&campaign, bound: bound, every: every, for: 640)
        let all = Int(bound / every)
        #expect(made.values.reduce(0, +) == all)
        for part in 0..<10 {
            let span = part * 600..<part * 600 + 600
            let count = made.filter { span.contains($0.key) }.values.reduce(0, +)
            #expect(abs(count - all / 10) <= max(all / 50, 2 * Campaign.firstSpread), "minute \(part)")
        }
    }

    @Test("A span is filled evenly where the audience lies at the end of the registry, also over restarts")
    func spanAtTheEnd() {
        var campaign = Self.campaign(CampaignPace(over: 60))
        campaign.expected = 600
        let (first, bound): (Int64, Int64) = (119_400, 120_000)
        var made = Array(repeating: 0, count: 7)
        for step in 0..<700 {
            let now = Date(millisecondsSince1970: Self.start.millisecondsSince1970 + Int64(step) * 100)
            guard case .window(let most) = campaign.next(at: now, node: "a", load: CampaignLoad(), bound: 20_000) else {
                continue
            }
            campaign.begin(at: now, bound: bound)
            let begin = max(campaign.cursor, first)
            let end = min(bound, begin + Int64(most))
            let count = Int(end - begin)
            campaign.count(upTo: end, matched: count, reached: count, enqueued: count, skipped: [:])
            made[step / 100] += count
            campaign = Campaign(encoded: campaign.encoded, version: campaign.version) ?? campaign
        }
        #expect(made.reduce(0, +) == 600)
        for part in 0..<6 { #expect(abs(made[part] - 100) <= 20, "ten seconds \(part)") }
    }

    @Test("A pause makes nothing due, and a change of the pace keeps the fraction")
    func pauseAndPace() {
        var campaign = Self.campaign(CampaignPace(perMinute: 60))
        _ = Self.run(&campaign, bound: 1_000, for: 10)
        let before = campaign.enqueued
        #expect(changed { campaign.pause(true, at: Self.start + 10) })
        #expect(campaign.next(at: Self.start + 11, node: "a", load: CampaignLoad(), bound: 9) == .wait(until: nil))
        #expect(changed { !campaign.pause(true, at: Self.start + 11) }, "it is paused")
        #expect(changed { campaign.pause(false, at: Self.start + 500) })
        let made = Self.run(&campaign, bound: 1_000, for: 10, from: 500)
        #expect((9...11).contains(made.values.reduce(0, +)))
        #expect(changed { campaign.change(pace: CampaignPace(perMinute: 600), at: Self.start + 510) })
        let faster = Self.run(&campaign, bound: 1_000, for: 10, from: 510)
        #expect((99...121).contains(faster.values.reduce(0, +)))
        #expect(campaign.enqueued > before)
    }

    @Test("No window follows while much waits")
    func backPressure() {
        let campaign = Self.campaign()
        #expect(Self.next(campaign, waiting: 20_000) == .wait(until: Self.start + 0.1))
        #expect(Self.next(campaign, waiting: 19_900) == .wait(until: Self.start + 0.1))
        #expect(Self.next(campaign, waiting: 19_600) == .window(atMost: 400))
        #expect(Self.next(campaign, waiting: 0) == .window(atMost: Campaign.largestWindow))
    }

    @Test("After a count there is room for several windows, or none is made")
    func roomForSeveral() {
        var load = CampaignLoad(waiting: 15_001)
        load.isCounted = true
        let campaign = Self.campaign()
        func next() -> CampaignStep { campaign.next(at: Self.start, node: "a", load: load, bound: 20_000) }
        #expect(next() == .wait(until: Self.start + 0.2))
        load.waiting = 15_000
        #expect(next() == .window(atMost: Campaign.largestWindow))
    }

    private static func next(_ campaign: Campaign, waiting: Int, at second: Double = 0) -> CampaignStep {
        campaign.next(at: start + second, node: "a", load: CampaignLoad(waiting: waiting), bound: 20_000)
    }

    @Test("Another node waits for the lease, and no longer")
    func lease() {
        var campaign = Self.campaign()
        campaign.take(for: "b", until: Self.start + 30)
        #expect(Self.next(campaign, waiting: 0, at: 29) == .wait(until: Self.start + 30))
        #expect(Self.next(campaign, waiting: 0, at: 30) == .window(atMost: Campaign.largestWindow))
        campaign.take(for: "a", until: Self.start + 30)
        #expect(Self.next(campaign, waiting: 0, at: 1) == .window(atMost: Campaign.largestWindow))
    }

    @Test("It is over once its audience is done and nothing waits")
    func end() {
        var campaign = Self.campaign()
        campaign.begin(at: Self.start, bound: 10)
        campaign.count(upTo: 10, matched: 3, reached: 2, enqueued: 2, skipped: ["excluded": 1])
        #expect(campaign.isWhole)
        #expect(Self.next(campaign, waiting: 1) == .wait(until: nil))
        #expect(Self.next(campaign, waiting: 0) == .close)
        #expect(campaign.matched == campaign.reached + campaign.skipped.values.reduce(0, +))
        campaign.close(at: Self.start)
        #expect(campaign.phase == .finished)
        #expect(changed { !campaign.pause(true, at: Self.start) })
        #expect(changed { !campaign.end(.cancelled) })
    }

    @Test("An empty registry is done at once, which is no mistake")
    func nobody() {
        var campaign = Self.campaign()
        campaign.begin(at: Self.start, bound: 0)
        #expect(campaign.isWhole)
        #expect(Self.next(campaign, waiting: 0) == .close)
    }

    @Test("Its time to live ends it before it has gone through, and a cancellation at any time")
    func otherEnds() {
        var campaign = Self.campaign()
        #expect(Self.next(campaign, waiting: 0, at: 86_400) == .end(.expired))
        #expect(changed { campaign.end(.cancelled) })
        #expect(Self.next(campaign, waiting: 5) == .withdraw)
        #expect(Self.next(campaign, waiting: 0) == .close)
    }

    @Test("Waves divide the audience, each device into one of them")
    func waves() {
        let pace = CampaignPace(waves: [.init(upTo: 100, pause: 60), .init(upTo: 2_000, pause: 0)])
        #expect((0..<3).map(pace.buckets) == [0..<100, 100..<2_000, 2_000..<10_000])
        var sizes = [0, 0, 0]
        for number in 0..<20_000 {
            let bucket = AudiencePlan.bucket(of: "device-\(number)")
            for pass in 0..<3 where pace.buckets(ofPass: pass).contains(bucket) { sizes[pass] += 1 }
        }
        #expect(sizes.reduce(0, +) == 20_000)
        #expect((100...300).contains(sizes[0]) && (3_500...4_100).contains(sizes[1]))
    }

    @Test("The stop rule pauses after a wave, once; then it goes on")
    func stopRule() {
        var campaign = Self.campaign(CampaignPace(waves: [.init(upTo: 100, pause: 60)], stopAbove: 0.05))
        campaign.begin(at: Self.start, bound: 10)
        campaign.count(upTo: 10, matched: 100, reached: 100, enqueued: 100, skipped: [:])
        #expect(!campaign.isWhole)
        #expect(Self.next(campaign, waiting: 0) == .nextPass)
        #expect(changed { !campaign.beginNextPass(at: Self.start, failed: 6, of: 100) })
        #expect(campaign.isPaused && campaign.pauseReason == "stop_rule")
        #expect(changed { campaign.pause(false, at: Self.start + 5) })
        #expect(changed { campaign.beginNextPass(at: Self.start + 5, failed: 6, of: 100) })
        #expect(campaign.cursor == 0 && campaign.pass == 1)
        #expect(Self.next(campaign, waiting: 0, at: 6) == .wait(until: Self.start + 65))
        #expect(Self.next(campaign, waiting: 0, at: 66) == .window(atMost: Campaign.largestWindow))
        var other = Self.campaign(CampaignPace(waves: [.init(upTo: 100, pause: 0)], stopAbove: 0.05))
        #expect(changed { other.beginNextPass(at: Self.start, failed: 5, of: 100) }, "5 of 100 are not above 5 %")
    }

    @Test("Every field comes back from the stored form, and one of a newer program too")
    func coding() throws {
        var campaign = Self.campaign(
            CampaignPace(
                perMinute: 1_019,
                waves: [.init(upTo: 5, pause: 6), .init(upTo: 50, pause: 0)],
                stopAbove: 0.1
            )
        )
        campaign.keepsAll = true
        campaign.share = 0.5
        campaign.collapseID = "c"
        campaign.dueAt = Self.start + 1
        campaign.begin(at: Self.start, bound: 99)
        campaign.count(upTo: 7, matched: 4, reached: 3, enqueued: 6, skipped: ["no_token": 1, "excluded": 2])
        campaign.take(for: "b", until: Self.start + 9)
        _ = campaign.pause(true, at: Self.start + 2, reason: "stop_rule")
        campaign.take(for: "b", until: Self.start + 9)
        campaign.passAt = Self.start + 3
        campaign.endedAt = Self.start + 4
        campaign.phase = .expired
        campaign.record.metadata = Array(#"{"a":1}"#.utf8)
        var bytes = campaign.encoded
        let read = try #require(Campaign(encoded: bytes, version: 0))
        #expect(read == campaign)
        RecordCoding.append(200, [1, 2, 3], to: &bytes)
        let newer = try #require(Campaign(encoded: bytes, version: 3))
        #expect(newer.encoded == bytes, "a field that is not known is kept")
        for length in 0..<campaign.encoded.count {
            _ = Campaign(encoded: Array(campaign.encoded.prefix(length)), version: 0)  // Nothing traps.
        }
    }

    @Test("A part's place in its campaign comes back from its record")
    func part() throws {
        var record = NotificationRecord(content: [], plans: [.init(["apns"])], acceptedAt: Self.start)
        record.partOf = CampaignPart(campaign: 77, first: 1_234, keepsAll: true)
        #expect(try #require(NotificationRecord(encoded: record.encoded)) == record)
        let id = NotificationID(rawValue: 1_000)
        let head = DeliveryHead(id: id, record: record, expiresAt: Self.start)
        let claim = ClaimedDelivery(id: 1_003, head: head, recipient: .device("d"))
        #expect(claim.shownID == NotificationID(rawValue: 77))
        #expect(claim.shownPlace == 1_237)
    }
}
