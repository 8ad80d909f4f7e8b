extension String {
    /// The text with `…` in place of user and password of each address in it: `http://…@proxy.example`.
    ///
    /// For text that is shown: a mistake of the configuration, a setting. An address that is malformed since its password has a
    /// slash is masked as well.
    package var withoutAddressCredentials: String {
        guard utf8.contains(UInt8(ascii: "@")), var found = firstRange(of: "://") else { return self }
        var text = ""
        var rest = self[...]
        while true {
            text += rest[..<found.upperBound]
            rest = rest[found.upperBound...]
            let end = rest.firstIndex { $0.isWhitespace || "\"'<>`".contains($0) } ?? rest.endIndex
            if let at = Self.credentials(of: rest[..<end]) {
                text += "…"
                rest = rest[at...]
            }
            guard let next = rest.firstRange(of: "://") else { return text + rest }
            found = next
        }
    }

    /// Where user and password end in what follows an address's scheme: at its `@`; nil when it has neither.
    private static func credentials(of address: Substring) -> Substring.Index? {
        let host = address.prefix { !"/?#".contains($0) }
        if let at = host.lastIndex(of: "@") { return at }
        // "user:pass/word@host": the text in the place of a port is no port.
        guard let colon = host.firstIndex(of: ":"), !host.hasPrefix("["),
            !host[host.index(after: colon)...].allSatisfy(\.isNumber)
        else { return nil }
        return address.lastIndex(of: "@")
    }
}
