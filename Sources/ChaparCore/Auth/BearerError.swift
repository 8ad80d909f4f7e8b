extension HTTPAnswer {
    /// The `error` of a `WWW-Authenticate` field, as a quoted string or a token (RFC 9110 section 11.2); at most 64
    /// characters.
    ///
    /// Text within quotation marks is not read as another parameter.
    package var bearerError: String? {
        guard let field = header("www-authenticate") else { return nil }
        var rest = field[...]
        while !rest.isEmpty {
            let name = rest.prefix { $0 != "=" && $0 != "\"" && $0 != "," && $0 != " " && $0 != "\t" }
            rest = rest.dropFirst(name.count)
            rest = rest.drop { $0 == " " || $0 == "\t" }
            guard rest.first == "=" else {
                // A scheme or a separator; a misplaced quotation mark begins a quoted string all the same.
                if rest.first == "\"" { _ = Self.quoted(&rest) } else if rest.first == "," { rest = rest.dropFirst() }
                continue
            }
            rest = rest.dropFirst().drop { $0 == " " || $0 == "\t" }
            let value: String
            if rest.first == "\"" {
                value = Self.quoted(&rest)
            } else {
                let token = rest.prefix { $0 != "," && $0 != " " && $0 != "\t" }
                rest = rest.dropFirst(token.count)
                value = String(token)
            }
            if name.lowercased() == "error" { return String(value.prefix(64)) }
        }
        return nil
    }

    /// Removes a quoted string from the beginning and returns its text.
    private static func quoted(_ rest: inout Substring) -> String {
        var value = ""
        rest = rest.dropFirst()
        while let character = rest.popFirst(), character != "\"" {
            if character == "\\", let escaped = rest.popFirst() {
                value.append(escaped)
            } else {
                value.append(character)
            }
        }
        return value
    }
}
