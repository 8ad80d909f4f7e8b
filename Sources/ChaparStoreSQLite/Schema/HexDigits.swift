/// The packing of hexadecimal digits, which device tokens often consist of, into half of their bytes.
enum HexDigits {
    private static let shortest = 16

    /// Returns where the digits at the end of a text begin, an even number of them; the text's length when there are
    /// few.
    static func start(in text: [UInt8]) -> Int {
        var start = text.count
        text.withUnsafeBufferPointer { text in
            while start > 0, value(text[start - 1]) < 16 { start -= 1 }
        }
        if (text.count - start) % 2 != 0 { start += 1 }
        return text.count - start >= shortest ? start : text.count
    }

    /// Appends digits, an even number of them, as half as many bytes.
    static func pack(_ digits: ArraySlice<UInt8>, to bytes: inout [UInt8]) {
        digits.withUnsafeBufferPointer { digits in
            let count = digits.count / 2
            withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { packed in
                for index in 0..<count {
                    packed.initializeElement(
                        at: index,
                        to: value(digits[2 * index]) << 4 | value(digits[2 * index + 1])
                    )
                }
                bytes.append(contentsOf: UnsafeBufferPointer(packed))
            }
        }
    }

    static func unpack(_ bytes: [UInt8]) -> [UInt8] {
        var digits: [UInt8] = []
        digits.reserveCapacity(bytes.count * 2)
        for byte in bytes {
            digits.append(digit(byte >> 4))
            digits.append(digit(byte & 15))
        }
        return digits
    }

    /// Returns the value of a lowercase digit only, since unpacking must return what was packed; at least 16 for any
    /// other byte.
    private static func value(_ byte: UInt8) -> UInt8 {
        let decimal = byte &- UInt8(ascii: "0")
        if decimal < 10 { return decimal }
        let letter = byte &- UInt8(ascii: "a")
        return letter < 6 ? letter + 10 : .max
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }
}
