// Verifies webhooks of Chapar in Swift, with the product Crypto of swift-crypto, or CryptoKit.
import Crypto
import Foundation

/// Returns whether a request is Chapar's: `headers` with names in lower case, `body` the raw bytes.
func verify(secret: String, headers: [String: String], body: Data, now: Date = Date()) -> Bool {
    guard let id = headers["webhook-id"], let timestamp = headers["webhook-timestamp"], let time = Int64(timestamp),
        abs(now.timeIntervalSince1970 - Double(time)) <= 300, secret.hasPrefix("whsec_"),
        let key = Data(base64Encoded: String(secret.dropFirst("whsec_".count)))
    else { return false }
    let message = Data("\(id).\(timestamp).".utf8) + body
    return (headers["webhook-signature"] ?? "").split(separator: " ").contains { entry in
        guard entry.hasPrefix("v1,"), let code = Data(base64Encoded: String(entry.dropFirst("v1,".count))) else {
            return false
        }
        return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: message, using: SymmetricKey(data: key))
    }
}
