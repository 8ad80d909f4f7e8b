internal import Foundation

/// The error for a text that is not the wanted credential: what it is instead, and what to do.
public struct CredentialMistake: Error, Sendable, Hashable, CustomStringConvertible {
    /// The problem, as the end of a sentence about the credential: "is an encrypted key".
    ///
    /// Never holds key material.
    public let problem: String
    /// The fix, in one or more sentences; nil where only another file helps, which the platform's plugin names.
    public let fix: String?

    init(_ problem: String, fix: String? = nil) {
        self.problem = problem
        self.fix = fix
    }

    /// The problem and its fix.
    public var description: String { fix.map { "\(problem). \($0)" } ?? problem }
}

/// The forms in which files, environment variables and secret managers hold a credential.
///
/// ``PEMReader`` and ``CredentialJSON`` read a text through this type, so every credential is read in every form.
public enum CredentialText {
    /// The most layers of quotes and base64 around a text.
    private static let mostLayers = 4

    /// Returns the text of a file; a file in DER becomes PEM, a file in UTF-16 becomes UTF-8.
    ///
    /// Bytes that are not UTF-8 are replaced: they can only be in text outside the credential.
    public static func text(of file: [UInt8]) throws(CredentialMistake) -> Secret {
        if file.starts(with: [0xFF, 0xFE]) || file.starts(with: [0xFE, 0xFF]),
            let text = String(data: Data(file), encoding: .utf16)
        {
            return Secret(text)
        }
        if file.starts(with: [0xFE, 0xED, 0xFE, 0xED]) {
            throw CredentialMistake(
                "is a Java key store",
                fix: "Make a .p12 file of it with keytool -importkeystore. \(PEMReader.fromKeychain)"
            )
        }
        if let encoding = DEREncoding(file) { return try encoding.text() }
        return Secret(String(decoding: file, as: UTF8.self))
    }

    /// Whether the text is a credential and not the name of the file that holds it.
    static func isContent(_ text: String) -> Bool {
        let inner = unwrapped(Secret(text))
        if isDamagedPEM(inner) { return true }
        return inner.contains("-----BEGIN") || inner.hasPrefix("{")
    }

    /// Whether the text is PEM whose first line is damaged: no name of a file has such a line and a line of base64.
    private static func isDamagedPEM(_ text: String) -> Bool {
        let lowered = text.lowercased()
        guard text.utf8.count > 100, lowered.contains("begin") else { return false }
        return lowered.contains("private key") || lowered.contains("certificate")
    }

    /// Returns the text without a byte order mark, white space, quotes and base64 around it.
    static func unwrapped(_ text: Secret) -> String {
        var text = text.reveal()
        for _ in 0..<mostLayers {
            text = trimmed(text)
            if let quote = text.first, quote == "\"" || quote == "'", text.count > 1, text.last == quote {
                text = String(text.dropFirst().dropLast())
            } else if !text.contains("-----BEGIN"), !text.hasPrefix("{"), let inner = decoded(text) {
                text = inner
            } else {
                break
            }
        }
        return trimmed(text)
    }

    /// Returns the text without marks that have no width, and with line breaks in place of the ways to write them:
    /// `\n` and `\r\n` as characters, with any number of backslashes, and a carriage return alone.
    ///
    /// `\/` and `\u002b`, which encoders of JSON write, become `/` and `+`.
    static func unescaped(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        var rest = text.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            switch scalar {
            case "\u{FEFF}", "\u{200B}", "\u{2060}": continue
            case "\r": result.append("\n")
            case "\\":
                while rest.first == "\\" { rest.removeFirst() }
                switch rest.first {
                case "n", "r", "t": rest.removeFirst()
                case "u" where code(rest.dropFirst()) != nil:
                    if let code = code(rest.dropFirst()) { result.append(code) }
                    rest = rest.dropFirst(5)
                    continue
                case "/", "\"": continue
                default: break
                }
                result.append("\n")
            default: result.append(scalar != "\n" && scalar.properties.isWhitespace ? " " : scalar)
            }
        }
        return String(result)
    }

    /// Names a text that is neither PEM nor JSON by what it looks like; nil for any other.
    static func mistake(in text: String) -> CredentialMistake? {
        if text.isEmpty { return CredentialMistake("is empty", fix: "Check the file or the variable it comes from.") }
        if isReference(text) {
            return CredentialMistake(
                "is the name of a variable, not its value",
                fix: "Write ${NAME}, with braces, and set the variable."
            )
        }
        if isPath(text) {
            return CredentialMistake(
                "is the name of a file, not what the file holds",
                fix: "Write it under the key that ends in _file, or as ${file:/path}."
            )
        }
        if ["ssh-rsa ", "ssh-ed25519 ", "ecdsa-sha2-"].contains(where: text.hasPrefix) {
            return CredentialMistake("is a public key of OpenSSH; the private key is needed")
        }
        return nil
    }

    /// Returns the text in base64; nil when the text is not base64 of a credential.
    private static func decoded(_ text: String) -> String? {
        let body = unescaped(text).unicodeScalars.filter { $0 != "\n" && $0 != " " }
        guard let bytes = base64(String(String.UnicodeScalarView(body))), let text = try? self.text(of: bytes) else {
            return nil
        }
        let inner = trimmed(text.reveal())
        if inner.contains("-----BEGIN") { return inner }
        // The name of a file may be base64 of anything.
        guard inner.utf8.count >= 16, !inner.contains("\u{FFFD}") else { return nil }
        let isJSON = [("{", "}"), ("\"", "\""), ("'", "'")].contains { inner.hasPrefix($0) && inner.hasSuffix($1) }
        return isJSON || inner.utf8.allSatisfy { isBase64($0) || $0 == UInt8(ascii: "\n") } ? inner : nil
    }

    /// Decodes base64, or base64url, with or without padding.
    static func base64(_ text: String) -> [UInt8]? {
        var body = text.replacing("-", with: "+").replacing("_", with: "/")
        while body.last == "=" { body.removeLast() }
        body += String(repeating: "=", count: (4 - body.utf8.count % 4) % 4)
        return Data(base64Encoded: body).map(Array.init)
    }

    private static func isBase64(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="):
            true
        default: false
        }
    }

    private static func trimmed(_ text: String) -> String {
        text.trimmingCharacters(in: .whitespacesAndNewlines.union(CharacterSet(charactersIn: "\u{FEFF}\u{200B}")))
    }

    private static func code(_ text: Substring.UnicodeScalarView) -> Unicode.Scalar? {
        let digits = text.prefix(4)
        guard digits.count == 4, digits.allSatisfy(\.properties.isASCIIHexDigit) else { return nil }
        return UInt32(String(digits), radix: 16).flatMap(Unicode.Scalar.init)
    }

    /// Whether the text is `$NAME` or `${NAME}`, whose value was not inserted.
    private static func isReference(_ text: String) -> Bool {
        guard text.hasPrefix("$") else { return false }
        return text.dropFirst().allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "_{}".contains($0)) }
    }

    private static func isPath(_ text: String) -> Bool {
        guard text.utf8.count <= 1024, !text.contains(where: \.isNewline) else { return false }
        let endings = [".p8", ".pem", ".key", ".json", ".crt", ".cer", ".p12", ".pfx"]
        return ["/run/", "/etc/", "/var/", "./", "~/"].contains(where: text.hasPrefix)
            || endings.contains(where: text.lowercased().hasSuffix)
    }
}
