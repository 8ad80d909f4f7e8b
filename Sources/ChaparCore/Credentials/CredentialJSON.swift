/// The reader of credentials in JSON form, such as the key file of a service account, for every platform.
///
/// It reads every form in which files, environment variables and secret managers have such a file: a byte order mark,
/// quotes around the whole with or without backslashes inside, base64 of the whole, line breaks inside a text, and `\n`
/// as two characters between the fields.
public enum CredentialJSON {
    /// Returns the object in a text.
    public static func object(in text: Secret) throws(CredentialMistake) -> JSONObject {
        let whole = CredentialText.unwrapped(text)
        for candidate in [whole, repaired(whole)] {
            guard let value = try? JSONValue(parsing: Array(candidate.utf8)) else { continue }
            guard let object = value.objectValue else { throw CredentialMistake("is not a JSON object") }
            return object
        }
        throw mistake(in: whole)
    }

    /// Returns the text with its line breaks inside texts escaped, and without escapes around its members.
    private static func repaired(_ text: String) -> String {
        var repaired = String.UnicodeScalarView()
        var isInText = false
        var rest = (isEscapedOnceMore(text) ? unescapedOnce(text) : text).unicodeScalars[...]
        while let scalar = rest.popFirst() {
            switch scalar {
            case "\"":
                isInText.toggle()
                repaired.append(scalar)
            case "\\" where isInText:
                repaired.append(scalar)
                if let next = rest.popFirst() { repaired.append(next) }
            case "\\" where rest.first == "n" || rest.first == "r" || rest.first == "t": rest.removeFirst()
            case "\n" where isInText: repaired.append(contentsOf: "\\n".unicodeScalars)
            case "\r" where isInText: repaired.append(contentsOf: "\\r".unicodeScalars)
            case "\t" where isInText: repaired.append(contentsOf: "\\t".unicodeScalars)
            default: repaired.append(scalar)
            }
        }
        return String(repaired)
    }

    /// Whether the quotes of the members themselves have backslashes: `{\"type\": …`.
    private static func isEscapedOnceMore(_ text: String) -> Bool {
        guard let quote = text.firstIndex(of: "\""), quote > text.startIndex else { return false }
        return text[text.index(before: quote)] == "\\"
    }

    private static func unescapedOnce(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        var rest = text.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            guard scalar == "\\", let next = rest.popFirst() else {
                result.append(scalar)
                continue
            }
            switch next {
            case "\"", "\\", "/": result.append(next)
            case "n": result.append("\n")
            case "r": result.append("\r")
            case "t": result.append("\t")
            default: result.append(contentsOf: [scalar, next])
            }
        }
        return String(result)
    }

    private static func mistake(in text: String) -> CredentialMistake {
        if let mistake = CredentialText.mistake(in: text) { return mistake }
        if text.hasPrefix("map[") {
            return CredentialMistake("is a map as Helm prints it, not JSON", fix: "Add toJson to the template.")
        }
        guard text.hasPrefix("{") else {
            return text.contains("-----BEGIN")
                ? CredentialMistake("is PEM, not JSON", fix: "Give the whole JSON file that holds the key.")
                : CredentialMistake("is not JSON")
        }
        let first = text.dropFirst().first { !$0.isWhitespace }
        if first == "'" {
            return CredentialMistake(
                "is a map as Python and Ansible print it, with single quotes, not JSON",
                fix: "Add to_json to the template."
            )
        }
        if first?.isLetter ?? false {
            return CredentialMistake(
                "is JSON that has lost its quotation marks",
                fix: "Put the value in single quotes where it is set, or name a file."
            )
        }
        guard text.hasSuffix("}") else {
            return CredentialMistake("is cut off: it is JSON without its last }", fix: "Give the whole file.")
        }
        do {
            _ = try JSONValue(parsing: Array(text.utf8))
        } catch {
            return CredentialMistake("is not JSON from byte \(error.offset) on")
        }
        return CredentialMistake("is not JSON")
    }
}
