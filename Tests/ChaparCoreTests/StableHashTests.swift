import ChaparCore
import Testing

/// Values of draft-eastlake-fnv, appendix C, "FNV-1a test vectors".
@Suite("A hash that is the same in every process")
struct StableHashTests {
    @Test(
        "It is FNV-1a of 64 bits",
        arguments: [
            ("", 0xCBF2_9CE4_8422_2325), ("a", 0xAF63_DC4C_8601_EC8C), ("foobar", 0x8594_4171_F739_67E8),
        ] as [(String, UInt64)]
    )
    func vectors(text: String, hash: UInt64) { #expect(StableHash.of(text) == hash) }

    @Test("Two texts that follow each other are not taken for one")
    func end() {
        func hash(_ texts: String...) -> UInt64 {
            var hash = StableHash()
            for text in texts {
                hash.add(text.utf8)
                hash.addEnd()
            }
            return hash.value
        }
        #expect(hash("ab", "c") != hash("a", "bc") && hash("ab", "c") == hash("ab", "c"))
    }
}
