package import Foundation
internal import NIOSSL
internal import PushCore

extension GatewayConfiguration {
    /// The section `server.tls`: the certificate with which the API speaks TLS, 1.2 at least.
    ///
    /// A reload puts another one in force for new connections; those that are open go on with theirs.
    public struct TLS: Sendable {
        /// `certificate_file`: the server's certificate and those between it and the authority, PEM.
        public var certificates: [UInt8]
        /// `key_file`: the private key, PEM.
        public var key: [UInt8]
        /// `client_ca_file`: the authorities of clients' certificates, PEM; without one no certificate is asked for.
        public var clientAuthorities: [UInt8]?

        /// Makes the settings.
        public init(certificates: [UInt8], key: [UInt8], clientAuthorities: [UInt8]? = nil) {
            self.certificates = certificates
            self.key = key
            self.clientAuthorities = clientAuthorities
        }

        /// When the server's own certificate ends; nil when it cannot be read.
        package var notAfter: Date? {
            let chain = try? NIOSSLCertificate.fromPEMBytes(certificates)
            return chain?.first.map { Date(timeIntervalSince1970: TimeInterval($0.notValidAfter)) }
        }

        /// What connections are encrypted with.
        ///
        /// Throws where a file is not what it should be, or the key is another certificate's.
        func context() throws -> NIOSSLContext {
            let chain = try NIOSSLCertificate.fromPEMBytes(certificates).map { NIOSSLCertificateSource.certificate($0) }
            let key = try NIOSSLPrivateKey(bytes: key, format: .pem)
            var tls = TLSConfiguration.makeServerConfiguration(certificateChain: chain, privateKey: .privateKey(key))
            tls.minimumTLSVersion = .tlsv12
            tls.applicationProtocols = ["http/1.1"]
            if let clientAuthorities {
                tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(clientAuthorities))
                tls.certificateVerification = .noHostnameVerification
            }
            return try NIOSSLContext(configuration: tls)
        }
    }
}
