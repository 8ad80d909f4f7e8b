extension String {
    /// Returns the texts before and after the first `separator`, an ASCII character; nil without one.
    ///
    /// It searches bytes. Swift combines a separator and a joining mark after it, such as a zero-width non-joiner at
    /// the beginning of a Persian name, to one `Character`, which would be neither found nor skipped.
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

    /// The most combining marks in a row that text from outside may have (Unicode Standard Annex 15, stream-safe text
    /// format).
    package static var mostMarks: Int { 30 }

    /// Whether it has at most ``mostMarks`` combining marks in a row.
    ///
    /// Comparing or hashing other text takes time that is quadratic in the marks: Swift compares by canonical
    /// equivalence, and sorts each run of marks first. 64 KiB of them take four seconds.
    package var isStreamSafe: Bool {
        if utf8.allSatisfy({ $0 < 0x80 }) { return true }
        var marks = 0
        for scalar in unicodeScalars {
            // No scalar below U+0300 combines.
            if scalar.value < 0x300 || scalar.properties.canonicalCombiningClass == .notReordered {
                marks = 0
            } else {
                marks += 1
                if marks > Self.mostMarks { return false }
            }
        }
        return true
    }

    /// The text as a part of one line for people: like ``withoutInvisibleControls``, but the controls of C0 (line
    /// breaks, ESC, BEL) are escaped too.
    package var onOneLine: String {
        guard unicodeScalars.contains(where: { $0.value < 0x20 || $0.isInvisibleControl }) else { return self }
        var text = ""
        for scalar in unicodeScalars {
            if scalar.value < 0x20 { text += scalar.escaped } else { text.unicodeScalars.append(scalar) }
        }
        return text.withoutInvisibleControls
    }

    /// The text with invisible controls as `\u` and four digits, as in JSON: DEL and the controls of C1 (U+007F to
    /// U+009F), the marks of direction, line and paragraph separators and the byte order mark.
    ///
    /// For log lines: a name with such a mark could make a line look different, or change how the terminal works.
    package var withoutInvisibleControls: String {
        guard unicodeScalars.contains(where: \.isInvisibleControl) else { return self }
        var text = ""
        for scalar in unicodeScalars {
            if scalar.isInvisibleControl {
                text += scalar.escaped
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

extension Unicode.Scalar {
    /// `\u` and four digits; for the first plane only.
    fileprivate var escaped: String {
        let digits = String(value, radix: 16)
        return "\\u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }

    fileprivate var isInvisibleControl: Bool {
        switch value {
        case 0x7F...0x9F, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF: true
        default: false
        }
    }
}
