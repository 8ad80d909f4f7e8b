extension String {
    /// Whether the text equals this lower-case ASCII text, ignoring case.
    package func isField(_ name: StaticString) -> Bool { utf8.count == name.utf8CodeUnitCount && hasFieldPrefix(name) }

    /// Whether the text begins with this lower-case ASCII text, ignoring case.
    package func hasFieldPrefix(_ name: StaticString) -> Bool {
        name.withUTF8Buffer { name in
            var index = 0
            for byte in utf8 {
                guard index < name.count else { return true }
                let lower = byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
                guard lower == name[index] else { return false }
                index += 1
            }
            return index == name.count
        }
    }
}
