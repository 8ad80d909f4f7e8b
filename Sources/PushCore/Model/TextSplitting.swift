extension String {
    /// What stands before and after the first `separator`, an ASCII character; nil without one.
    ///
    /// By bytes. To Swift a separator and a mark that joins it, such as a zero-width non-joiner at the beginning of a Persian
    /// name, are one character: neither found nor passed by `Character`.
    package func halves(at separator: Unicode.Scalar) -> (head: String, tail: String)? {
        guard let index = utf8.firstIndex(of: UInt8(ascii: separator)) else { return nil }
        return (String(self[..<index]), String(self[utf8.index(after: index)...]))
    }

    /// The text as a step of a JSON pointer (RFC 6901, section 3).
    package var jsonPointerStep: String {
        var step = String.UnicodeScalarView()
        for scalar in unicodeScalars {
            switch scalar {
            case "~": step.append(contentsOf: "~0".unicodeScalars)
            case "/": step.append(contentsOf: "~1".unicodeScalars)
            default: step.append(scalar)
            }
        }
        return String(step)
    }
}
