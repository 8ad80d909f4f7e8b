package import Crypto
public import Foundation
internal import SwiftASN1
package import X509

/// A certificate authority that exists for one run of the sandbox: clients trust its certificate and no other.
public struct SandboxCertificateAuthority: Sendable {
    /// The kind of server certificate to issue.
    @nonexhaustive
    public enum ServerCertificate: String, Sendable, CaseIterable {
        /// Valid, for `localhost`, `127.0.0.1` and `::1`.
        case valid
        /// For the right names, but expired.
        case expired
        /// Valid, but for another host.
        case wrongHost = "wrong_host"
    }

    /// A certificate with its private key, both PEM.
    public struct Identity: Sendable {
        /// The certificate.
        public let certificatePEM: String
        /// The private key, PKCS#8.
        public let privateKeyPEM: String
    }

    /// The authority's own certificate, which clients must trust.
    public let certificatePEM: String
    private let key: P256.Signing.PrivateKey
    private let name: DistinguishedName

    /// Makes a new authority with a new key, valid for a year from a day ago.
    public init(now: Date = Date()) throws {
        let key = P256.Signing.PrivateKey()
        let name = try DistinguishedName { CommonName("Chapar Sandbox CA") }
        let certificate = try Certificate(
            version: .v3,
            serialNumber: .init(),
            publicKey: .init(key.publicKey),
            notValidBefore: now.addingTimeInterval(-86_400),
            notValidAfter: now.addingTimeInterval(365 * 86_400),
            issuer: name,
            subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                Critical(KeyUsage(keyCertSign: true, cRLSign: true))
                SubjectKeyIdentifier(hash: .init(key.publicKey))
            },
            issuerPrivateKey: .init(key)
        )
        certificatePEM = try certificate.serializeAsPEM().pemString
        self.key = key
        self.name = name
    }

    /// Issues a certificate for the simulators' listeners.
    public func serverIdentity(_ kind: ServerCertificate = .valid, now: Date = Date()) throws -> Identity {
        let leaf = P256.Signing.PrivateKey()
        let names: [GeneralName] =
            kind == .wrongHost
            ? [.dnsName("elsewhere.example")]
            : [
                .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
                .ipAddress(ASN1OctetString(contentBytes: ArraySlice(Array(repeating: 0, count: 15) + [1]))),
            ]
        return try issue(
            leaf,
            subject: try DistinguishedName { CommonName("Chapar Sandbox") },
            from: now.addingTimeInterval(-86_400 * (kind == .expired ? 30 : 1)),
            until: now.addingTimeInterval(kind == .expired ? -86_400 : 30 * 86_400),
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage([.serverAuth])
                SubjectAlternativeNames(names)
            }
        )
    }

    /// Issues a certificate for a key.
    package func issue(
        _ leaf: P256.Signing.PrivateKey,
        subject: DistinguishedName,
        from: Date,
        until: Date,
        extensions: Certificate.Extensions
    ) throws -> Identity {
        let certificate = try Certificate(
            version: .v3,
            serialNumber: .init(),
            publicKey: .init(leaf.publicKey),
            notValidBefore: from,
            notValidAfter: until,
            issuer: name,
            subject: subject,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: extensions,
            issuerPrivateKey: .init(key)
        )
        return Identity(
            certificatePEM: try certificate.serializeAsPEM().pemString,
            privateKeyPEM: leaf.pemRepresentation
        )
    }
}
