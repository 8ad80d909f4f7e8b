import Crypto
import Foundation
import PushCore

/// A new API key: 256 random bits, of which only a hash is kept.
struct NewAPIKey {
    /// What the caller sends; shown or written once.
    let key: Secret
    /// What the configuration keeps: `sha256:` and 64 hexadecimal digits.
    let hash: String

    /// Makes one.
    init() {
        var random = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        let text = "chp_" + Base64URL.encode(bytes)
        key = Secret(text)
        hash = "sha256:" + SHA256.hash(data: Data(text.utf8)).map { String(format: "%02x", $0) }.joined()
    }

    /// The element of `auth.api_keys`.
    func line(name: String, scopes: [String]) -> String {
        "- { name: \(name), hash: \"\(hash)\", scopes: [\(scopes.joined(separator: ", "))] }"
    }
}
