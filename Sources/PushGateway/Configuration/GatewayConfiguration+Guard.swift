internal import PushCore

extension GatewayConfiguration {
    /// When the dead-token answers of a backend are too many to be believed.
    ///
    /// A wrong environment or topic makes a platform call every token dead; then no device may be lost.
    public struct InvalidationGuard: Sendable, Hashable {
        /// `enabled`: whether verdicts are ever doubted.
        ///
        /// Default true.
        public var isEnabled = true
        /// `window`: the share is that of the answers within it, default 300 s.
        public var window = Duration.seconds(300)
        /// `min_answers`: with fewer answers in the window every verdict is believed.
        ///
        /// Default 50.
        public var minimumAnswers = 50
        /// `share`: above this share of dead-token answers they are held back, 0 to 1.
        ///
        /// Default 0.3.
        public var share = 0.3
        /// Makes the defaults.
        public init() {}

        /// Reads the section.
        init(_ section: ConfigSection) {
            isEnabled = section.bool("enabled", default: isEnabled)
            window = section.seconds("window", in: 1...86400, default: window)
            minimumAnswers = section.integer("min_answers", in: 1...1_000_000, default: minimumAnswers)
            share = section.number("share", in: 0...1, default: share)
            section.finish()
        }
    }
}
