/// The packing of hexadecimal digits, which device tokens often consist of, into half of their bytes.
enum HexDigits {
    private static let shortest = 16

    /// Returns where the digits at the end of a text begin, an even number of them; the text's length when there are
    /// few.
    static func start(in text: [UInt8]) -> Int {
        var start = text.count
        while start > 0, value(text[start - 1]) != nil { start -= 1 }
        if (text.count - start) % 2 != 0 { start += 1 }
        return text.count - start >= shortest ? start : text.count
    }

    static func pack(_ digits: ArraySlice<UInt8>, to bytes: inout [UInt8]) {
        var index = digits.startIndex
        while index + 1 < digits.endIndex {
            bytes.append((value(digits[index]) ?? 0) << 4 | (value(digits[index + 1]) ?? 0))
            index += 2
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

    /// Returns the value of a lowercase digit only: unpacking must return what was packed.
    private static func value(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }
}
