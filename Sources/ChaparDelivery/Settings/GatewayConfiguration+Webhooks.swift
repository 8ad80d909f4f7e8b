public import ChaparCore

extension GatewayConfiguration {
    /// The section `webhooks`: the addresses to which webhooks may be sent.
    ///
    /// Webhooks are added through the API; ``feedbackURL`` adds one more.
    public struct Webhooks: Sendable, Hashable {
        /// `feedback_url`: the address of a webhook named `feedback`, which gets the default types of events; none by
        /// default.
        public var feedbackURL: String?
        /// `feedback_secret`: the signing key of that webhook, `whsec_` and base64; a random key by default.
        public var feedbackSecret: Secret?
        /// `allow_networks`: networks that webhooks may be sent to although they are not public, such as `10.0.0.0/8`.
        ///
        /// Plain HTTP, any port and any name are allowed for these networks. None by default.
        public var allowedNetworks: [String] = []
        /// `allow_ports`: ports of public addresses besides 443; none by default.
        public var allowedPorts: [Int] = []
        /// `ca_file`: certificates to trust beside the system's, PEM.
        public var trust: String?
        /// Makes the defaults.
        public init() {}
    }
}
