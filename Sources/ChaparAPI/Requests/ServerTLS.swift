package import ChaparDelivery
package import NIOSSL

extension GatewayConfiguration.TLS {
    /// Makes the TLS context for connections.
    ///
    /// Throws when a file is not valid PEM of its kind, or the key belongs to another certificate.
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
        return try NIOSSLContext(configuration: tls)
    }
}
