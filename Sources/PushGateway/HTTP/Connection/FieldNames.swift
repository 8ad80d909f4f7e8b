extension String {
    /// Whether the text is this word of lower-case ASCII, in any case.
    func isField(_ word: StaticString) -> Bool { utf8.count == word.utf8CodeUnitCount && hasFieldPrefix(word) }

    /// Whether the text begins with this word of lower-case ASCII, in any case.
    func hasFieldPrefix(_ word: StaticString) -> Bool {
        word.withUTF8Buffer { word in
            var place = 0
            for byte in utf8 {
                guard place < word.count else { return true }
                let lower = byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
                guard lower == word[place] else { return false }
                place += 1
            }
            return place == word.count
        }
    }
}
