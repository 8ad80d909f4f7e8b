/// The id of one delivery, the same for every attempt; platforms get it as `apns-id` or as an idempotency key.
///
/// 128 bits, written as a lower-case UUID. The gateway derives it from the stored delivery, so that it survives a
/// restart.
public struct MessageID: Hashable, Sendable, CustomStringConvertible {
    /// The first eight bytes.
    public let high: UInt64
    /// The last eight bytes.
    public let low: UInt64

    /// Makes an id from its two halves.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Makes a random id.
    public static func random() -> MessageID {
        MessageID(
            high: .random(in: .min ... .max) & 0xFFFF_FFFF_FFFF_0FFF | 0x4000,
            low: .random(in: .min ... .max) & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        )
    }

    /// The canonical form: 36 characters, lower case.
    ///
    /// The code formats it without Foundation, which is faster, since every message needs it.
    public var description: String {
        String(unsafeUninitializedCapacity: 36) { text in
            var place = 0
            for index in 0..<16 {
                if index == 4 || index == 6 || index == 8 || index == 10 {
                    text[place] = UInt8(ascii: "-")
                    place += 1
                }
                let half = index < 8 ? high : low
                let byte = UInt8(truncatingIfNeeded: half >> UInt64(truncatingIfNeeded: 56 - 8 * (index % 8)))
                text[place] = Self.digit(byte >> 4)
                text[place + 1] = Self.digit(byte & 15)
                place += 2
            }
            return place
        }
    }

    private static func digit(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") - 10 + nibble
    }
}
