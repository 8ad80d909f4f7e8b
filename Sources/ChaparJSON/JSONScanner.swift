/// The error for a document that is not JSON: the place, and what was expected there.
public struct JSONSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The place in the document, in bytes from its beginning.
    public let offset: Int
    /// The expected syntax.
    public let expected: String
    /// Whether only a text is at fault, such as half an emoji: the values around it can still be told apart.
    package let isOfText: Bool

    /// Makes an error.
    public init(offset: Int, expected: String) { self.init(offset: offset, expected: expected, isOfText: false) }

    package init(offset: Int, expected: String, isOfText: Bool) {
        self.offset = offset
        self.expected = expected
        self.isOfText = isOfText
    }

    /// A sentence with the place and the expected syntax.
    public var description: String { "not JSON at byte \(offset): expected \(expected)" }
}

/// Reads JSON from front to back without building a tree, as strictly as RFC 8259 requires.
///
/// A byte order mark before the document is skipped (section 8.1): some programs write one.
///
/// The hot route reads requests through it straight into values; `JSONValue` uses it for everything else. Values that
/// are read may nest 64 levels deep, skipped ones without limit. A repeated name in an object is an error where a tree
/// is built. So is text with more than 30 combining marks in a row, which would take quadratic time to compare,
/// anywhere.
public struct JSONScanner: ~Copyable {
    /// The kind of the next value.
    public enum Kind: Sendable {
        /// An object.
        case object
        /// An array.
        case array
        /// A string.
        case string
        /// A number.
        case number
        /// `true` or `false`.
        case bool
        /// `null`.
        case null
    }

    /// The deepest nesting of values that are read.
    public static let maximumDepth = 64

    private let text: UnsafeBufferPointer<UInt8>
    /// The position of the next byte to read.
    public private(set) var offset = 0
    private var depth = 0
    /// The number of characters U+0000 in the strings that were read, all of which are escaped.
    package private(set) var nulCount = 0

    private init(_ text: UnsafeBufferPointer<UInt8>) {
        self.text = text
        if text.count >= 3, text[0] == 0xEF, text[1] == 0xBB, text[2] == 0xBF { offset = 3 }
    }

    /// Reads one whole document with `body` and checks that nothing follows it.
    public static func scan<Value>(
        _ bytes: [UInt8],
        _ body: (inout JSONScanner) throws(JSONSyntaxError) -> Value
    ) throws(JSONSyntaxError) -> Value {
        let result = bytes.withUnsafeBufferPointer { text -> Result<Value, JSONSyntaxError> in
            var scanner = JSONScanner(text)
            do throws(JSONSyntaxError) {
                let value = try body(&scanner)
                scanner.skipSpace()
                guard scanner.offset == text.count else { throw scanner.error("the end of the document") }
                return .success(value)
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Returns an error at the current position.
    public func error(_ expected: String) -> JSONSyntaxError { JSONSyntaxError(offset: offset, expected: expected) }

    private func textError(_ expected: String) -> JSONSyntaxError {
        JSONSyntaxError(offset: offset, expected: expected, isOfText: true)
    }

    /// A position before a value, to which ``skip(_:from:)`` goes back.
    package struct Mark {
        /// The position in bytes.
        package let offset: Int
        fileprivate let depth: Int
    }

    /// The current position.
    package var mark: Mark { Mark(offset: offset, depth: depth) }

    /// Goes back to a mark and skips the value there, of which a text is at fault; throws every other error again.
    ///
    /// Texts are passed over byte by byte, and only brackets count: what else is wrong in the value stays unseen.
    package mutating func skip(_ fault: JSONSyntaxError, from mark: Mark) throws(JSONSyntaxError) {
        guard fault.isOfText else { throw fault }
        (offset, depth) = (mark.offset, mark.depth)
        skipSpace()
        var open = 0
        repeat {
            guard offset < text.count else { throw fault }
            let byte = text[offset]
            offset += 1
            switch byte {
            case UInt8(ascii: "\""):
                while offset < text.count, text[offset] != UInt8(ascii: "\"") {
                    offset += text[offset] == UInt8(ascii: "\\") ? 2 : 1
                }
                offset += 1
            case UInt8(ascii: "{"), UInt8(ascii: "["): open += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): open -= 1
            default: break
            }
        } while open > 0
        guard offset <= text.count else { throw fault }
    }

    /// Returns the kind of the next value without reading it.
    public mutating func peek() throws(JSONSyntaxError) -> Kind {
        skipSpace()
        guard offset < text.count else { throw error("a value") }
        switch text[offset] {
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "\""): return .string
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .bool
        case UInt8(ascii: "n"): return .null
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number
        default: throw error("a value")
        }
    }

    /// Reads an object; calls `member` with each member's name, and it must read or skip the value.
    public mutating func object(
        _ member: (inout JSONScanner, String) throws(JSONSyntaxError) -> Void
    ) throws(JSONSyntaxError) {
        try enter(UInt8(ascii: "{"), "an object")
        skipSpace()
        if take(UInt8(ascii: "}")) { return leave() }
        repeat {
            let name = try name()
            try member(&self, name)
            skipSpace()
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "}")) else { throw error("',' or '}'") }
        leave()
    }

    /// Reads an array; calls `element` with each index, and it must read or skip the element.
    public mutating func array(
        _ element: (inout JSONScanner, Int) throws(JSONSyntaxError) -> Void
    ) throws(JSONSyntaxError) {
        try enter(UInt8(ascii: "["), "an array")
        skipSpace()
        if take(UInt8(ascii: "]")) { return leave() }
        var index = 0
        repeat {
            try element(&self, index)
            index += 1
            skipSpace()
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "]")) else { throw error("',' or ']'") }
        leave()
    }

    /// Reads a member's name and the colon after it.
    private mutating func name() throws(JSONSyntaxError) -> String {
        skipSpace()
        let name = try string()
        skipSpace()
        guard take(UInt8(ascii: ":")) else { throw error("':'") }
        return name
    }

    /// Reads a string.
    public mutating func string() throws(JSONSyntaxError) -> String {
        skipSpace()
        guard take(UInt8(ascii: "\"")) else { throw error("a string") }
        let start = offset
        var place = offset
        var eights: UInt64 = 0
        let raw = UnsafeRawBufferPointer(text)
        while place + 8 <= raw.count {  // Most texts hold nothing else than plain bytes.
            let eight = raw.loadUnaligned(fromByteOffset: place, as: UInt64.self)
            if JSONWriter.needsEscape(eight) { break }
            eights |= eight
            place += 8
        }
        var seen: UInt8 = eights & 0x8080_8080_8080_8080 == 0 ? 0 : 0x80
        while place < text.count {
            let byte = text[place]
            switch byte {
            case UInt8(ascii: "\""):
                offset = place
                let value = try checked(start, isASCII: seen < 0x80)
                offset = place + 1
                return value
            case UInt8(ascii: "\\"):
                offset = place
                return try escapedString(from: start)
            case 0..<0x20:
                offset = place
                throw textError("an escaped control character")
            default:
                seen |= byte
                place += 1
            }
        }
        offset = place
        throw error("'\"'")
    }

    /// Returns the text from `start` to ``offset``, which must be UTF-8.
    ///
    /// It does not use `String(validating:as:)`, which is generic and looks its types up at run time. Text that is not
    /// UTF-8 differs after decoding, since decoding repairs it.
    private func checked(_ start: Int, isASCII: Bool) throws(JSONSyntaxError) -> String {
        let bytes = UnsafeBufferPointer(rebasing: text[start..<offset])
        var value = String(decoding: bytes, as: UTF8.self)
        if isASCII { return value }
        let isSame = value.withUTF8 { decoded in
            decoded.count == bytes.count && decoded.elementsEqual(bytes)
        }
        guard isSame else { throw JSONSyntaxError(offset: start, expected: "valid UTF-8", isOfText: true) }
        return try streamSafe(value, start)
    }

    /// Returns the text, unless comparing it would take quadratic time.
    private func streamSafe(_ text: String, _ start: Int) throws(JSONSyntaxError) -> String {
        guard text.isStreamSafe else { throw .tooManyMarks(at: start) }
        return text
    }

    /// Reads a number: `integer` when it is whole and fits 64 bits, else `double`.
    public mutating func number() throws(JSONSyntaxError) -> JSONValue {
        skipSpace()
        let start = offset
        var isWhole = true
        _ = take(UInt8(ascii: "-"))
        if take(UInt8(ascii: "0")) {
            // No digit may follow a leading zero.
        } else {
            guard digits() > 0 else { throw error("a number") }
        }
        if take(UInt8(ascii: ".")) {
            isWhole = false
            guard digits() > 0 else { throw error("a digit") }
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isWhole = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            guard digits() > 0 else { throw error("a digit") }
        }
        let number = String(decoding: text[start..<offset], as: UTF8.self)
        if isWhole, let value = Int64(number) { return .integer(value) }
        guard let value = Double(number), value.isFinite else {
            throw JSONSyntaxError(offset: start, expected: "a number that fits a double")
        }
        return .double(value)
    }

    /// Reads `true` or `false`.
    public mutating func bool() throws(JSONSyntaxError) -> Bool {
        skipSpace()
        if word("true") { return true }
        if word("false") { return false }
        throw error("true or false")
    }

    /// Reads `null`.
    public mutating func null() throws(JSONSyntaxError) {
        skipSpace()
        guard word("null") else { throw error("null") }
    }

    /// Reads any value into a tree.
    public mutating func value() throws(JSONSyntaxError) -> JSONValue {
        switch try peek() {
        case .string: return .string(try string())
        case .number: return try number()
        case .bool: return .bool(try bool())
        case .null:
            try null()
            return .null
        case .array:
            var values: [JSONValue] = []
            try array { (scanner, _) throws(JSONSyntaxError) in values.append(try scanner.value()) }
            return .array(values)
        case .object:
            skipSpace()
            let start = offset
            var members: [(name: String, value: JSONValue)] = []
            try object { (scanner, name) throws(JSONSyntaxError) in
                if members.count <= JSONObject.mostCompared, members.contains(where: { $0.name == name }) {
                    throw scanner.repeatedName()
                }
                let value = try scanner.value()
                if members.count >= 1024, members.count == members.capacity {
                    // Reserves for the members that fit in the rest of the document, since each reallocation costs as
                    // much as reading.
                    let rest = (scanner.text.count - scanner.offset) / ((scanner.offset - start) / members.count)
                    members.reserveCapacity(members.count + min(rest, 7 * members.count))
                }
                members.append((name, value))
            }
            let made = JSONObject.make(members)
            if let repeated = made.repeated { throw errorOfMember(repeated, from: start) }
            return .object(made.object)
        }
    }

    private func repeatedName() -> JSONSyntaxError { error("a name that is not repeated") }

    /// Returns the error of a member whose name is repeated, by its index in the object that begins at `start`.
    private mutating func errorOfMember(_ place: Int, from start: Int) -> JSONSyntaxError {
        offset = start
        var count = 0
        do throws(JSONSyntaxError) {
            try object { (scanner, _) throws(JSONSyntaxError) in
                guard count < place else { throw scanner.repeatedName() }
                count += 1
                try scanner.skip()
            }
        } catch {
            return error
        }
        return repeatedName()
    }

    /// Skips any value and checks its syntax.
    ///
    /// It does not recurse, so nesting of any depth costs no stack.
    public mutating func skip() throws(JSONSyntaxError) {
        var open: [Bool] = []  // For each object or array around the next value, whether it is an object.
        repeat {
            switch try peek() {
            case .string: _ = try string()
            case .number: _ = try number()
            case .bool: _ = try bool()
            case .null: try null()
            case .array:
                offset += 1
                skipSpace()
                guard take(UInt8(ascii: "]")) else {
                    open.append(false)
                    continue
                }
            case .object:
                offset += 1
                skipSpace()
                guard take(UInt8(ascii: "}")) else {
                    _ = try name()
                    open.append(true)
                    continue
                }
            }
            while let isObject = open.last {
                skipSpace()
                if take(UInt8(ascii: ",")) {
                    if isObject { _ = try name() }
                    break
                }
                guard take(UInt8(ascii: isObject ? "}" : "]")) else {
                    throw error(isObject ? "',' or '}'" : "',' or ']'")
                }
                open.removeLast()
            }
        } while !open.isEmpty
    }

    /// Returns the bytes between two values of ``offset``, such as a value as it is in the document.
    public func slice(_ range: Range<Int>) -> [UInt8] { Array(text[range]) }

    /// Skips white space, so that ``offset`` is where the next value begins.
    public mutating func skipSpace() {
        while offset < text.count {
            switch text[offset] {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"): offset += 1
            default: return
            }
        }
    }

    private mutating func enter(_ bracket: UInt8, _ name: String) throws(JSONSyntaxError) {
        skipSpace()
        guard take(bracket) else { throw error(name) }
        depth += 1
        guard depth <= Self.maximumDepth else { throw error("at most \(Self.maximumDepth) levels of nesting") }
    }

    private mutating func leave() { depth -= 1 }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard offset < text.count, text[offset] == byte else { return false }
        offset += 1
        return true
    }

    private mutating func digits() -> Int {
        let start = offset
        while offset < text.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[offset]) { offset += 1 }
        return offset - start
    }

    private mutating func word(_ word: StaticString) -> Bool {
        let matches = word.withUTF8Buffer { letters in
            text.count - offset >= letters.count && letters.indices.allSatisfy { text[offset + $0] == letters[$0] }
        }
        if matches { offset += word.utf8CodeUnitCount }
        return matches
    }

    private mutating func escapedString(from start: Int) throws(JSONSyntaxError) -> String {
        var decoded = Array(text[start..<offset])
        while offset < text.count {
            let byte = text[offset]
            offset += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let value = String(validating: decoded, as: UTF8.self) else {
                    throw JSONSyntaxError(offset: start, expected: "valid UTF-8", isOfText: true)
                }
                return try streamSafe(value, start)
            case UInt8(ascii: "\\"): try escape(into: &decoded)
            case 0..<0x20:
                offset -= 1
                throw textError("an escaped control character")
            default: decoded.append(byte)
            }
        }
        throw error("'\"'")
    }

    private mutating func escape(into decoded: inout [UInt8]) throws(JSONSyntaxError) {
        guard offset < text.count else { throw error("an escape") }
        let byte = text[offset]
        offset += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): decoded.append(byte)
        case UInt8(ascii: "b"): decoded.append(8)
        case UInt8(ascii: "f"): decoded.append(12)
        case UInt8(ascii: "n"): decoded.append(10)
        case UInt8(ascii: "r"): decoded.append(13)
        case UInt8(ascii: "t"): decoded.append(9)
        case UInt8(ascii: "u"):
            var code = try hexQuad()
            if (0xD800..<0xDC00).contains(code) {
                guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw textError("a low surrogate") }
                let low = try hexQuad()
                guard (0xDC00..<0xE000).contains(low) else { throw textError("a low surrogate") }
                code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(code) else { throw textError("a Unicode scalar") }
            if code == 0 { nulCount &+= 1 }
            decoded.append(contentsOf: String(Character(scalar)).utf8)
        default:
            offset -= 1
            throw error("an escape")
        }
    }

    private mutating func hexQuad() throws(JSONSyntaxError) -> UInt32 {
        guard text.count - offset >= 4 else { throw error("four hexadecimal digits") }
        var code: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = Character(Unicode.Scalar(text[offset])).hexDigitValue else {
                throw error("four hexadecimal digits")
            }
            code = code << 4 | UInt32(truncatingIfNeeded: digit)
            offset += 1
        }
        return code
    }
}
