public import ChaparCore

extension GatewayConfiguration {
    /// The section `webhooks`: where webhooks may be sent.
    ///
    /// Endpoints are added through the API; ``feedbackURL`` adds one more.
    public struct Webhooks: Sendable, Hashable {
        /// `feedback_url`: the address of an endpoint named `feedback`, which gets what needs an action; none by
        /// default.
        public var feedbackURL: String?
        /// `feedback_secret`: its key, `whsec_` and base64; a random one by default.
        public var feedbackSecret: Secret?
        /// `allow_networks`: networks that webhooks may be sent to although they are not public, such as `10.0.0.0/8`.
        ///
        /// Cleartext, any port and any name are allowed there. None by default.
        public var allowedNetworks: [String] = []
        /// `allow_ports`: ports of public addresses besides 443; none by default.
        public var allowedPorts: [Int] = []
        /// `ca_file`: certificates to trust beside the system's, PEM.
        public var trust: String?
        /// Makes the defaults.
        public init() {}
    }
}
