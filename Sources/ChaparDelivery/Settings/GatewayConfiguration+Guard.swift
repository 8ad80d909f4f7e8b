package import ChaparCore

extension GatewayConfiguration {
    /// The guard against mass invalidation: the shares of dead-token answers above which a backend's answers are not
    /// believed.
    ///
    /// A wrong environment or topic makes a platform call every token dead; no device may be lost then.
    public struct InvalidationGuard: Sendable, Hashable {
        /// `enabled`: whether the guard can stop a backend.
        ///
        /// Default true.
        public var isEnabled = true
        /// `window`: the time over which the share of dead-token answers is computed; 300 s by default.
        public var window = Duration.seconds(300)
        /// `min_answers`: the smallest number of answers in the window with which the guard can stop a backend.
        ///
        /// Default 50.
        public var minimumAnswers = 50
        /// `share`: the share of dead-token answers that may have another reason (`BadDeviceToken`) above which they
        /// are quarantined, 0 to 1.
        ///
        /// Default 0.3.
        public var share = 0.3
        /// `certain_share`: the same share for answers that only a dead token can cause (410 with the time,
        /// `UNREGISTERED`).
        ///
        /// Default 0.8, since an app with old installations has many dead tokens.
        public var certainShare = 0.8
        /// Makes the defaults.
        public init() {}

        /// Reads the section.
        package init(_ section: ConfigSection) {
            isEnabled = section.bool("enabled", default: isEnabled)
            window = section.seconds("window", in: 1...86400, default: window)
            minimumAnswers = section.integer("min_answers", in: 1...1_000_000, default: minimumAnswers)
            share = section.number("share", in: 0...1, default: share)
            certainShare = section.number("certain_share", in: 0...1, default: certainShare)
            section.finish()
        }
    }
}
