/// The rule for names of a database schema: they must need no quotes, since they are put in statements as they are.
package enum SchemaName {
    /// Whether a name begins with a letter a to z, has only a to z, 0 to 9 and _, is at most 63 long, and is not the
    /// server's own.
    package static func isPlain(_ name: String) -> Bool {
        guard let first = name.utf8.first, isLetter(first), name.utf8.count <= 63, !name.hasPrefix("pg_") else {
            return false
        }
        return name.utf8.allSatisfy {
            isLetter($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: "_")
        }
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }
}
