/// The rate at which a backend may be used, by a platform's quota or an operator's limit.
public struct Pacing: Sendable, Hashable {
    /// The messages a second; above 0.
    public var perSecond: Double
    /// The largest burst, as a span of the rate; a single message is always allowed.
    public var burst: Duration
    /// The time in which the rate rises from ``startShare`` to the full rate; with zero the full rate applies at once.
    ///
    /// Idle time lowers the rate again, as fast as busy time raises it.
    public var rampUp: Duration
    /// The part of the rate that a ramp starts at, above 0 and at most 1.
    public var startShare: Double
    /// The share of a second's messages that is reserved for urgent ones, from 0 to 1.
    public var urgentShare: Double

    /// Makes a pacing.
    public init(
        perSecond: Double,
        burst: Duration = .milliseconds(100),
        rampUp: Duration = .zero,
        startShare: Double = 0.1,
        urgentShare: Double = 0
    ) {
        self.perSecond = max(perSecond, 0.000_001)
        self.burst = burst
        self.rampUp = rampUp
        self.startShare = min(1, max(0.001, startShare))
        self.urgentShare = min(1, max(0, urgentShare))
    }

    /// Makes a pacing from a quota in messages a minute.
    public static func perMinute(_ messages: Double, rampUp: Duration = .zero, urgentShare: Double = 0) -> Pacing {
        Pacing(perSecond: messages / 60, rampUp: rampUp, urgentShare: urgentShare)
    }
}

extension Pacing {
    /// Reads a rate: messages a second as a number, or a map of `per_second` or `per_minute` with further keys.
    ///
    /// ## Configuration keys of the map
    /// - `per_second`, `per_minute` (number): exactly one of them.
    /// - `burst` (seconds, default 0.1): how much may come at once, as a span of the rate.
    /// - `ramp_up` (seconds, default 0): how long the rate takes to rise from a tenth to the whole.
    /// - `urgent_share` (0 to 1, default 0): how much of a second's messages only those of high priority may use.
    ///
    /// Nil when the key is absent or wrong; mistakes are in the report.
    init?(_ section: ConfigSection, _ key: String) {
        guard section.holdsMap(key), let rate = section.section(key) else {
            guard let rate = section.integer(key, in: 1...10_000_000) else { return nil }
            self.init(perSecond: Double(rate))
            return
        }
        let before = section.report.issues.count
        let limit = 0.001...600_000_000.0
        let perSecond = rate.number("per_second", in: limit)
        let perMinute = rate.number("per_minute", in: limit)
        switch (perSecond, perMinute) {
        case (nil, nil): rate.missing("per_second", "messages a second, or per_minute")
        case (.some, .some): rate.reject("per_minute", "stands beside per_second", fix: "Leave one of the two out.")
        default: break
        }
        let burst = rate.seconds("burst", in: 0...60, default: .milliseconds(100))
        let rampUp = rate.seconds("ramp_up", in: 0...86400, default: .zero)
        let urgentShare = rate.number("urgent_share", in: 0...1, default: 0)
        rate.finish()
        guard section.report.issues.count == before, let perSecond = perSecond ?? perMinute.map({ $0 / 60 }) else {
            return nil
        }
        self.init(perSecond: perSecond, burst: burst, rampUp: rampUp, urgentShare: urgentShare)
    }
}
