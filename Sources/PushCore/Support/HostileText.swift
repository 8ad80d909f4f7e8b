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

    /// The most combining marks in a row that text of others may have (Unicode Standard Annex 15, stream-safe text format).
    package static var mostMarks: Int { 30 }

    /// Whether at most ``mostMarks`` combining marks stand in a row.
    ///
    /// Comparing or hashing other text takes time that is quadratic in the marks: Swift compares by canonical equivalence, and
    /// brings each row of marks into order first. 64 KiB of them take four seconds.
    package var isStreamSafe: Bool {
        if utf8.allSatisfy({ $0 < 0x80 }) { return true }
        var marks = 0
        for scalar in unicodeScalars {
            // Below U+0300 nothing combines.
            if scalar.value < 0x300 || scalar.properties.canonicalCombiningClass == .notReordered {
                marks = 0
            } else {
                marks += 1
                if marks > Self.mostMarks { return false }
            }
        }
        return true
    }
}
