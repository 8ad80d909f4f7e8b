package import ChaparDelivery
package import NIOSSL

/// A private key of another certificate.
package struct ForeignKey: Error {}

extension GatewayConfiguration.TLS {
    /// Makes the TLS context for connections.
    ///
    /// Throws when a file is not valid PEM of its kind, and ``ForeignKey`` when the key belongs to another certificate.
    package func context() throws -> NIOSSLContext {
        let chain = try NIOSSLCertificate.fromPEMBytes(certificates).map { NIOSSLCertificateSource.certificate($0) }
        let key = try NIOSSLPrivateKey(bytes: key, format: .pem)
        var tls = TLSConfiguration.makeServerConfiguration(certificateChain: chain, privateKey: .privateKey(key))
        tls.minimumTLSVersion = .tlsv12
        tls.applicationProtocols = ["http/1.1"]
        if let clientAuthorities {
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(clientAuthorities))
            tls.certificateVerification = .noHostnameVerification
        }
        do {
            return try NIOSSLContext(configuration: tls)
        } catch NIOSSLError.failedToLoadPrivateKey {
            throw ForeignKey()  // The key itself was read above.
        }
    }
}
