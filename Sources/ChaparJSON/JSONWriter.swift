/// Appends compact JSON to a byte buffer: the one writer of payloads, answers, events and stored attempts.
///
/// Slashes are not escaped, since payload limits count bytes after encoding. The caller must open and close in order;
/// the writer adds the commas.
public struct JSONWriter: Sendable {
    /// The bytes written so far.
    public private(set) var bytes: [UInt8]
    private var needsComma = false

    /// Makes a writer with room for `capacity` bytes.
    public init(capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    /// Begins an object.
    public mutating func beginObject() { open(UInt8(ascii: "{")) }
    /// Ends an object.
    public mutating func endObject() { close(UInt8(ascii: "}")) }
    /// Begins an array.
    public mutating func beginArray() { open(UInt8(ascii: "[")) }
    /// Ends an array.
    public mutating func endArray() { close(UInt8(ascii: "]")) }

    /// Writes a member's name, to be followed by its value.
    ///
    /// Constant names are not escaped, which makes them cheap.
    public mutating func name(_ name: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a member's name, to be followed by its value.
    public mutating func name(_ name: String) {
        separate()
        quote(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a string.
    public mutating func string(_ value: String) {
        separate()
        quote(value)
        needsComma = true
    }

    /// Writes a whole number.
    ///
    /// It is not generic, since a generic one is not specialized for callers in other modules, and so would be slow.
    public mutating func integer(_ value: Int64) {
        separate()
        digits(value)
        needsComma = true
    }

    /// Writes a whole number.
    public mutating func integer(_ value: Int) { integer(Int64(value)) }

    /// Writes a number; JSON has no infinity and no NaN, which become `null`.
    public mutating func double(_ value: Double) {
        separate()
        if value.isFinite {
            bytes.append(contentsOf: "\(value)".utf8)
        } else {
            bytes.append(contentsOf: "null".utf8)
        }
        needsComma = true
    }

    /// Writes a Boolean.
    public mutating func bool(_ value: Bool) {
        separate()
        bytes.append(contentsOf: (value ? "true" : "false").utf8)
        needsComma = true
    }

    /// Writes `null`.
    public mutating func null() {
        separate()
        bytes.append(contentsOf: "null".utf8)
        needsComma = true
    }

    /// Writes a value that is encoded already.
    public mutating func raw(_ json: [UInt8]) {
        separate()
        bytes.append(contentsOf: json)
        needsComma = true
    }

    /// Writes a value that is encoded already.
    public mutating func raw(_ json: ArraySlice<UInt8>) {
        separate()
        bytes.append(contentsOf: json)
        needsComma = true
    }

    /// Writes a value that is encoded already.
    public mutating func raw(_ json: UnsafeMutableBufferPointer<UInt8>) {
        separate()
        bytes.append(contentsOf: json)
        needsComma = true
    }

    /// Writes a member of an object; nothing when there is no value.
    public mutating func field(_ name: StaticString, _ value: String?) {
        guard let value else { return }
        self.name(name)
        string(value)
    }

    /// Writes a member of an object; nothing when there is no value.
    public mutating func field(_ name: StaticString, _ value: Int64?) {
        guard let value else { return }
        self.name(name)
        integer(value)
    }

    /// Writes a member of an object; nothing when there is no value.
    public mutating func field(_ name: StaticString, _ value: Int?) {
        guard let value else { return }
        self.name(name)
        integer(value)
    }

    /// Writes a member of an object; nothing when there is no value.
    public mutating func field(_ name: StaticString, _ value: Double?) {
        guard let value else { return }
        self.name(name)
        double(value)
    }

    /// Writes a member of an object; nothing when there is no value.
    public mutating func field(_ name: StaticString, _ value: Bool?) {
        guard let value else { return }
        self.name(name)
        bool(value)
    }

    /// Writes any value.
    public mutating func value(_ value: JSONValue) {
        switch value {
        case .null: null()
        case .bool(let value): bool(value)
        case .integer(let value): integer(value)
        case .double(let value): double(value)
        case .string(let value): string(value)
        case .array(let values):
            beginArray()
            for value in values { self.value(value) }
            endArray()
        case .object(let object): self.object(object)
        }
    }

    /// Writes an object.
    public mutating func object(_ object: JSONObject) {
        beginObject()
        for (name, value) in object {
            self.name(name)
            self.value(value)
        }
        endObject()
    }

    private mutating func open(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
    }

    private mutating func digits(_ value: Int64) {
        if (0..<10).contains(value) {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value))
            return
        }
        var magnitude = value.magnitude
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var place = 20
            repeat {
                place -= 1
                digits[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude % 10)
                magnitude /= 10
            } while magnitude > 0
            if value < 0 { bytes.append(UInt8(ascii: "-")) }
            bytes.append(contentsOf: digits[place..<20])
        }
    }

    private mutating func quote(_ value: String) {
        bytes.append(UInt8(ascii: "\""))
        // Read in place; only a string that is not contiguous in memory is copied.
        if value.utf8.withContiguousStorageIfAvailable({ appendText($0) }) == nil {
            var value = value
            value.withUTF8 { appendText($0) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func appendText(_ text: UnsafeBufferPointer<UInt8>) {
        if Self.isPlain(text) { bytes.append(contentsOf: text) } else { appendEscaped(text) }
    }

    /// Whether no byte needs an escape, as in nearly every text.
    private static func isPlain(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        let bytes = UnsafeRawBufferPointer(text)
        var place = 0
        while place + 8 <= bytes.count {
            if needsEscape(bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self)) { return false }
            place += 8
        }
        while place < bytes.count {
            let byte = bytes[place]
            if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return false }
            place += 1
        }
        return true
    }

    /// Whether one of eight bytes needs an escape.
    ///
    /// Subtracting `n` from a byte below `n` borrows from its highest bit, and two bytes are equal when their bitwise
    /// difference is below 1.
    static func needsEscape(_ eight: UInt64) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highest: UInt64 = 0x8080_8080_8080_8080
        let control = (eight &- 0x20 * ones) & ~eight
        let quotes = eight ^ 0x22 * ones
        let slashes = eight ^ 0x5C * ones
        return (control | (quotes &- ones) & ~quotes | (slashes &- ones) & ~slashes) & highest != 0
    }

    private mutating func appendEscaped(_ text: UnsafeBufferPointer<UInt8>) {
        var plain = 0  // Where the run of bytes that need no escape begins.
        for place in 0..<text.count {
            let byte = text[place]
            guard byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") else { continue }
            bytes.append(contentsOf: text[plain..<place])
            escape(byte)
            plain = place + 1
        }
        bytes.append(contentsOf: text[plain...])
    }

    private mutating func escape(_ byte: UInt8) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\n"): bytes.append(UInt8(ascii: "n"))
        case UInt8(ascii: "\r"): bytes.append(UInt8(ascii: "r"))
        case UInt8(ascii: "\t"): bytes.append(UInt8(ascii: "t"))
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes.append(byte)
        default:
            let hex = Array("0123456789abcdef".utf8)
            bytes.append(contentsOf: "u00".utf8)
            bytes.append(hex[Int(byte >> 4)])
            bytes.append(hex[Int(byte & 15)])
        }
    }
}
