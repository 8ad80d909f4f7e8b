import Foundation
import ChaparGateway

/// Checks that text of a file or of stdin is UTF-8.
///
/// The encoding of 8-bit text cannot be known from its bytes: a wrong guess would turn every letter into another. So
/// other text is refused, with the way to convert it, and never read with letters lost.
enum UTF8Text {
    /// Returns the text of a whole file, or of stdin, without a byte order mark at its beginning; `name` is for the
    /// error.
    static func whole(_ bytes: Data, of name: String) throws(CommandFailure) -> String {
        if let form = ForeignForm(of: bytes) { throw form.refusal(of: name) }
        if let encoding = UTF16Form(of: bytes) { throw refusal(name, 1, encoding) }
        var lines: [String] = []
        var wrong = WrongLines()
        for line in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            let number = lines.count + 1
            do throws(CommandFailure) {
                lines.append(try self.line(line, number, of: name))
            } catch {
                wrong.add(error, line: number)
                lines.append("")
            }
        }
        try wrong.end()
        return lines.joined(separator: "\n")
    }

    /// The lines of a text that are not UTF-8: the first and the last are told.
    struct WrongLines {
        private var first: CommandFailure?
        private var count = 0
        private var last = 0

        /// Adds the failure of a line.
        mutating func add(_ failure: CommandFailure, line: Int) {
            first = first ?? failure
            (count, last) = (count + 1, line)
        }

        /// Throws when there is a wrong line.
        func end() throws(CommandFailure) {
            guard let first else { return }
            guard count > 1 else { throw first }
            let rest = "; \(count) lines are wrong, the last is line \(last)"
            throw CommandFailure(first.description + rest, .usage)
        }
    }

    /// Returns the text of one line, without its line break; `number` begins with 1.
    static func line(_ bytes: some Collection<UInt8>, _ number: Int, of name: String) throws(CommandFailure) -> String {
        if number == 1, let form = ForeignForm(of: bytes) { throw form.refusal(of: name) }
        let hasMark = number == 1 && bytes.starts(with: [0xEF, 0xBB, 0xBF])
        let rest = bytes.dropFirst(hasMark ? 3 : 0)
        let encoding = number == 1 ? UTF16Form(of: rest) : nil
        guard encoding == nil, let text = String(validating: rest, as: UTF8.self) else {
            throw refusal(name, number, encoding)
        }
        return text
    }

    private static func refusal(_ name: String, _ line: Int, _ encoding: UTF16Form?) -> CommandFailure {
        let way =
            encoding.map {
                "it looks like UTF-16 (\"Unicode text\"). Save the file as UTF-8 (in a spreadsheet: \"CSV UTF-8\"), or "
                    + "convert it: iconv -f \($0.rawValue) -t UTF-8"
            }
            ?? "so letters would be lost. Save the file as UTF-8 (in a spreadsheet: \"CSV UTF-8\"), or convert it with the name "
            + "of its own encoding: iconv -f ENCODING -t UTF-8, where ENCODING is for example WINDOWS-1251 (Russian), "
            + "WINDOWS-1256 (Persian, Arabic) or WINDOWS-1252 (Western Europe)"
        return CommandFailure("\(name):\(line): is not text in UTF-8, \(way)", .usage)
    }
}

/// A form of file that holds a table and is no text, told by its first bytes.
enum ForeignForm: CaseIterable {
    case gzip, zstandard, xz, bzip2, zip, oldSpreadsheet

    /// The bytes at the beginning.
    ///
    /// Sources: RFC 1952, RFC 8878, the formats of xz and bzip2, PKWARE's APPNOTE, [MS-CFB].
    private var beginning: [UInt8] {
        switch self {
        case .gzip: [0x1F, 0x8B]
        case .zstandard: [0x28, 0xB5, 0x2F, 0xFD]
        case .xz: [0xFD, 0x37, 0x7A, 0x58, 0x5A]
        case .bzip2: Array("BZh".utf8)
        case .zip: [0x50, 0x4B, 0x03, 0x04]
        case .oldSpreadsheet: [0xD0, 0xCF, 0x11, 0xE0]
        }
    }

    /// Recognizes the form of a file by its first bytes; nil for any other file.
    init?(of bytes: some Collection<UInt8>) {
        guard let form = Self.allCases.first(where: { bytes.starts(with: $0.beginning) }) else { return nil }
        self = form
    }

    /// Returns the refusal of a file of this form, with the way to make text of it.
    func refusal(of name: String) -> CommandFailure {
        let sheet = "save the sheet as \"CSV UTF-8\", and give that file"
        let sentence =
            switch self {
            case .gzip: "is compressed with gzip. Unpack it: gunzip -k FILE"
            case .zstandard: "is compressed with zstd. Unpack it: zstd -d FILE"
            case .xz: "is compressed with xz. Unpack it: xz -dk FILE"
            case .bzip2: "is compressed with bzip2. Unpack it: bzip2 -dk FILE"
            case .zip: "is a spreadsheet (.xlsx, .ods) or another ZIP archive, not text. In the spreadsheet \(sheet)"
            case .oldSpreadsheet: "is a spreadsheet (.xls), not text. In the spreadsheet \(sheet)"
            }
        return CommandFailure("\(name): \(sentence)", .usage)
    }
}
