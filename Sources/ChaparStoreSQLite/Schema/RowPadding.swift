/// Padding in a row, whose bytes the attempt log of the first attempt takes over.
///
/// SQLite overwrites a row in place when its new form has exactly as many bytes as the old one; otherwise it removes
/// and reinserts the row, and splits the page, which is full, into two. So a row is inserted with some bytes of
/// padding, and the first attempt takes as many of them as it needs. Source: sqlite.org, "Database File Format", 2.1
/// "Record Format".
enum RowPadding {
    /// The bytes of padding in a new row: enough for the stored form of a platform's acceptance.
    static let initial = 176

    /// Returns how many bytes of padding are left beside an attempt log, so that both take as much as ``initial`` bytes
    /// and no log; nil when the log is too long.
    static func left(beside attemptLog: Int) -> Int? {
        // The row's header has one byte for a missing attempt log, and the length of each value that is there.
        let rest =
            1 + headerBytes(initial, isText: false) + initial - headerBytes(attemptLog, isText: true) - attemptLog
        guard rest >= 1 else { return nil }
        let padding = rest - 1
        return headerBytes(padding, isText: false) == 1 ? padding : rest - 2
    }

    /// Returns how many bytes the length of a value takes in the row's header.
    private static func headerBytes(_ length: Int, isText: Bool) -> Int {
        let kind = 2 * length + (isText ? 13 : 12)
        return kind < 1 << 7 ? 1 : kind < 1 << 14 ? 2 : 3
    }
}
