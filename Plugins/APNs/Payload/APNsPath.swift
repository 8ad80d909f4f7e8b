/// The paths of sends, and the forms of tokens and channel ids.
enum APNsPath {
    private static let prefix: StaticString = "/3/device/"

    /// Returns the path of a token; nil when the token is not hexadecimal with an even number of digits, 2 to 400.
    static func device(_ token: String) -> String? {
        var token = token
        return token.withUTF8 { digits -> String? in
            guard (2...400).contains(digits.count), digits.count % 2 == 0 else { return nil }
            // Arithmetic instead of conditions, so that the compiler can test 16 digits at once.
            var strangers: UInt8 = 0
            for digit in digits {
                let isNoDigit: UInt8 = digit &- UInt8(ascii: "0") < 10 ? 0 : 1
                let isNoLetter: UInt8 = (digit | 0x20) &- UInt8(ascii: "a") < 6 ? 0 : 1
                strangers |= isNoDigit & isNoLetter
            }
            guard strangers == 0 else { return nil }
            return String(unsafeUninitializedCapacity: 10 + digits.count) { path in
                prefix.withUTF8Buffer { _ = path.update(fromContentsOf: $0) }
                _ = UnsafeMutableBufferPointer(rebasing: path[10...]).update(fromContentsOf: digits)
                return 10 + digits.count
            }
        }
    }

    /// Whether a text can be a channel id: base64, of a length that fits a header.
    static func isChannel(_ text: String) -> Bool {
        (1...1000).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                isAlphanumeric($0) || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "=")
                    || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        byte &- UInt8(ascii: "0") < 10 || (byte | 0x20) &- UInt8(ascii: "a") < 26
    }
}
