extension String {
    /// The text with `…` in place of user, password and query of each address in it: `http://…@proxy.example/?…`.
    ///
    /// Use it for text that is shown, such as a mistake of the configuration or a setting. It also masks an address
    /// that is malformed because its password has a slash, or (in quotation marks or at the beginning) a blank. A text
    /// that should be an address but is not may hold a password anywhere, so it is not shown at all.
    package var withoutAddressCredentials: String {
        guard var found = firstRange(of: "://") else { return self }
        var text = ""
        var rest = self[...]
        while true {
            let before = rest[..<found.lowerBound].last { !$0.isLetter && !$0.isNumber }
            let mayHaveBlanks = before == "\"" || before == nil && text.isEmpty
            text += rest[..<found.upperBound]
            rest = rest[found.upperBound...]
            let end =
                rest.firstIndex { mayHaveBlanks ? $0 == "\"" : $0.isWhitespace || "\"'<>`".contains($0) }
                ?? rest.endIndex
            if let at = Self.credentials(of: rest[..<end]) {
                text += "…"
                rest = rest[at...]
            }
            if let query = rest[..<end].firstIndex(of: "?"), rest.index(after: query) < end {
                text += rest[...query] + "…"
                rest = rest[end...]
            }
            guard let next = rest.firstRange(of: "://") else { return text + rest }
            found = next
        }
    }

    /// Returns the `@` that ends user and password, in the part of an address after its scheme; nil when the address
    /// has no user and password.
    private static func credentials(of address: Substring) -> Substring.Index? {
        let host = address.prefix { !"/?#".contains($0) }
        if let at = host.lastIndex(of: "@") { return at }
        // "user:pass/word@host": the text after the colon is not a port.
        guard let colon = host.firstIndex(of: ":"), !host.hasPrefix("["),
            !host[host.index(after: colon)...].allSatisfy(\.isNumber)
        else { return nil }
        return address.lastIndex(of: "@")
    }
}
