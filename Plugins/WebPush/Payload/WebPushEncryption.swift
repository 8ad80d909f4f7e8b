internal import Crypto
internal import Foundation
internal import ChaparCore

/// The encryption of a message for one subscription: `aes128gcm` (RFC 8188) with the keys of RFC 8291, in one record.
///
/// Each call makes a key pair and a salt of its own: with shared ones, push services could link recipients.
enum WebPushEncryption {
    /// The record size that the header names, and the most octets that push services must take.
    static let recordSize = 4_096
    /// The octets that encryption adds: 86 of the header, a delimiter, 16 of the tag.
    static let overhead = 103
    /// The most octets of plaintext.
    static let maximumPlaintext = recordSize - overhead
    private static let saltBytes = 16
    private static let pointBytes: UInt8 = 65

    private static let keyInfo = Array("WebPush: info\0".utf8)
    private static let contentInfo = Array("Content-Encoding: aes128gcm\0".utf8) + [1]
    private static let nonceInfo = Array("Content-Encoding: nonce\0".utf8) + [1]

    /// Returns the body of a request: header, then the only record.
    ///
    /// - Parameters:
    ///   - plaintext: At most ``maximumPlaintext`` octets.
    ///   - subscription: The browser's keys.
    ///   - sender: The sender's key pair; a fresh one unless a test gives it.
    ///   - salt: 16 octets; fresh ones unless a test gives them.
    /// - Returns: The header of 86 octets, the ciphertext and the tag.
    /// - Throws: When the library refuses a key or the plaintext is too long.
    static func body(
        of plaintext: [UInt8],
        for subscription: WebPushSubscription,
        sender: P256.KeyAgreement.PrivateKey = P256.KeyAgreement.PrivateKey(),
        salt: [UInt8] = freshSalt()
    ) throws -> [UInt8] {
        guard plaintext.count <= maximumPlaintext else { throw CryptoKitError.incorrectParameterSize }
        let secret = try sender.sharedSecretFromKeyAgreement(with: subscription.key)
        let point = sender.publicKey.x963Representation
        let material = secret.withUnsafeBytes { secret in
            hmac(key: hmac(key: subscription.auth, Array(secret)), keyInfo + subscription.point + point + [1])
        }
        let random = hmac(key: salt, material)
        let key = SymmetricKey(data: hmac(key: random, contentInfo).prefix(16))
        let nonce = try AES.GCM.Nonce(data: hmac(key: random, nonceInfo).prefix(12))
        let box = try AES.GCM.seal(plaintext + [2], using: key, nonce: nonce)
        var body: [UInt8] = []
        body.reserveCapacity(plaintext.count + overhead)
        body += salt
        withUnsafeBytes(of: UInt32(clamping: recordSize).bigEndian) { body += $0 }
        body.append(pointBytes)
        body += point
        body += box.ciphertext
        body += box.tag
        return body
    }

    /// Returns random octets for a salt.
    static func freshSalt() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<saltBytes).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    private static func hmac(key: [UInt8], _ text: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: text, using: SymmetricKey(data: key)))
    }
}

/// The `Topic` of a message: push services replace a waiting message by a newer one of the same topic.
enum WebPushTopic {
    /// Returns the topic of a collapse id: 32 characters of the base64url alphabet, a length that Apple takes too.
    static func text(of collapseID: String) -> String {
        Base64URL.encode(Array(SHA256.hash(data: Array(collapseID.utf8))).prefix(24))
    }
}
