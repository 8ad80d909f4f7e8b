/// The keys of a backend's section that say how fast and under which conditions it is used, read for every kind.
extension Pacing {
    /// Reads a rate: messages a second as a number, or a map of `per_second` or `per_minute` with further keys.
    ///
    /// ## Configuration keys of the map
    /// - `per_second`, `per_minute` (number): exactly one of them.
    /// - `burst` (seconds, default 0.1): how much may come at once, as a span of the rate.
    /// - `ramp_up` (seconds, default 0): how long the rate takes to rise from a tenth to the whole.
    /// - `urgent_share` (0 to 1, default 0): how much of a second's messages only those of high priority may use.
    ///
    /// Nil when the key is absent or wrong; what is wrong is in the report.
    init?(_ section: ConfigSection, _ key: String) {
        guard section.holdsMap(key), let rate = section.section(key) else {
            guard let rate = section.integer(key, in: 1...10_000_000) else { return nil }
            self.init(perSecond: Double(rate))
            return
        }
        let before = section.report.issues.count
        let limit = 0.001...600_000_000.0
        let perSecond = rate.has("per_second") ? rate.number("per_second", in: limit, default: 1) : nil
        let perMinute = rate.has("per_minute") ? rate.number("per_minute", in: limit, default: 1) : nil
        switch (perSecond, perMinute) {
        case (nil, nil): rate.missing("per_second", "messages a second, or per_minute")
        case (.some, .some): rate.reject("per_minute", "stands beside per_second", fix: "Leave one of the two out.")
        default: break
        }
        let burst = rate.seconds("burst", in: 0...60, default: .milliseconds(100))
        let rampUp = rate.seconds("ramp_up", in: 0...86400, default: .zero)
        let urgentShare = rate.number("urgent_share", in: 0...1, default: 0)
        if perMinute == nil { rate.allow("per_minute") }
        if perSecond == nil { rate.allow("per_second") }
        rate.finish()
        guard section.report.issues.count == before, let perSecond = perSecond ?? perMinute.map({ $0 / 60 }) else {
            return nil
        }
        self.init(perSecond: perSecond, burst: burst, rampUp: rampUp, urgentShare: urgentShare)
    }
}

extension Breaker.Settings {
    /// Reads a breaker; nil when it is switched off.
    ///
    /// ## Configuration keys of the map
    /// - `enabled` (default true).
    /// - `failures` (default 5): so many failures within the window open it,
    /// - `share` (0 to 1, default 0.5): if they are this share of the answers as well.
    /// - `window` (seconds, default 30).
    /// - `cooldown` (seconds, default 30): how long it stays open before a probe; doubles up to `longest_cooldown`
    ///   (default 300).
    static func read(_ section: ConfigSection, _ key: String) -> Breaker.Settings? {
        let plain = Breaker.Settings()
        guard let breaker = section.section(key) else { return plain }
        let isEnabled = breaker.bool("enabled", default: true)
        let settings = Breaker.Settings(
            failures: breaker.integer("failures", in: 1...1_000_000, default: plain.failures),
            share: breaker.number("share", in: 0...1, default: plain.share),
            window: breaker.seconds("window", in: 1...86400, default: plain.window),
            cooldown: breaker.seconds("cooldown", in: 0.1...86400, default: plain.cooldown),
            longestCooldown: breaker.seconds("longest_cooldown", in: 0.1...86400, default: plain.longestCooldown)
        )
        breaker.finish()
        return isEnabled ? settings : nil
    }
}
