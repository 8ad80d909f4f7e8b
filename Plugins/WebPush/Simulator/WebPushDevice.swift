internal import ChaparCore
internal import Crypto
internal import Foundation

/// A browser of the simulator: the private keys of a subscription, which decrypt what comes for it.
///
/// The keys follow from the id, so that a subscription outlives the simulator that gave it.
struct WebPushDevice: Sendable {
    private static let headerBytes = 86
    private static let tagBytes = 16

    let key: P256.KeyAgreement.PrivateKey
    let auth: [UInt8]
    /// The public VAPID key that it was subscribed with; nil takes any.
    var applicationServerKey: [UInt8]?
    var isGone = false

    init(_ id: String) {
        auth = Array(Self.digest("auth", id).prefix(16))
        var number = 0
        while true {
            // Nearly every 256-bit number is a valid key; otherwise the next one is tried.
            if let key = try? P256.KeyAgreement.PrivateKey(rawRepresentation: Self.digest("key \(number)", id)) {
                self.key = key
                return
            }
            number += 1
        }
    }

    private static func digest(_ purpose: String, _ id: String) -> [UInt8] {
        Array(SHA256.hash(data: Array("chapar sandbox, subscription, \(purpose): \(id)".utf8)))
    }

    /// Returns the subscription's JSON, as browsers give it.
    func subscription(endpoint: String) -> String {
        JSONValue.object([
            "endpoint": .string(endpoint), "expirationTime": .null,
            "keys": [
                "p256dh": .string(Base64URL.encode(key.publicKey.x963Representation)),
                "auth": .string(Base64URL.encode(auth)),
            ],
        ]).text
    }

    /// Returns the plaintext of a body (RFC 8188 and 8291, one record); nil when the body is malformed or made for
    /// other keys.
    func decrypt(_ body: [UInt8]) -> [UInt8]? {
        guard body.count > Self.headerBytes + Self.tagBytes, body[20] == 65 else { return nil }
        let salt = Array(body[..<16])
        let size = body[16..<20].reduce(0) { $0 << 8 | Int($1) }
        let point = Array(body[21..<Self.headerBytes])
        let record = Array(body[Self.headerBytes...])
        guard size >= 18, record.count <= size,
            let sender = try? P256.KeyAgreement.PublicKey(x963Representation: point),
            let secret = try? key.sharedSecretFromKeyAgreement(with: sender)
        else { return nil }
        let info = Array("WebPush: info\0".utf8) + key.publicKey.x963Representation + point
        let material = secret.hkdfDerivedSymmetricKey(
            using: SHA256.self,
            salt: auth,
            sharedInfo: info,
            outputByteCount: 32
        )
        func derived(_ name: String, _ count: Int) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: material,
                salt: salt,
                info: Array("Content-Encoding: \(name)\0".utf8),
                outputByteCount: count
            )
        }
        let nonce = derived("nonce", 12).withUnsafeBytes { Array($0) }
        guard let fresh = try? AES.GCM.Nonce(data: nonce),
            let box = try? AES.GCM.SealedBox(
                nonce: fresh,
                ciphertext: record.dropLast(Self.tagBytes),
                tag: record.suffix(Self.tagBytes)
            ),
            var plain = (try? AES.GCM.open(box, using: derived("aes128gcm", 16))).map(Array.init)
        else { return nil }
        while plain.last == 0 { plain.removeLast() }
        return plain.popLast() == 2 ? plain : nil
    }
}
