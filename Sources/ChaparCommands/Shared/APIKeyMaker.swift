import Crypto
import Foundation
import ChaparCore

/// A new API key: 256 random bits, of which only a hash is kept.
struct NewAPIKey {
    /// The key that the caller sends; shown or written once.
    let key: Secret
    /// The hash that the configuration keeps: `sha256:` and 64 hexadecimal digits.
    let hash: String

    /// Makes one.
    init() {
        var random = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        self.init(Secret("chp_" + Base64URL.encode(bytes)))
    }

    /// Makes the hash of an existing key.
    init(_ key: Secret) {
        self.key = key
        hash = "sha256:" + SHA256.hash(data: Data(key.reveal().utf8)).map { String(format: "%02x", $0) }.joined()
    }

    /// Returns whether a text has the form of a key.
    static func isKey(_ text: String) -> Bool {
        text.hasPrefix("chp_") && text.utf8.count == 47
            && text.unicodeScalars.allSatisfy {
                $0 == "-" || $0 == "_" || $0.isASCII && $0.properties.isAlphabetic || ("0"..."9") ~= $0
            }
    }

    /// Returns the element of `auth.api_keys`, as a line of a list.
    func line(name: String, scopes: [String]) -> String {
        "- { name: \(name), hash: \"\(hash)\", scopes: [\(scopes.joined(separator: ", "))] }"
    }

    /// Returns the element of `auth.api_keys` as JSON, which YAML reads as well.
    func json(name: String, scopes: [String]) -> String {
        let object: JSONValue = [
            "name": .string(name), "hash": .string(hash), "scopes": .array(scopes.map { .string($0) }),
        ]
        return object.text
    }
}
