package import ChaparCore

/// The textual form of a UUID (RFC 9562, section 4), in either case.
package enum UUIDText {
    package static func isValid(_ text: String) -> Bool { parse(text) != nil }

    /// Returns the UUID as a number; nil when the text is none.
    package static func parse(_ text: String) -> UInt128? {
        var value: UInt128 = 0
        var place = 0
        for byte in text.utf8 {
            switch place {
            case 8, 13, 18, 23:
                guard byte == UInt8(ascii: "-") else { return nil }
            default:
                guard let digit = HexText.digit(byte) else { return nil }
                value = value << 4 | UInt128(digit)
            }
            place += 1
        }
        return place == 36 ? value : nil
    }

    /// Returns a version 4 UUID in lower case, made of any 128 bits.
    package static func make(_ bits: UInt128) -> String {
        let fixedBits: UInt128 = 0xF << 76 | 0x3 << 62
        let version: UInt128 = 0x4 << 76
        let variant: UInt128 = 0x2 << 62
        let value = (bits & ~fixedBits) | version | variant
        return String(unsafeUninitializedCapacity: 36) { text in
            var shift = 128
            for place in 0..<36 {
                switch place {
                case 8, 13, 18, 23: text[place] = UInt8(ascii: "-")
                default:
                    shift -= 4
                    text[place] = HexText.digits[Int(truncatingIfNeeded: value >> UInt128(shift)) & 15]
                }
            }
            return 36
        }
    }
}

/// Hexadecimal text.
package enum HexText {
    package static let digits = Array("0123456789abcdef".utf8)

    package static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// Returns whole bytes of hexadecimal text in lower case; nil for anything else.
    package static func normalised(_ text: Substring) -> String? {
        var hasUpperCase = false
        var count = 0
        for byte in text.utf8 {
            guard digit(byte) != nil else { return nil }
            if byte >= UInt8(ascii: "A"), byte <= UInt8(ascii: "F") { hasUpperCase = true }
            count += 1
        }
        guard count > 0, count % 2 == 0 else { return nil }
        return hasUpperCase ? text.lowercased() : String(text)
    }
}

extension SeededGenerator {
    package mutating func uuid() -> String { UUIDText.make(UInt128(next()) << 64 | UInt128(next())) }
}
