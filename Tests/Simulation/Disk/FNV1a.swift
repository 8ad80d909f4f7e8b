/// A hash that is the same in each process: FNV-1a, of 64 bits.
public struct FNV1a: Equatable, Sendable {
    /// The hash of what was added so far.
    public private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    /// The hash of nothing.
    public init() {}

    /// Adds the bytes of a text.
    public mutating func add(_ text: String) {
        var text = text
        text.withUTF8 { for byte in $0 { mix(UInt64(byte)) } }
    }

    /// Adds a number as a whole.
    public mutating func add(_ word: UInt64) {
        mix(word)
        // FNV carries upwards only: what differs in a word's high bits has to come down.
        value ^= value >> 29
    }

    private mutating func mix(_ word: UInt64) { value = (value ^ word) &* 0x100_0000_01B3 }
}
