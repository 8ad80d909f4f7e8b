import Crypto
import Foundation
import SwiftASN1
import X509

@testable import ChaparHTTP

/// A certificate authority for one test run: what it signs is valid for 127.0.0.1 and `localhost` unless told
/// otherwise.
struct TestAuthority: Sendable {
    /// A certificate and its key, PEM.
    struct Identity: Sendable {
        let certificatePEM: String
        let keyPEM: String
    }

    static var shared: TestAuthority { get throws { try made.get() } }
    /// No client trusts this one.
    static var stranger: TestAuthority { get throws { try madeStranger.get() } }

    private static let made = Result { try TestAuthority(name: "Chapar test CA") }
    private static let madeStranger = Result { try TestAuthority(name: "Stranger CA") }

    let certificatePEM: String
    private let key = P256.Signing.PrivateKey()
    private let name: DistinguishedName

    init(name: String) throws {
        self.name = try DistinguishedName { CommonName(name) }
        let certificate = try Certificate(
            version: .v3,
            serialNumber: .init(),
            publicKey: .init(key.publicKey),
            notValidBefore: .now - 86_400,
            notValidAfter: .now + 86_400,
            issuer: self.name,
            subject: self.name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
            },
            issuerPrivateKey: .init(key)
        )
        certificatePEM = try certificate.serializeAsPEM().pemString
    }

    /// Signs a certificate for the given DNS names and 127.0.0.1.
    func identity(
        names: [String] = ["localhost"],
        withAddress: Bool = true,
        notValidAfter: Date = .now + 86_400,
        isClient: Bool = false
    ) throws -> Identity {
        let leafKey = P256.Signing.PrivateKey()
        var subjects = names.map { GeneralName.dnsName($0) }
        if withAddress { subjects.append(.ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1]))) }
        let certificate = try Certificate(
            version: .v3,
            serialNumber: .init(),
            publicKey: .init(leafKey.publicKey),
            notValidBefore: .now - 2 * 86_400,
            notValidAfter: notValidAfter,
            issuer: name,
            subject: try DistinguishedName { CommonName(names.first ?? "test") },
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                SubjectAlternativeNames(subjects)
                try ExtendedKeyUsage([isClient ? .clientAuth : .serverAuth])
            },
            issuerPrivateKey: .init(key)
        )
        return Identity(
            certificatePEM: try certificate.serializeAsPEM().pemString,
            keyPEM: leafKey.pemRepresentation
        )
    }
}

/// A folder for one test, removed with it.
final class TestFolder: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "chapar-http-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Writes a file and gives its path.
    @discardableResult
    func write(_ name: String, _ text: String) throws -> String {
        let file = url.appending(path: name)
        try Data(text.utf8).write(to: file)
        return file.path
    }
}
