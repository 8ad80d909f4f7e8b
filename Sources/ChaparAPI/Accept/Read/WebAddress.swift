internal import ChaparDelivery

/// The checks of addresses, as far as a push platform needs them: scheme, host, no blanks.
enum WebAddress {
    /// Whether the text is `scheme:` and something after it (RFC 3986, section 3), without blanks.
    static func hasScheme(_ text: String) -> Bool {
        let bytes = text.utf8
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), colon != bytes.startIndex,
            bytes.index(after: colon) != bytes.endIndex, let first = bytes.first, isLetter(first)
        else { return false }
        let scheme = bytes[..<colon]
        return scheme.allSatisfy {
            isLetter($0) || isDigit($0) || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-")
                || $0 == UInt8(ascii: ".")
        } && isWithoutBlanks(text)
    }

    /// Whether the text is an `https` address with a host.
    static func isHTTPS(_ text: String) -> Bool {
        guard text.prefix(8).lowercased() == "https://", isWithoutBlanks(text) else { return false }
        let authority = text.dropFirst(8).prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let host = authority.split(separator: "@", omittingEmptySubsequences: false).last ?? ""
        return !host.isEmpty && !host.hasPrefix(":")
    }

    private static func isWithoutBlanks(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "<") && $0 != UInt8(ascii: ">") }
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}
