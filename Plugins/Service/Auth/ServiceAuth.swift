internal import Crypto
internal import Foundation
internal import ChaparCore

/// Signs requests as the specification Standard Webhooks 1.0 describes (`webhook-id`, `webhook-timestamp`,
/// `webhook-signature`), so that a service can check them with a library that exists in most languages.
struct ServiceAuth: Sendable {
    /// A secret that cannot be used.
    struct Mistake: Error {
        let problem: String
        let fix: String
    }

    /// The keys, the newest first; every request is signed with each.
    private let keys: [SymmetricKey]

    /// Makes a signer with one secret, or with several while the service changes its secret: the service accepts a
    /// request when one signature fits.
    init(_ secrets: [Secret]) throws(Mistake) {
        var keys: [SymmetricKey] = []
        for secret in secrets { keys.append(try Self.key(secret)) }
        self.keys = keys
    }

    /// Returns the key of a secret: the base64 after `whsec_`, or the bytes of any other text.
    ///
    /// A key has 24 bytes or more.
    private static func key(_ secret: Secret) throws(Mistake) -> SymmetricKey {
        let text = secret.reveal()
        let prefix = "whsec_"
        let bytes: Data
        if text.hasPrefix(prefix) {
            guard let decoded = Data(base64Encoded: String(text.dropFirst(prefix.count))) else {
                throw Mistake(problem: "is no base64 after whsec_", fix: "Write whsec_$(openssl rand -base64 32).")
            }
            bytes = decoded
        } else {
            bytes = Data(text.utf8)
        }
        guard bytes.count >= 24 else {
            throw Mistake(
                problem: "has \(bytes.count) bytes, too few to be safe",
                fix: "Take 24 bytes or more: whsec_$(openssl rand -base64 32)."
            )
        }
        return SymmetricKey(data: bytes)
    }

    /// Returns the header fields of a request with this id and body that is sent at `seconds` since 1970.
    func fields(id: String, seconds: Int64, body: [UInt8]) -> [HTTPHeader] {
        let signatures = keys.map { key in
            var code = HMAC<SHA256>(key: key)
            code.update(data: Data("\(id).\(seconds).".utf8))
            code.update(data: body)
            return "v1,\(Data(code.finalize()).base64EncodedString())"
        }
        return [
            HTTPHeader("webhook-id", id, .literal), HTTPHeader("webhook-timestamp", String(seconds), .literal),
            HTTPHeader("webhook-signature", signatures.joined(separator: " "), .literal),
        ]
    }
}
