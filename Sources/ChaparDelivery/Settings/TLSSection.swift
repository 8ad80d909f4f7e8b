package import Foundation
internal import NIOSSL

extension GatewayConfiguration {
    /// The section `server.tls`: the certificate with which the API speaks TLS, 1.2 at least.
    ///
    /// A reload uses another one for new connections; open ones keep theirs.
    public struct TLS: Sendable {
        /// `certificate_file`: the server's certificate and the intermediate ones, PEM.
        public var certificates: [UInt8]
        /// `key_file`: the private key, PEM.
        public var key: [UInt8]
        /// `client_ca_file`: the authorities of clients' certificates, PEM; without it no client certificate is
        /// requested.
        public var clientAuthorities: [UInt8]?

        /// Makes the settings.
        public init(certificates: [UInt8], key: [UInt8], clientAuthorities: [UInt8]? = nil) {
            self.certificates = certificates
            self.key = key
            self.clientAuthorities = clientAuthorities
        }

        /// The expiry of the server's own certificate; nil when it cannot be read.
        package var notAfter: Date? {
            let chain = try? NIOSSLCertificate.fromPEMBytes(certificates)
            return chain?.first.map { Date(timeIntervalSince1970: TimeInterval($0.notValidAfter)) }
        }
    }
}
