/// A hash that is the same in every process, unlike Swift's own: FNV-1a, of 64 bits.
///
/// For what is stored or compared with another process's: numbers of rows, fingerprints of settings, tags of pages.
/// Equal hashes are no proof, and it keeps no secret. Source: draft-eastlake-fnv, "The FNV Non-Cryptographic Hash
/// Algorithm".
package struct StableHash: Sendable, Hashable {
    /// Where the algorithm begins.
    package static let start: UInt64 = 0xCBF2_9CE4_8422_2325

    /// The hash of what was added so far.
    package private(set) var value: UInt64

    /// The hash of nothing; another beginning gives another hash of the same bytes.
    package init(start: UInt64 = StableHash.start) { value = start }

    /// Adds a byte.
    package mutating func add(_ byte: UInt8) {
        value = (value ^ UInt64(truncatingIfNeeded: byte)) &* 0x100_0000_01B3
    }

    /// Adds bytes, in order.
    package mutating func add(_ bytes: some Sequence<UInt8>) { for byte in bytes { add(byte) } }

    /// Adds the end of a text: a byte that UTF-8 has not, so that two texts that follow each other are kept apart.
    package mutating func addEnd() { add(0xFF) }

    /// The hash of a text.
    package static func of(_ text: String) -> UInt64 {
        var hash = StableHash()
        hash.add(text.utf8)
        return hash.value
    }
}
