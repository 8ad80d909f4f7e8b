import Crypto
public import Foundation
public import ChaparCore

/// The `.p8` key of a team: a P-256 key in PEM form, which signs provider tokens.
///
/// Each wrong thing that an operator can supply has its own message.
public struct APNsAuthKey: Sendable {
    let key: P256.Signing.PrivateKey

    /// The error for a text that is not a usable key: what it is instead, and what to do.
    public struct Mistake: Error, Sendable, Hashable {
        /// The problem, as the end of a sentence about the key: "is an encrypted key".
        ///
        /// Never holds key material.
        public let problem: String
        /// The fix, in one or more sentences.
        public let fix: String
    }

    /// Reads a key; line breaks may be written as `\n`, as environment variables often have them.
    public init(pem: Secret) throws(Mistake) {
        let text = pem.reveal().replacingOccurrences(of: "\\n", with: "\n")
        if let mistake = Self.mistake(in: text) { throw mistake }
        do {
            key = try P256.Signing.PrivateKey(pemRepresentation: text.trimmingCharacters(in: .whitespacesAndNewlines))
        } catch {
            throw Self.otherKey(text)
        }
    }

    /// The signature of a text as a JWT wants it: r and s, 32 bytes each.
    func signature(of text: some DataProtocol) throws -> [UInt8] {
        Array(try key.signature(for: text).rawRepresentation)
    }

    /// Whether this key made the signature.
    func isValid(_ signature: [UInt8], of text: some DataProtocol) -> Bool {
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
        return key.publicKey.isValidSignature(signature, for: text)
    }

    private static let download =
        "Give the AuthKey_….p8 file from Apple's developer site (Certificates, Identifiers & Profiles, Keys) unchanged."

    private static func mistake(in text: String) -> Mistake? {
        if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED") {
            return Mistake(
                problem: "is an encrypted key",
                fix: "Remove its passphrase: openssl pkcs8 -topk8 -nocrypt -in FILE -out plain.p8"
            )
        }
        if text.contains("PRIVATE KEY-----") {
            return text.contains("-----BEGIN RSA PRIVATE KEY-----")
                ? Mistake(problem: "is an RSA key, not a P-256 key", fix: download) : nil
        }
        if text.contains("-----BEGIN CERTIFICATE-----") {
            return Mistake(
                problem: "is a certificate, not a key",
                fix: "Use certificate_file and certificate_key_file for a certificate. \(download)"
            )
        }
        if text.contains("-----BEGIN PUBLIC KEY-----") {
            return Mistake(problem: "is a public key; the private key is needed", fix: download)
        }
        return Mistake(problem: "is not a PEM key: it has no -----BEGIN PRIVATE KEY----- line", fix: download)
    }

    /// Why a PEM private key is not a P-256 key: the curve is named by the object identifier in its DER form.
    private static func otherKey(_ text: String) -> Mistake {
        let der = body(of: text)
        let algorithms: [(oid: [UInt8], name: String)] = [
            ([0x2B, 0x81, 0x04, 0x00, 0x22], "a P-384 key"),
            ([0x2B, 0x81, 0x04, 0x00, 0x23], "a P-521 key"),
            ([0x2B, 0x81, 0x04, 0x00, 0x0A], "a secp256k1 key"),
            ([0x2B, 0x65, 0x70], "an Ed25519 key"),
            ([0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01], "an RSA key"),
        ]
        for (oid, name) in algorithms where der.firstRange(of: [0x06, UInt8(clamping: oid.count)] + oid) != nil {
            return Mistake(problem: "is \(name); APNs takes P-256 keys only", fix: download)
        }
        return Mistake(problem: "is a damaged key: it cannot be decoded", fix: download)
    }

    private static func body(of text: String) -> [UInt8] {
        let lines = text.split(whereSeparator: \.isNewline).filter { !$0.hasPrefix("-----") }
        return Data(base64Encoded: lines.joined(), options: .ignoreUnknownCharacters).map(Array.init) ?? []
    }
}

extension APNsAuthKey.Mistake: LocalizedError, CustomStringConvertible {
    /// A sentence for people.
    public var description: String { "the key \(problem). \(fix)" }

    /// The description.
    public var errorDescription: String? { description }
}
