/// Padding in a row, which becomes the attempt log of its first attempt.
///
/// SQLite overwrites a row in place when its new form has exactly as many bytes as the old one; else it takes the row
/// out and puts it back, and splits the page, which is full, into two. So a row is inserted with some bytes of no
/// meaning, and the first attempt takes as many of them as it needs. Source: sqlite.org, "Database File Format", 2.1
/// "Record Format".
enum RowPadding {
    /// The bytes that a new row gets: enough for what a platform's yes is stored as.
    static let initial = 176

    /// How many bytes are left beside an attempt log, so that both take as much as ``initial`` bytes and no log; nil
    /// when the log is too long.
    static func left(beside attemptLog: Int) -> Int? {
        // The row's header has a number of one byte for a missing attempt log, and one for the length of each that is
        // there.
        let rest =
            1 + headerBytes(initial, isText: false) + initial - headerBytes(attemptLog, isText: true) - attemptLog
        guard rest >= 1 else { return nil }
        let padding = rest - 1
        return headerBytes(padding, isText: false) == 1 ? padding : rest - 2
    }

    /// The bytes that the length of a value takes in the row's header.
    private static func headerBytes(_ length: Int, isText: Bool) -> Int {
        let kind = 2 * length + (isText ? 13 : 12)
        return kind < 1 << 7 ? 1 : kind < 1 << 14 ? 2 : 3
    }
}
