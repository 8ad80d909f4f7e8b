public import ChaparCore

extension GatewayConfiguration {
    /// The section `tracing`: where the spans of notifications are sent.
    public struct Tracing: Sendable, Hashable {
        /// `endpoint`: the address of a collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`.
        ///
        /// `/v1/traces` is added to an address without a path.
        public var endpoint: String
        /// `sample`: the share of requests without a `traceparent` for which a trace is begun, from 0 to 1; 0.01 by
        /// default.
        ///
        /// For a request with a `traceparent` its sender decides, by the flag `sampled`.
        public var sample = 0.01
        /// `headers`: further header fields of requests to the collector, such as the key of a service.
        public var headers: [String: Secret] = [:]
        /// `service_name`: the name of the service in traces; `chapar` by default.
        public var serviceName = "chapar"
        /// `ca_file`: certificates to trust beside the system's, PEM.
        public var trust: String?

        /// Makes the defaults with an address.
        public init(endpoint: String) { self.endpoint = endpoint }
    }
}
