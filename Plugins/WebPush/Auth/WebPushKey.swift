internal import Crypto
internal import Foundation
public import ChaparCore

/// A VAPID key (RFC 8292): a P-256 key that signs the requests to push services, and that subscriptions are bound to.
public struct WebPushKey: Sendable {
    let key: P256.Signing.PrivateKey

    /// The error for a text that is not a usable key: what it is instead, and what to do.
    public struct Mistake: Error, Sendable, Hashable {
        /// The problem, as the end of a sentence about the key.
        ///
        /// Never holds key material.
        public let problem: String
        /// The fix.
        public let fix: String
    }

    /// Makes a fresh key.
    public init() { key = P256.Signing.PrivateKey() }

    /// Reads a key: 32 octets in base64url (43 characters), or PEM in any of the shapes that `PEMReader` reads.
    public init(_ text: Secret) throws(Mistake) {
        let plain = text.reveal().filter { !$0.isWhitespace }
        if !plain.contains("-----"), let octets = WebPushBase64.decode(plain) {
            if octets.count == 65, octets.first == 4 {
                throw Mistake(problem: "is a public key", fix: "Give the private key: 43 characters, or PEM.")
            }
            if octets.count == 32 {
                guard let key = try? P256.Signing.PrivateKey(rawRepresentation: octets) else {
                    throw Mistake(problem: "is no key of the curve P-256", fix: Self.make)
                }
                self.key = key
                return
            }
        }
        let pem: Secret
        do throws(CredentialMistake) {
            pem = try PEMReader.privateKey(in: text)
        } catch {
            throw Mistake(problem: error.problem, fix: error.fix ?? Self.make)
        }
        do {
            key = try P256.Signing.PrivateKey(pemRepresentation: pem.reveal())
        } catch {
            guard let name = PEMReader.algorithm(ofKey: pem), name != "a P-256 key" else {
                throw Mistake(problem: "is a damaged key: it cannot be decoded", fix: Self.make)
            }
            throw Mistake(problem: "is \(name); VAPID takes keys of the curve P-256 only", fix: Self.make)
        }
    }

    private static let make = "Make one with chapar webpush keys."

    /// The public key as browsers take it for `applicationServerKey`: 65 octets in base64url, 87 characters.
    public var publicKey: String { Base64URL.encode(key.publicKey.x963Representation) }

    /// The private key: 32 octets in base64url, 43 characters.
    public var privateKey: Secret { Secret(Base64URL.encode(key.rawRepresentation)) }

    /// The private key as PEM, PKCS #8.
    public var pem: Secret { Secret(key.pemRepresentation + "\n") }

    /// Returns the signature of a text as a JWT wants it: r and s, 32 octets each.
    func signature(of text: String) throws -> [UInt8] {
        Array(try key.signature(for: Array(text.utf8)).rawRepresentation)
    }
}
