extension JSONSyntaxError {
    private static let marks = "at most \(String.mostMarks) combining marks in a row"

    /// Returns the error for a text that would take quadratic time to compare.
    static func tooManyMarks(at offset: Int) -> JSONSyntaxError {
        JSONSyntaxError(offset: offset, expected: marks, isOfText: true)
    }

    /// A sentence about a text that is at fault, for those who know its place.
    package var problemOfText: String {
        expected == Self.marks
            ? "It has more than \(String.mostMarks) combining marks in a row: take some of them out."
            : "It is no text: expected \(expected)."
    }

    /// Returns a sentence for the sender of the document: the place as a JSON pointer and in bytes, the problem, and
    /// the fix.
    ///
    /// It reads the document again up to the error.
    package func sentence(about document: [UInt8]) -> String {
        if let encoding = Self.foreignEncoding(of: document) { return "\(encoding)." }
        let pointer = pointer(in: document)
        if expected == Self.marks {
            return
                "The text at \(pointer) (byte \(offset)) has more than \(String.mostMarks) combining marks in a row: "
                + "take some of them out."
        }
        return pointer == "#" ? "\(description)." : "\(description), in \(pointer)."
    }

    /// Returns what a document is that is no UTF-8, and what to send in its place; nil when its first bytes do not say.
    private static func foreignEncoding(of document: [UInt8]) -> String? {
        let (first, second) = (document.first, document.dropFirst().first)
        switch (first, second) {
        case (0x1F, 0x8B): return "it is compressed with gzip: send it uncompressed, without Content-Encoding"
        case (0xFE, 0xFF), (0xFF, 0xFE), (0, _), (.some, 0): return "it is text in UTF-16 or UTF-32: write it in UTF-8"
        default: return nil
        }
    }

    /// Returns the innermost value that contains the error, as a JSON pointer (RFC 6901 in its URI fragment form, `#`
    /// for the whole document).
    package func pointer(in document: [UInt8]) -> String {
        var steps: [Step] = []
        var deeper = 0  // What a reader skips may nest as deep as it likes.
        var place = 0
        while place < min(offset, document.count) {
            let byte = document[place]
            place += 1
            switch byte {
            case UInt8(ascii: "{") where steps.count >= Self.deepest,
                UInt8(ascii: "[") where steps.count >= Self.deepest:
                deeper += 1
            case UInt8(ascii: "}") where deeper > 0, UInt8(ascii: "]") where deeper > 0: deeper -= 1
            case UInt8(ascii: "{"): steps.append(.object(name: nil, isNameNext: true))
            case UInt8(ascii: "["): steps.append(.array(index: 0))
            case UInt8(ascii: "}"), UInt8(ascii: "]"): _ = steps.popLast()
            case UInt8(ascii: ",") where deeper == 0:
                switch steps.popLast() {
                case .array(let index)?: steps.append(.array(index: index + 1))
                case .object?: steps.append(.object(name: nil, isNameNext: true))
                case nil: break
                }
            case UInt8(ascii: "\""):
                let end = Self.end(ofText: place, in: document)
                if end < offset, deeper == 0, case .object(_, true)? = steps.last {
                    steps.removeLast()
                    steps.append(.object(name: document[place..<end], isNameNext: false))
                }
                place = end + 1
            default: break
            }
        }
        return steps.reduce("#") { $0 + $1.text }
    }

    /// A container that is open at the current place.
    private enum Step {
        case array(index: Int)
        case object(name: ArraySlice<UInt8>?, isNameNext: Bool)

        var text: String {
            switch self {
            case .array(let index): return "/\(index)"
            case .object(let name?, _):
                let text = String(decoding: name.prefix(JSONSyntaxError.longestName), as: UTF8.self)
                return "/" + (text.isStreamSafe ? text.onOneLine.jsonPointerStep : "…")
            case .object(nil, _): return ""
            }
        }
    }

    private static let deepest = 8
    private static let longestName = 64

    /// Returns the position of the quotation mark that ends a text, or the document's end.
    private static func end(ofText start: Int, in document: [UInt8]) -> Int {
        var place = start
        while place < document.count, document[place] != UInt8(ascii: "\"") {
            place += document[place] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(place, document.count)
    }
}
