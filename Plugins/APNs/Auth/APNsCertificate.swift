public import Foundation
public import ChaparCore
import SwiftASN1
import X509

/// A client certificate for APNs with its key, its topics and its dates.
///
/// Read with the configuration, so that a wrong topic is found before Apple refuses it. Its dates are not checked
/// there.
public struct APNsCertificate: Sendable {
    /// The topics it names, in its order.
    public let topics: [String]
    /// The time from which it is valid.
    public let notBefore: Date
    /// The time until which it is valid.
    public let notAfter: Date
    /// Whether it is valid for the production host.
    public let isForProduction: Bool
    /// Whether it is valid for the development host.
    public let isForDevelopment: Bool
    /// The pair as the connection pool wants it.
    public let pair: HTTPPoolConfiguration.ClientCertificate

    /// The error for a certificate or a key that cannot be used.
    public struct Mistake: Error, Sendable, Hashable {
        /// Which of the two is wrong.
        @nonexhaustive
        public enum Part: Sendable {
            /// The certificate.
            case certificate
            /// The private key.
            case key
        }

        /// Which of the two is wrong.
        public let part: Part
        /// The problem, as the end of a sentence about that part: "is an encrypted key".
        ///
        /// Never holds key material.
        public let problem: String
        /// The fix, in one or more sentences.
        public let fix: String
    }

    private static let userID: ASN1ObjectIdentifier = [0, 9, 2342, 19_200_300, 100, 1, 1]
    private static let development: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 1]
    private static let production: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 2]
    private static let voip: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 4]
    private static let topicList: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 3, 6]
    private static let export = "Export both from the keychain. \(PEMReader.fromKeychain)"

    /// Reads a certificate (with its intermediates, if any) and its key, both PEM in any of the shapes that `PEMReader`
    /// reads.
    public init(chainPEM: String, keyPEM: Secret) throws(Mistake) {
        let chainPEM = try Self.read(.certificate) { () throws(CredentialMistake) in
            try PEMReader.certificates(in: Secret(chainPEM))
        }
        let certificate = try Self.certificate(in: chainPEM)
        let keyPEM = try Self.read(.key) { () throws(CredentialMistake) in try PEMReader.privateKey(in: keyPEM) }
        try Self.check(keyPEM.reveal(), fits: certificate)
        pair = .init(chainPEM: chainPEM, keyPEM: keyPEM)
        topics = Self.topics(of: certificate)
        notBefore = certificate.notValidBefore
        notAfter = certificate.notValidAfter
        // A certificate with neither mark does not limit the host: Apple decides.
        let isMarkedDevelopment = certificate.extensions[oid: Self.development] != nil
        let isMarkedProduction = certificate.extensions[oid: Self.production] != nil
        isForDevelopment = isMarkedDevelopment || !isMarkedProduction
        isForProduction = isMarkedProduction || !isMarkedDevelopment
    }

    /// Whether the certificate names the app's topic, or names no topic at all.
    func allows(_ topic: String) -> Bool { topics.isEmpty || topics.contains(topic) }

    private static let name = "The client certificate"
    private static let renewal = "Renew it on Apple's developer site and replace certificate_file."

    /// Returns the finding of `chapar doctor` about its dates.
    func validity(at now: Date) -> Diagnosis {
        Diagnosis.certificate(
            Self.name,
            notBefore: notBefore,
            notAfter: notAfter,
            at: now,
            renew: Self.renewal
        )
    }

    /// Returns the refusal of every message while the certificate has expired or is not valid yet; nil while it is
    /// valid.
    func problem(at now: Date) -> Refusal? {
        Refusal.outOfDate(Self.name, notBefore: notBefore, notAfter: notAfter, at: now, renew: Self.renewal)
    }

    private static func read<Value>(
        _ part: Mistake.Part,
        _ value: () throws(CredentialMistake) -> Value
    ) throws(Mistake) -> Value {
        do throws(CredentialMistake) {
            return try value()
        } catch {
            throw Mistake(part: part, problem: error.problem, fix: error.fix ?? export)
        }
    }

    private static func certificate(in chain: String) throws(Mistake) -> Certificate {
        guard let document = try? PEMDocument.parseMultiple(pemString: chain).first,
            let certificate = try? Certificate(pemDocument: document)
        else {
            throw Mistake(part: .certificate, problem: "is a damaged certificate: it cannot be decoded", fix: export)
        }
        return certificate
    }

    private static func check(_ key: String, fits certificate: Certificate) throws(Mistake) {
        guard let document = try? PEMDocument(pemString: key),
            let parsed = try? Certificate.PrivateKey(pemDocument: document)
        else {
            throw Mistake(part: .key, problem: "is a damaged key: it cannot be decoded", fix: export)
        }
        guard parsed.publicKey == certificate.publicKey else {
            throw Mistake(
                part: .key,
                problem: "does not belong to the certificate",
                fix: "Export certificate and key together from the keychain in which the request was made."
            )
        }
    }

    /// Returns the topics: a universal certificate has them in an extension, each followed by the name of its kind; an
    /// older one has its one topic in the subject.
    private static func topics(of certificate: Certificate) -> [String] {
        var topics: [String] = []
        for oid in [topicList, voip] {
            guard let value = certificate.extensions[oid: oid]?.value, let root = try? DER.parse(value) else {
                continue
            }
            switch root.content {
            case .primitive(let bytes): topics.append(String(decoding: bytes, as: UTF8.self))
            case .constructed(let nodes):
                for node in nodes {
                    guard case .primitive(let bytes) = node.content else { continue }
                    topics.append(String(decoding: bytes, as: UTF8.self))
                }
            }
        }
        for name in certificate.subject {
            for attribute in name where attribute.type == userID { topics.append(String(describing: attribute.value)) }
        }
        var seen: Set<String> = []
        return topics.filter { APNsHeaders.isTopic($0) && seen.insert($0).inserted }
    }
}

extension APNsCertificate.Mistake: LocalizedError, CustomStringConvertible {
    /// A sentence for people.
    public var description: String { "the \(part == .certificate ? "certificate" : "key") \(problem). \(fix)" }

    /// The description.
    public var errorDescription: String? { description }
}
