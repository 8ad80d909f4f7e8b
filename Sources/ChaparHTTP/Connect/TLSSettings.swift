import NIOCore
import NIOSSL
import ChaparCore

/// The TLS rules of every connection: always full verification, with the system's roots and the configured ones.
extension HTTPPoolConfiguration {
    /// Returns the settings for NIOSSL, without application protocols.
    ///
    /// Throws an error that names the wrong part; it never quotes key material.
    func tlsConfiguration() throws(HTTPPoolError) -> TLSConfiguration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.certificateVerification = .fullVerification
        tls.shutdownTimeout = .seconds(1)  // A peer that does not answer the goodbye must not hold a shutdown up.
        if let extraTrustPEM {
            tls.additionalTrustRoots = [
                .certificates(try Self.certificates(extraTrustPEM, "the extra trust (ca_file)"))
            ]
        }
        if let clientCertificate {
            let chain = try Self.certificates(clientCertificate.chainPEM, "the client certificate")
            tls.certificateChain = chain.map { .certificate($0) }
            let pem: Secret
            do throws(CredentialMistake) {
                pem = try PEMReader.privateKey(in: clientCertificate.keyPEM)
            } catch {
                throw HTTPPoolError("the client certificate's private key \(error)")
            }
            do {
                tls.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: Array(pem.reveal().utf8), format: .pem))
            } catch {
                throw HTTPPoolError("the client certificate's private key cannot be read")
            }
        }
        return tls
    }

    /// Returns the shared TLS state of a pool's connections; ALPN offers only `protocols`.
    func tlsContext(protocols: [String]) throws(HTTPPoolError) -> NIOSSLContext {
        var tls = try tlsConfiguration()
        tls.applicationProtocols = protocols
        do {
            return try NIOSSLContext(configuration: tls)
        } catch {
            throw HTTPPoolError("TLS cannot be set up; does the client certificate belong to its key?")
        }
    }

    private static func certificates(_ pem: String, _ what: String) throws(HTTPPoolError) -> [NIOSSLCertificate] {
        let plain: String
        do throws(CredentialMistake) {
            plain = try PEMReader.certificates(in: Secret(pem))
        } catch {
            throw HTTPPoolError("\(what) \(error)")
        }
        let certificates = (try? NIOSSLCertificate.fromPEMBytes(Array(plain.utf8))) ?? []
        guard !certificates.isEmpty else { throw HTTPPoolError("\(what) holds no certificate that can be read") }
        return certificates
    }
}
