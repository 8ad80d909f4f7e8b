import Foundation
import ChaparCore

/// Reads messages or devices from a CSV or NDJSON file or from stdin, line by line, so that input of any length needs
/// little memory.
///
/// A line of NDJSON is an object of the API; a row of CSV names fields by its headings, which also tell whether commas,
/// semicolons or tabs separate the columns. Flags fill the fields that a line leaves out. The text must be UTF-8. The
/// whole input is checked before its first line is returned, a pipe by way of a temporary file: half of it must not
/// have gone out when the rest turns out to be in another encoding. A stream is checked line by line.
struct InputFile {
    /// One message with the line it came from.
    struct Line {
        var number: Int
        var result: Result<JSONObject, CommandFailure>
    }

    /// The forms of a file.
    enum Format {
        case csv
        case ndjson
    }

    /// The meaning of the rows of a CSV file.
    struct Rows {
        /// Throws for headings that have no meaning; gets the file's name with the line for its message.
        var check: ([String], String) throws(CommandFailure) -> Void
        /// Makes the object of a row with these headings.
        var object: ([String], [String]) throws(CommandFailure) -> JSONObject
        /// The option of the command that declares a file to be CSV, for the advice.
        var option: String

        /// The meaning of rows that hold messages.
        ///
        /// `service`, `token`, `title`, `body`, `data.order`, …
        static var messages: Rows { Rows(check: CSVRow.check, object: CSVRow.request, option: "--input-format csv") }
    }

    /// A line of NDJSON, or a record of CSV, whose quoted fields may have line breaks.
    private struct Record {
        var text: String
        /// The number of the record's first line.
        var line: Int
        /// The line of a quotation mark that is never closed.
        var openMark: Int?
    }

    private let handle: UnsafeMutablePointer<FILE>
    private let base: JSONObject
    private let format: Format
    private let rows: Rows
    private let name: String
    private var lines: LineReader
    private var headings: [String]?
    private var separator = UInt8(ascii: ",")
    /// The position of the input's first byte.
    private let start: Int
    /// The size in bytes; nil when it is unknown.
    let size: Int?
    /// The number of bytes read so far.
    var consumed: Int { lines.consumed }

    /// Opens `path`, or stdin for `-`.
    ///
    /// - Parameters:
    ///   - path: The path.
    ///   - format: The form; nil tells it by the name.
    ///   - rows: The meaning of the rows of a table.
    ///   - base: The fields that a line may leave out.
    ///   - isStream: Whether lines are returned before the whole input has been read.
    /// - Throws: `CommandFailure` when it cannot be read. Unless it is a stream, also for text that is not UTF-8, a
    ///   line that is too long, headings that mean nothing, or an open quotation mark.
    init(
        _ path: String,
        format: Format?,
        rows: Rows = .messages,
        base: JSONObject = JSONObject(),
        isStream: Bool = false
    ) throws {
        self.rows = rows
        self.base = base
        self.format = format ?? (path.lowercased().hasSuffix(".csv") ? .csv : .ndjson)
        name = path == "-" ? "stdin" : path
        handle = try Self.open(path, name, isStream: isStream)
        let start = max(0, ftello(handle))
        self.start = start
        size = Self.size(of: handle).map { max(0, $0 - start) }
        lines = LineReader(handle, name: name)
        guard !isStream else { return }
        do {
            try checkText()
            switch self.format {
            case .csv: try checkTable()
            case .ndjson: try checkFirstLine()
            }
        } catch {
            close()
            throw error
        }
    }

    /// Opens the input; what is no file, such as a pipe, is copied into one unless it is a stream.
    private static func open(
        _ path: String,
        _ name: String,
        isStream: Bool
    ) throws(CommandFailure) -> UnsafeMutablePointer<FILE> {
        guard let source = path == "-" ? fdopen(dup(STDIN_FILENO), "rb") : fopen(path, "rb") else {
            throw CommandFailure.system("read \(path)", .usage)
        }
        guard !isStream, size(of: source) == nil else { return source }
        defer { fclose(source) }
        guard let copy = tmpfile() else { throw CommandFailure.system("keep \(name) in a temporary file") }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = fread(&buffer, 1, buffer.count, source)
            guard count > 0 else { break }
            guard fwrite(buffer, 1, count, copy) == count else {
                let failure = CommandFailure.system("keep \(name) in a temporary file")
                fclose(copy)
                throw failure
            }
        }
        guard ferror(source) == 0 else {
            let failure = CommandFailure.system("read \(name)", .usage)
            fclose(copy)
            throw failure
        }
        rewind(copy)
        return copy
    }

    /// Returns the size of a file; nil for anything else.
    private static func size(of handle: UnsafeMutablePointer<FILE>) -> Int? {
        var status = stat()
        guard fstat(fileno(handle), &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return status.st_size
    }

    /// Closes the file.
    func close() { fclose(handle) }

    /// Goes back to where the input began.
    private mutating func restart() {
        fseeko(handle, start, SEEK_SET)
        lines = LineReader(handle, name: name)
        headings = nil
    }

    /// Throws for text that is not UTF-8, with the first and the last line of it.
    private mutating func checkText() throws(CommandFailure) {
        var wrong = UTF8Text.WrongLines()
        while let bytes = try lines.next() {
            do throws(CommandFailure) {
                _ = try UTF8Text.line(bytes, lines.number, of: name)
            } catch {
                wrong.add(error, line: lines.number)
                // Text with zero bytes, such as UTF-16, and files that are no text have no lines worth counting.
                if bytes.contains(0) || lines.number == 1 && ForeignForm(of: bytes) != nil { break }
            }
        }
        try wrong.end()
        restart()
    }

    /// Throws for headings that mean nothing, and for a quotation mark that nothing closes.
    private mutating func checkTable() throws(CommandFailure) {
        if try readHeadings() {
            while let record = try record() {
                guard let mark = record.openMark else { continue }
                throw CommandFailure("\(name):\(mark): \(openMark(from: mark)); nothing was used", .usage)
            }
        }
        restart()
    }

    /// Throws for JSON that is one value over several lines, and for a list: neither has one object a line.
    private mutating func checkFirstLine() throws(CommandFailure) {
        var first: Record?
        while first == nil, let record = try record() {
            if !record.text.allSatisfy(\.isWhitespace) { first = record }
        }
        restart()
        guard let first else { return }
        let text = first.text.trimmingCharacters(in: .whitespaces)
        let way: String
        if text.hasPrefix("[") {
            way = "is a JSON list; each line needs an object (NDJSON). jq -c '.[]' FILE makes lines of it"
        } else if text == "{" {
            way =
                "begins an object over several lines; each line needs a whole one (NDJSON). jq -c . FILE makes lines of it"
        } else {
            return
        }
        throw CommandFailure("\(name):\(first.line): \(way); a table is \(rows.option)", .usage)
    }

    /// Returns the next message; nil at the end.
    mutating func next() throws(CommandFailure) -> Line? {
        switch format {
        case .ndjson:
            while let record = try record() {
                if record.text.allSatisfy(\.isWhitespace) { continue }
                return Line(number: record.line, result: request(json: record.text))
            }
            return nil
        case .csv:
            if headings == nil, try !readHeadings() { return nil }
            while let record = try record() {
                if let mark = record.openMark {
                    return Line(number: mark, result: .failure(CommandFailure(openMark(from: mark), .usage)))
                }
                let row = CSV.read(record.text, separator: separator)
                // Spreadsheets write empty rows as separators alone.
                if row.values.allSatisfy({ $0.allSatisfy(\.isWhitespace) }) { continue }
                return Line(number: record.line, result: request(row, from: record.line))
            }
            return nil
        }
    }

    /// Reads the headings and tells by them what separates the columns; returns false when there are none.
    private mutating func readHeadings() throws(CommandFailure) -> Bool {
        separator = UInt8(ascii: ",")
        guard var first = try rowWithText() else { return false }
        if let named = CSV.separator(namedBy: first.text) {
            separator = named
            guard let second = try rowWithText() else { return false }
            first = second
        } else {
            separator = CSV.separator(of: first.text)
        }
        if let mark = first.openMark { throw CommandFailure("\(name):\(mark): \(openMark(from: mark))", .usage) }
        let fields = CSV.fields(first.text, separator: separator).map { $0.trimmingCharacters(in: .whitespaces) }
        headings = fields
        try rows.check(fields, "\(name):\(first.line)")
        return true
    }

    /// Reads the next record that is not blank and not separators alone, as spreadsheets write empty rows.
    private mutating func rowWithText() throws(CommandFailure) -> Record? {
        while let record = try record() {
            let isEmpty = record.text.allSatisfy { $0.isWhitespace || ",;\"".contains($0) }
            if record.openMark != nil || !isEmpty { return record }
        }
        return nil
    }

    private func request(json line: String) -> Result<JSONObject, CommandFailure> {
        let bytes = Array(line.utf8)
        do throws(JSONSyntaxError) {
            if let object = try JSONValue(parsing: bytes).objectValue { return .success(base.merging(object)) }
        } catch {
            if line.first == "{" {
                return .failure(CommandFailure("is not a JSON object: \(error.sentence(about: bytes))", .usage))
            }
        }
        let advice = line.first == "{" ? "" : ": each line needs one (NDJSON); a table is \(rows.option)"
        return .failure(CommandFailure("is not a JSON object\(advice)", .usage))
    }

    private func request(_ row: CSV.Fields, from line: Int) -> Result<JSONObject, CommandFailure> {
        let headings = headings ?? []
        let reach = lines.number > line ? "; its quotation marks reach to line \(lines.number)" : ""
        guard row.values.count == headings.count else {
            let count = row.values.count
            return .failure(
                CommandFailure("has \(count) fields, the line of headings has \(headings.count)\(reach)", .usage)
            )
        }
        if let faulty = row.faulty {
            let sentence = "has text after the closing quotation mark of field \(faulty): \(Self.doubled)\(reach)"
            return .failure(CommandFailure(sentence, .usage))
        }
        do throws(CommandFailure) {
            return .success(base.merging(try rows.object(headings, row.values)))
        } catch {
            return .failure(error)
        }
    }

    private static let doubled = "a field with a mark stands in marks, with that one doubled: \"5\"\" disk\""

    /// Returns the fault of a quotation mark that is open at the end of the input.
    private func openMark(from mark: Int) -> String {
        let number = lines.number
        let reach = number > mark ? ": all up to the end, line \(number), counts as this field" : ""
        return "has a quotation mark that nothing closes (\(Self.doubled))\(reach)"
    }

    /// Reads a record; in a table, line breaks within quotation marks belong to it.
    private mutating func record() throws(CommandFailure) -> Record? {
        guard let text = try line() else { return nil }
        var record = Record(text: text, line: lines.number)
        guard format == .csv else { return record }
        var (position, _) = CSV.position(after: text, .start, separator: separator)
        if position == .quoted { record.openMark = lines.number }
        while position == .quoted, let more = try line() {
            record.text += "\n" + more
            let (end, opens) = CSV.position(after: more, position, separator: separator)
            position = end
            if opens { record.openMark = lines.number }
            if position != .quoted { record.openMark = nil }
            guard record.text.utf8.count <= LineReader.limit else { throw LineReader.tooLong(name, record.line) }
        }
        return record
    }

    private mutating func line() throws(CommandFailure) -> String? {
        guard let bytes = try lines.next() else { return nil }
        return try UTF8Text.line(bytes, lines.number, of: name)
    }
}
