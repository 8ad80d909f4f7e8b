import Crypto
public import Foundation
public import ChaparCore

/// The `.p8` key of a team: a P-256 key in PEM form, which signs provider tokens.
///
/// Each known mistake of an operator has its own message.
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

    /// Reads a key in any of the shapes that `PEMReader` reads.
    public init(pem: Secret) throws(Mistake) {
        let plain: Secret
        do throws(CredentialMistake) {
            plain = try PEMReader.privateKey(in: pem)
        } catch {
            throw Mistake(problem: error.problem, fix: error.fix ?? Self.download)
        }
        do {
            key = try P256.Signing.PrivateKey(pemRepresentation: plain.reveal())
        } catch {
            throw Self.otherKey(plain)
        }
    }

    /// Returns the signature of a text in the form of a JWT: r and s, 32 bytes each.
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

    /// Returns the mistake for a private key that is not a P-256 key.
    private static func otherKey(_ pem: Secret) -> Mistake {
        guard let name = PEMReader.algorithm(ofKey: pem), name != "a P-256 key" else {
            return Mistake(problem: "is a damaged key: it cannot be decoded", fix: download)
        }
        return Mistake(problem: "is \(name); APNs takes P-256 keys only", fix: download)
    }
}

extension APNsAuthKey.Mistake: LocalizedError, CustomStringConvertible {
    /// A sentence for people.
    public var description: String { "the key \(problem). \(fix)" }

    /// The description.
    public var errorDescription: String? { description }
}
