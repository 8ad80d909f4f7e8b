/// When a breaker opens and for how long.
public struct BreakerSettings: Sendable, Hashable {
    /// The number of failures within ``window`` that opens the breaker, if they are also at least ``share`` of the
    /// answers.
    ///
    /// A failed request of several messages counts as one failure.
    public var failures: Int
    /// The part of the answers that must be failures, from 0 to 1.
    ///
    /// A busy backend that loses one message in a thousand is not broken.
    public var share: Double
    /// The span in which failures are counted.
    public var window: Duration
    /// How long it stays open before a probe; doubled after each probe that fails.
    public var cooldown: Duration
    /// The upper limit of the doubled ``cooldown``.
    public var longestCooldown: Duration

    /// Makes settings.
    public init(
        failures: Int = 5,
        share: Double = 0.5,
        window: Duration = .seconds(30),
        cooldown: Duration = .seconds(30),
        longestCooldown: Duration = .seconds(300)
    ) {
        self.failures = max(1, failures)
        self.share = share
        self.window = window
        self.cooldown = cooldown
        self.longestCooldown = max(cooldown, longestCooldown)
    }
}

extension BreakerSettings {
    /// Reads a breaker; nil when it is switched off.
    ///
    /// ## Configuration keys of the map
    /// - `enabled` (default true).
    /// - `failures` (default 5): so many failures within the window open it,
    /// - `share` (0 to 1, default 0.5): if they are this share of the answers as well.
    /// - `window` (seconds, default 30).
    /// - `cooldown` (seconds, default 30): how long it stays open before a probe; doubles up to `longest_cooldown`
    ///   (default 300).
    static func read(_ section: ConfigSection, _ key: String) -> BreakerSettings? {
        let plain = BreakerSettings()
        guard let breaker = section.section(key) else { return plain }
        let isEnabled = breaker.bool("enabled", default: true)
        let settings = BreakerSettings(
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
