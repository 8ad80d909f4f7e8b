import ChaparCore

/// Reads and writes records of separated values (RFC 4180).
///
/// Only a quotation mark that begins a field quotes it; one within a field is a letter, such as in `5" screen`.
enum CSV {
    /// The position between two bytes of a record.
    enum Position {
        /// At the beginning of a field.
        case start
        /// In a field without quotation marks around it.
        case plain
        /// Within the quotation marks of a field.
        case quoted
        /// After a quotation mark within a quoted field, which ends the field or is the first of two.
        case mark
    }

    /// The fields of a record.
    struct Fields {
        /// The fields; doubled quotation marks within a quoted field stand for one.
        var values: [String] = []
        /// The number, from 1, of the first field with text after its closing quotation mark.
        var faulty: Int?
    }

    /// The separators of columns that are told apart by the headings.
    private static let separators: [UInt8] = [UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t")]

    /// Returns the position after a byte of a record.
    private static func position(after byte: UInt8, _ position: Position, _ separator: UInt8) -> Position {
        switch (position, byte) {
        case (.quoted, UInt8(ascii: "\"")): .mark
        case (.quoted, _), (.mark, UInt8(ascii: "\"")): .quoted
        case (.start, UInt8(ascii: "\"")): .quoted
        case (_, separator): .start
        default: .plain
        }
    }

    /// Returns the position after a line of a record, and whether it opened a quoted field that it leaves open.
    static func position(after line: String, _ position: Position, separator: UInt8) -> (end: Position, opens: Bool) {
        var position = position
        var opens = false
        for byte in line.utf8 {
            if position == .start, byte == UInt8(ascii: "\"") { opens = true }
            position = Self.position(after: byte, position, separator)
        }
        return (position, opens && position == .quoted)
    }

    /// Reads a record.
    static func read(_ record: String, separator: UInt8 = UInt8(ascii: ",")) -> Fields {
        var fields = Fields()
        var field: [UInt8] = []
        var position = Position.start
        func text() -> String { String(decoding: field, as: UTF8.self) }
        for byte in record.utf8 {
            let next = Self.position(after: byte, position, separator)
            switch (position, next) {
            case (_, .start):
                fields.values.append(text())
                field = []
            case (.start, .quoted), (.quoted, .mark): break
            case (.mark, .plain):
                fields.faulty = fields.faulty ?? fields.values.count + 1
                field.append(byte)
            default: field.append(byte)
            }
            position = next
        }
        fields.values.append(text())
        return fields
    }

    /// Returns the fields of a record.
    static func fields(_ record: String, separator: UInt8 = UInt8(ascii: ",")) -> [String] {
        read(record, separator: separator).values
    }

    /// Returns the separator that divides the headings into the most fields: a comma where there is one column.
    static func separator(of headings: String) -> UInt8 {
        let counts = separators.map { read(headings, separator: $0).values.count }
        guard let most = counts.max(), most > 1, let place = counts.firstIndex(of: most) else { return separators[0] }
        return separators[place]
    }

    /// Returns the separator that a first line `sep=;` names, as some spreadsheets write it; nil for any other line.
    static func separator(namedBy line: String) -> UInt8? {
        let bytes = Array(line.utf8)
        guard bytes.count == 5, line.lowercased().hasPrefix("sep="), separators.contains(bytes[4]) else { return nil }
        return bytes[4]
    }

    /// Returns a field as it stands in a record: in quotation marks where it needs them.
    static func quoted(_ field: String) -> String {
        let needsMarks: [UInt8] = [UInt8(ascii: ","), UInt8(ascii: "\""), UInt8(ascii: "\n"), UInt8(ascii: "\r")]
        guard field.utf8.contains(where: needsMarks.contains) else { return field }
        var quoted = "\"".unicodeScalars
        for scalar in field.unicodeScalars {
            if scalar == "\"" { quoted.append(scalar) }
            quoted.append(scalar)
        }
        return String(quoted) + "\""
    }
}
