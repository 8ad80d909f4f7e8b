import ChaparCore

/// A JSON object as Go reads one into a structure: names in any case, `null` as if the member were absent, unknown
/// members left aside, and a value of another type as an error of the whole body.
struct GoObject {
    /// The type of a value is not the one that gorush reads.
    struct WrongType: Error {}

    /// The members by their names in lower case; of names that differ in case only the last one counts.
    private var members: [String: JSONValue] = [:]
    /// The object as it was written.
    let written: JSONObject

    init(_ object: JSONObject) {
        written = object
        for (name, value) in object where value != .null { members[name.lowercased()] = value }
    }

    /// Returns a member of any type.
    func value(_ name: String) -> JSONValue? { members[name] }

    func text(_ name: String) throws(WrongType) -> String? {
        guard let value = members[name] else { return nil }
        guard let text = value.stringValue else { throw WrongType() }
        return text
    }

    /// Returns a text that is not empty: to Go an empty text and an absent one are the same.
    func someText(_ name: String) throws(WrongType) -> String? {
        try text(name).flatMap { $0.isEmpty ? nil : $0 }
    }

    func flag(_ name: String) throws(WrongType) -> Bool {
        guard let value = members[name] else { return false }
        guard case .bool(let flag) = value else { throw WrongType() }
        return flag
    }

    func integer(_ name: String) throws(WrongType) -> Int64? {
        guard let value = members[name] else { return nil }
        guard case .integer(let number) = value else { throw WrongType() }
        return number
    }

    /// Returns a number as it was written.
    func number(_ name: String) throws(WrongType) -> JSONValue? {
        guard let value = members[name] else { return nil }
        switch value {
        case .integer, .double: return value
        default: throw WrongType()
        }
    }

    func object(_ name: String) throws(WrongType) -> JSONObject? {
        guard let value = members[name] else { return nil }
        guard let object = value.objectValue else { throw WrongType() }
        return object
    }

    /// Returns a list of texts; in a list `null` is an empty text.
    func texts(_ name: String) throws(WrongType) -> [String]? {
        guard let value = members[name] else { return nil }
        guard let list = value.arrayValue else { throw WrongType() }
        var texts: [String] = []
        texts.reserveCapacity(list.count)
        for element in list {
            if element == .null {
                texts.append("")
            } else if let text = element.stringValue {
                texts.append(text)
            } else {
                throw WrongType()
            }
        }
        return texts
    }
}

/// The first JSON value of a body; what stands after it is not looked at, as Go's decoder does it.
enum GoBody {
    /// Returns the value; nil when the body neither begins with an object or a list nor is one JSON value.
    ///
    /// Texts that are no Unicode are read as Go reads them: a caller that cuts a text by UTF-16 units leaves half an
    /// emoji at its end, and the other notifications of its request are worth sending.
    static func firstValue(_ body: [UInt8]) -> JSONValue? {
        strictValue(body) ?? mended(body).flatMap { strictValue($0) }
    }

    /// Whether the first value of a body nests deeper than the gateway reads.
    static func isTooDeep(_ body: [UInt8]) -> Bool {
        guard let first = firstObject(body) else { return false }
        return first.depth > JSONScanner.maximumDepth
    }

    private static func strictValue(_ body: [UInt8]) -> JSONValue? {
        if let whole = try? JSONValue(parsing: body) { return whole }
        guard let end = firstObject(body)?.end, end < body.count else { return nil }
        return try? JSONValue(parsing: Array(body[..<end]))
    }

    /// Returns a body with U+FFFD in the place of bytes that are no UTF-8, and of escapes that are half a character.
    ///
    /// Nil when it has none.
    private static func mended(_ body: [UInt8]) -> [UInt8]? {
        let bytes = Array(String(decoding: body, as: UTF8.self).utf8)
        var mended: [UInt8] = []
        mended.reserveCapacity(bytes.count)
        var place = 0
        while place < bytes.count {
            if let length = soundLength(bytes, place) {
                mended.append(contentsOf: bytes[place..<min(place + length, bytes.count)])
                place += length
            } else {
                mended.append(contentsOf: "\\ufffd".utf8)
                place += 6
            }
        }
        return mended == body ? nil : mended
    }

    /// Returns the number of bytes to copy at a place: a byte, an escape's beginning or a pair of escapes; nil for half
    /// a character.
    private static func soundLength(_ bytes: [UInt8], _ place: Int) -> Int? {
        guard bytes[place] == UInt8(ascii: "\\") else { return 1 }
        guard let unit = escape(bytes, place), (0xD800..<0xE000).contains(unit) else { return 2 }
        guard unit < 0xDC00, let low = escape(bytes, place + 6), (0xDC00..<0xE000).contains(low) else { return nil }
        return 12
    }

    /// Returns the UTF-16 unit of an escape such as `\ud83d` at a place; nil for anything else.
    private static func escape(_ bytes: [UInt8], _ place: Int) -> UInt16? {
        guard place + 6 <= bytes.count, bytes[place] == UInt8(ascii: "\\"), bytes[place + 1] == UInt8(ascii: "u") else {
            return nil
        }
        let digits = bytes[place + 2..<place + 6]
        guard digits.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") }) else { return nil }
        return UInt16(String(decoding: digits, as: UTF8.self), radix: 16)
    }

    /// Returns the end of an object or a list at the beginning, and how deep it nests; nil when there is none.
    private static func firstObject(_ body: [UInt8]) -> (end: Int, depth: Int)? {
        var depth = 0
        var deepest = 0
        var isText = false
        var isEscaped = false
        for (place, byte) in body.enumerated() {
            if isText {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isText = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isText = true
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                deepest = max(deepest, depth)
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth -= 1
                if depth == 0 { return (place + 1, deepest) }
                if depth < 0 { return nil }
            default: break
            }
        }
        return nil
    }
}
