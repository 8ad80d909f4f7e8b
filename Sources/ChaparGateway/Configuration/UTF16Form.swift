/// A form of UTF-16, by the name that `iconv` has for it.
package enum UTF16Form: String, Sendable {
    /// It has a byte order mark, which tells the order.
    case marked = "UTF-16"
    case littleEndian = "UTF-16LE"
    case bigEndian = "UTF-16BE"

    /// The number of bytes whose zeros are counted.
    private static let examined = 4_096

    /// Recognizes the form of a text by its beginning: by its byte order mark, else by the place of the zero bytes
    /// beside Latin letters; nil for text that is not UTF-16.
    ///
    /// `iconv -f UTF-16` reads text without a mark in the machine's own byte order, so the order must be named.
    package init?(of beginning: some Collection<UInt8>) {
        if beginning.starts(with: [0xFF, 0xFE]) || beginning.starts(with: [0xFE, 0xFF]) {
            self = .marked
            return
        }
        var zeros = [0, 0]
        for (index, byte) in beginning.prefix(Self.examined).enumerated() where byte == 0 { zeros[index % 2] += 1 }
        if zeros == [0, 0] {
            guard beginning.contains(0) else { return nil }
        }
        self = zeros[0] > zeros[1] ? .bigEndian : .littleEndian
    }
}
