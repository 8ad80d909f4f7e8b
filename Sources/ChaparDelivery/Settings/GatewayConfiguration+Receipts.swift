extension GatewayConfiguration {
    /// The reports of an app about arrivals and openings: `apps.NAME.receipts`.
    public struct Receipts: Sendable, Hashable {
        /// `receipts_per_second`: the most reports of the app that a gateway stores a second, default 500.
        public var perSecond = 500
        /// Makes the defaults.
        public init() {}
    }
}
