import Foundation
import ChaparCore

/// Reads messages or devices from a CSV or NDJSON file or from stdin, line by line, so that a file of any length needs
/// little memory.
///
/// A line of NDJSON is an object of the API; a row of CSV names fields by its headings. Flags fill the fields that a
/// line leaves out. The text must be UTF-8: a file is read once to check that before its first line is returned, a pipe
/// line by line.
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
        /// Throws for headings that have no meaning; gets the file's name for its message.
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

    private static let limit = 4 << 20  // the most bytes of one line

    private let handle: UnsafeMutablePointer<FILE>
    private let base: JSONObject
    private let format: Format
    private let rows: Rows
    private let name: String
    private var headings: [String]?
    private var number = 0
    /// The size in bytes; nil when it is unknown.
    let size: Int?
    /// The number of bytes read so far.
    private(set) var consumed = 0

    /// Opens `path`, or stdin for `-`.
    ///
    /// - Throws: `CommandFailure` when it cannot be read, or is a file that is not in UTF-8 or has a line that is too
    ///   long.
    init(_ path: String, format: Format?, rows: Rows = .messages, base: JSONObject = JSONObject()) throws {
        self.rows = rows
        name = path == "-" ? "stdin" : path
        guard let handle = path == "-" ? fdopen(dup(STDIN_FILENO), "rb") : fopen(path, "rb") else {
            throw CommandFailure.system("read \(path)", .usage)
        }
        self.handle = handle
        let attributes = path == "-" ? nil : try? FileManager.default.attributesOfItem(atPath: path)
        let isFile = attributes?[.type] as? FileAttributeType == .typeRegular
        size = isFile ? (attributes?[.size] as? NSNumber)?.intValue : nil
        self.base = base
        self.format = format ?? (path.lowercased().hasSuffix(".csv") ? .csv : .ndjson)
        guard isFile else { return }
        do {
            while try line() != nil {}
        } catch {
            close()
            throw error
        }
        rewind(handle)
        (number, consumed) = (0, 0)
    }

    /// Closes the file.
    func close() { fclose(handle) }

    /// Returns the next message; nil at the end.
    mutating func next() throws -> Line? {
        switch format {
        case .ndjson:
            while let record = try record(quoted: false) {
                if record.text.allSatisfy(\.isWhitespace) { continue }
                return Line(number: record.line, result: request(json: record.text))
            }
            return nil
        case .csv:
            if headings == nil {
                guard let first = try record(quoted: true) else { return nil }
                if let mark = first.openMark { throw CommandFailure("\(name):\(mark): \(Self.openMark)", .usage) }
                let fields = CSV.fields(first.text).map { $0.trimmingCharacters(in: .whitespaces) }
                try checkSeparator(fields)
                headings = fields
                try rows.check(fields, name)
            }
            while let record = try record(quoted: true) {
                if record.text.allSatisfy(\.isWhitespace) { continue }
                if let mark = record.openMark {
                    let reach =
                        number > mark
                        ? ": all up to the end, line \(number), counts as this field, and nothing of it was used" : ""
                    return Line(number: mark, result: .failure(CommandFailure(Self.openMark + reach, .usage)))
                }
                return Line(number: record.line, result: request(row: CSV.fields(record.text), from: record.line))
            }
            return nil
        }
    }

    /// Throws for a table whose columns are not separated by commas, as spreadsheets of many languages write it.
    private func checkSeparator(_ headings: [String]) throws(CommandFailure) {
        guard headings.count == 1, let heading = headings.first,
            let separator = [";": "semicolons", "\t": "tabs"].first(where: { heading.contains($0.key) })?.value
        else { return }
        throw CommandFailure(
            "\(name):1: the columns are separated by \(separator): write them with commas (in a spreadsheet: save as CSV, with the "
                + "comma as the field separator), and without a line \"sep=\"",
            .usage
        )
    }

    private func request(json line: String) -> Result<JSONObject, CommandFailure> {
        guard let value = try? JSONValue(parsing: Array(line.utf8)), let object = value.objectValue else {
            let advice = line.first == "{" ? "" : ": each line needs one (NDJSON); a table is \(rows.option)"
            return .failure(CommandFailure("is not a JSON object\(advice)", .usage))
        }
        return .success(base.merging(object))
    }

    private func request(row fields: [String], from line: Int) -> Result<JSONObject, CommandFailure> {
        let headings = headings ?? []
        guard fields.count == headings.count else {
            let reach = number > line ? "; its quotation marks reach to line \(number)" : ""
            return .failure(
                CommandFailure("has \(fields.count) fields, the first line has \(headings.count)\(reach)", .usage)
            )
        }
        do throws(CommandFailure) {
            return .success(base.merging(try rows.object(headings, fields)))
        } catch {
            return .failure(error)
        }
    }

    private static let openMark =
        "has a quotation mark that nothing closes (a field with one stands in marks, with that one doubled: \"5\"\" disk\")"

    /// Reads a record; with `quoted`, line breaks within quotation marks belong to it.
    private mutating func record(quoted: Bool) throws -> Record? {
        guard let text = try line() else { return nil }
        var record = Record(text: text, line: number)
        guard quoted, Self.quotationMarks(in: text) % 2 == 1 else { return record }
        record.openMark = number
        while record.openMark != nil, let more = try line() {
            record.text += "\n" + more
            let marks = Self.quotationMarks(in: more)
            if marks > 0 { record.openMark = marks % 2 == 1 ? nil : number }
            guard record.text.utf8.count <= Self.limit else { throw tooLong(record.line) }
        }
        return record
    }

    private static func quotationMarks(in text: String) -> Int { text.utf8.count { $0 == UInt8(ascii: "\"") } }

    private mutating func line() throws -> String? {
        var buffer: UnsafeMutablePointer<CChar>?
        var capacity = 0
        defer { free(buffer) }
        let count = getline(&buffer, &capacity, handle)
        guard count >= 0, let buffer else {
            guard ferror(handle) == 0 else { throw CommandFailure.system("read \(name)") }
            return nil
        }
        number += 1
        consumed += count
        guard count <= Self.limit else { throw tooLong(number) }
        var bytes = UnsafeRawBufferPointer(start: buffer, count: count)[...]
        if bytes.last == UInt8(ascii: "\n") { bytes = bytes.dropLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes = bytes.dropLast() }
        return try UTF8Text.line(bytes, number, of: name)
    }

    private func tooLong(_ line: Int) -> CommandFailure {
        CommandFailure("\(name):\(line): the line is longer than \(Self.limit) bytes", .usage)
    }
}
