public import Foundation
internal import ChaparCore

/// How fast a campaign's deliveries are made; without any limit as fast as the platforms take them.
public struct CampaignPace: Sendable, Hashable {
    /// The highest rate, in deliveries a minute.
    public static let fastest = 100_000_000.0
    /// The longest span of ``over``, in seconds: that of a notification's longest time to live.
    public static let longestSpan: Int64 = 2_419_200

    /// A part of the audience that gets the campaign before the rest.
    public struct Wave: Sendable, Hashable {
        /// The part of the audience, with all waves before it, in hundredths of a percent: 1 to 9,999.
        public var upTo: Int64
        /// The pause after it, in seconds.
        public var pause: Int64

        /// Makes a wave.
        public init(upTo: Int64, pause: Int64) { (self.upTo, self.pause) = (upTo, pause) }
    }

    /// The most deliveries a minute, above 0; nil for no limit.
    public var perMinute: Double?
    /// The span over which the audience is spread evenly, in seconds; nil for none.
    public var over: Int64?
    /// The waves that come before the rest, in the order of ``Wave/upTo``.
    public var waves: [Wave]
    /// The largest share of a wave's ended deliveries that may have failed; nil for no limit.
    ///
    /// If more failed, the campaign pauses itself after the wave.
    public var stopAbove: Double?

    /// Makes a pace, by default without any limit.
    public init(perMinute: Double? = nil, over: Int64? = nil, waves: [Wave] = [], stopAbove: Double? = nil) {
        self.perMinute = perMinute
        self.over = over
        self.waves = waves
        self.stopAbove = stopAbove
    }

    /// Whether it limits the rate.
    package var limitsRate: Bool { perMinute != nil || over != nil }

    /// The number of passes over the audience: one for each wave, and one for the rest.
    package var passes: Int { waves.count + 1 }

    /// Returns the buckets of a pass, of 10,000 in which devices fall (``AudiencePlan/bucket(of:)``).
    package func buckets(ofPass pass: Int) -> Range<Int64> {
        let start = pass > 0 && pass <= waves.count ? waves[pass - 1].upTo : 0
        let end = waves.indices.contains(pass) ? waves[pass].upTo : 10_000
        return start..<max(start, end)
    }
}

/// The number of deliveries, with a fraction, that the pace of a campaign allows now and that are not made yet.
///
/// It is stored with the campaign, so a restart neither repeats nor loses a part of it. Deliveries that could not be
/// made while the gateway stood still, or the queue was full, are not made faster later: the rate is never above the
/// pace.
public struct PaceCredit: Sendable, Hashable {
    /// The span whose deliveries may be made at once after a time without any, in seconds.
    static let burst = 2.0

    /// The deliveries that may be made now; below 0 after a window that made more than were due.
    public var amount: Double
    /// The steady time up to which it counts.
    public var at: Date
    /// The seconds of ``CampaignPace/over`` that have passed while the campaign ran.
    public var spread: Double

    /// Makes the credit of a campaign that begins: its first delivery is due at once.
    public init(at time: Date) { (amount, at, spread) = (1, time, 0) }

    /// Makes a credit.
    public init(amount: Double, at time: Date, spread: Double) {
        (self.amount, self.at, self.spread) = (amount, time, spread)
    }

    /// Adds what has become due up to a time at a rate of deliveries a second.
    package mutating func advance(to now: Date, rate: Double) {
        let span = now.timeIntervalSince(at)
        guard span > 0 else { return }
        at = now
        spread += min(span, max(10, rate > 0 ? 2 / rate : 10))
        amount = min(amount + span * rate, max(1, rate * Self.burst))
    }

    /// The whole deliveries that may be made now.
    package var whole: Int { amount >= 1 ? Int(clamping: min(amount, 1_000_000)) : 0 }

    /// Returns the seconds until the next delivery is due at a rate.
    package func wait(rate: Double) -> TimeInterval { rate > 0 ? max(0, (1 - amount) / rate) : 3_600 }
}
