/// A hash that is the same in every process, unlike Swift's own: FNV-1a, of 64 bits.
///
/// Use it for values that are stored, or compared with a value of another process: numbers of rows, fingerprints of
/// settings, tags of pages. Equal hashes do not prove that the inputs are equal, and a hash does not hide its input.
/// Source: draft-eastlake-fnv, "The FNV Non-Cryptographic Hash Algorithm".
package struct StableHash: Sendable, Hashable {
    /// The initial value of the algorithm.
    package static let start: UInt64 = 0xCBF2_9CE4_8422_2325

    /// The hash of what was added so far.
    package private(set) var value: UInt64

    /// Makes the hash of nothing; another initial value gives another hash of the same bytes.
    package init(start: UInt64 = StableHash.start) { value = start }

    /// Adds a byte.
    package mutating func add(_ byte: UInt8) {
        value = (value ^ UInt64(truncatingIfNeeded: byte)) &* 0x100_0000_01B3
    }

    /// Adds bytes, in order.
    package mutating func add(_ bytes: some Sequence<UInt8>) { for byte in bytes { add(byte) } }

    /// Adds the end of a text: a byte that UTF-8 never contains, so that two texts in a row do not run together.
    package mutating func addEnd() { add(0xFF) }

    /// Returns the hash of a text.
    package static func of(_ text: String) -> UInt64 {
        var hash = StableHash()
        hash.add(text.utf8)
        return hash.value
    }
}
