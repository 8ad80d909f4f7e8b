/// A short form of a token or credential that identifies it without revealing it.
package enum Fingerprint {
    /// Returns the first six and the last four characters; of a short text only its length.
    package static func of(_ text: String) -> String {
        text.count >= 20 ? "\(text.prefix(6))…\(text.suffix(4))" : "(\(text.count) characters)"
    }
}
