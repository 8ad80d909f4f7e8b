/// The coding of records: a version, then fields, each a tag, a length and bytes.
///
/// A field that this program does not know is kept unchanged, and written back. So a program with a new field and one
/// without it can use the same store. Tags and lengths are unsigned numbers of seven bits a byte, the lowest first. The
/// highest bit says that another byte follows. A tag never changes its meaning.
package enum RecordCoding {
    /// The first byte of every record.
    package static let version: UInt8 = 1

    /// Appends a field.
    package static func append(_ tag: UInt64, _ bytes: some Collection<UInt8>, to record: inout [UInt8]) {
        begin(tag, count: bytes.count, in: &record)
        record.append(contentsOf: bytes)
    }

    /// Appends a field's tag and length; the caller appends its bytes.
    package static func begin(_ tag: UInt64, count: Int, in record: inout [UInt8]) {
        append(number: tag, to: &record)
        append(number: UInt64(clamping: count), to: &record)
    }

    /// Appends a field of a whole number, always in eight bytes, so that records of one sender have equal lengths.
    package static func append(_ tag: UInt64, number: Int64, to record: inout [UInt8]) {
        begin(tag, count: 8, in: &record)
        Swift.withUnsafeBytes(of: number.littleEndian) { record.append(contentsOf: $0) }
    }

    /// Appends a number of seven bits a byte.
    static func append(number: UInt64, to record: inout [UInt8]) {
        var rest = number
        while rest >= 0x80 {
            record.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        record.append(UInt8(truncatingIfNeeded: rest))
    }

    /// Reads the fields of a record, in their order.
    ///
    /// - Returns: False when the bytes are no record of this version, or a field does not end where it says.
    package static func read(_ record: [UInt8], _ field: (_ tag: UInt64, _ bytes: ArraySlice<UInt8>) -> Void) -> Bool {
        guard record.first == version else { return false }
        var input = record.dropFirst()
        while !input.isEmpty {
            guard let tag = number(&input), let length = number(&input), length <= UInt64(clamping: input.count) else {
                return false
            }
            let bytes = input.prefix(Int(length))
            input = input.dropFirst(bytes.count)
            field(tag, bytes)
        }
        return true
    }

    /// Reads a whole number that ``append(_:number:to:)`` wrote; nil for other lengths.
    package static func number(in bytes: ArraySlice<UInt8>) -> Int64? {
        guard bytes.count == 8 else { return nil }
        return bytes.reversed().reduce(0) { $0 << 8 | Int64($1) }
    }

    /// Reads a number of seven bits a byte; nil when it is malformed.
    static func number(_ input: inout ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        var shift: UInt64 = 0
        while let byte = input.popFirst() {
            // Ten bytes hold 64 bits, the last of them one bit.
            guard shift < 63 || byte <= 1 else { return nil }
            number |= UInt64(truncatingIfNeeded: byte & 0x7F) << shift
            if byte & 0x80 == 0 { return number }
            shift += 7
            guard shift <= 63 else { return nil }
        }
        return nil
    }
}
