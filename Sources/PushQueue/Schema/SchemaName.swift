/// What a schema of a database may be called: a name that needs no quotes, since it stands in statements as it is.
package enum SchemaName {
    /// Whether a name begins with a letter a to z, has nothing but a to z, 0 to 9 and _, 63 at most, and is not the
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
