import Foundation
import Synchronization
package import ChaparCore

/// The program's output: results to stdout, everything else to stderr.
///
/// Every line may hold text from outside (platforms, gateways, files). Control characters are escaped, so that no
/// terminal obeys them. Line breaks, tabs and, on a coloured stdout, the colours of ``paint(_:_:)`` stay. Callers put
/// text from outside through `onOneLine` before it enters a sentence, so that it begins no line and sets no colour.
package enum Shell {
    /// Writes a line to stdout.
    package static func print(_ line: String) { write(harmless(line, colours: hasColour) + "\n", to: STDOUT_FILENO) }

    /// Writes text of the program itself to stdout, with its direction marks.
    package static func show(_ text: String) { write(text + "\n", to: STDOUT_FILENO) }

    /// Writes text of the program itself to stdout as it is, without a line break: what moves a terminal's cursor.
    static func show(raw text: String) { write(text, to: STDOUT_FILENO) }

    /// The page that takes what is written, instead of stdout and stderr; nil to write at once.
    @TaskLocal static var page: ShellPage?

    /// Writes one JSON value as a line to stdout.
    package static func print(_ value: JSONValue) { print(value.text) }

    /// Writes a line to stderr, without colours.
    package static func complain(_ line: String) { write(harmless(line, colours: false) + "\n", to: STDERR_FILENO) }

    /// Returns the text with control characters escaped, except line breaks, tabs and, with `colours`, those of
    /// ``Colour``.
    static func harmless(_ text: String, colours isColoured: Bool) -> String {
        guard text.utf8.contains(where: { $0 < 0x20 && $0 != 0x0A && $0 != 0x09 }) else {
            return text.withoutInvisibleControls
        }
        let colours = isColoured ? (Colour.allCases.map(\.rawValue) + ["0"]).map { "[\($0)m" } : []
        var rest = text.unicodeScalars[...]
        var shown = ""
        while let scalar = rest.popFirst() {
            switch scalar {
            case "\n", "\t": shown.unicodeScalars.append(scalar)
            case "\u{1B}":
                let colour = colours.first { rest.starts(with: $0.unicodeScalars) }
                shown += colour.map { "\u{1B}" + $0 } ?? String(scalar).onOneLine
                rest = rest.dropFirst(colour?.unicodeScalars.count ?? 0)
            default: shown += scalar.value < 0x20 ? String(scalar).onOneLine : String(scalar)
            }
        }
        return shown.withoutInvisibleControls
    }

    /// Writes text as it is to stderr, such as a progress bar that is redrawn.
    static func draw(_ text: String) { write(text, to: STDERR_FILENO) }

    /// Whether stderr is a terminal.
    static var isErrorTerminal: Bool { isatty(STDERR_FILENO) == 1 }

    /// Whether stdout is a terminal that can move its cursor.
    static var isOutputTerminal: Bool {
        isatty(STDOUT_FILENO) == 1 && ProcessInfo.processInfo.environment["TERM"] != "dumb"
    }

    /// Whether stdin is a terminal.
    static var isInputTerminal: Bool { isatty(STDIN_FILENO) == 1 }

    /// Whether stdout may be coloured: a terminal, and no `NO_COLOR` (see no-color.org).
    package static var hasColour: Bool {
        let environment = ProcessInfo.processInfo.environment
        return isatty(STDOUT_FILENO) == 1 && (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
    }

    /// The number of columns when stdout is a terminal; nil otherwise.
    package static var columns: Int? {
        let size = size
        return size.ws_col > 0 ? Int(clamping: size.ws_col) : nil
    }

    /// The number of lines when stdout is a terminal; nil otherwise.
    static var rows: Int? {
        let size = size
        return size.ws_row > 0 ? Int(clamping: size.ws_row) : nil
    }

    /// The size of the terminal that is stdout; zeros without one.
    private static var size: winsize {
        var size = winsize()
        return ioctl(STDOUT_FILENO, numericCast(TIOCGWINSZ), &size) == 0 ? size : winsize()
    }

    /// A colour of a terminal.
    enum Colour: String, CaseIterable {
        case red = "31"
        case green = "32"
        case yellow = "33"
        case bold = "1"
        case dim = "2"
    }

    /// Returns the text in a colour, where colours are allowed.
    static func paint(_ text: String, _ colour: Colour) -> String {
        hasColour ? "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m" : text
    }

    /// Returns the exit code of a command that ended with `status`: a failure, with a sentence on stderr, when results
    /// could not be written.
    static func ending(_ status: ExitStatus) -> ExitStatus {
        let error = outputError.withLock { $0 }
        guard error != 0 else { return status }
        complain("cannot write the results: \(String(cString: strerror(error)))")
        return status == .success ? .failure : status
    }

    /// The errno of the first failed write to stdout; 0 while none has failed.
    private static let outputError = Mutex<Int32>(0)

    /// Writes all of the text.
    ///
    /// A reader that closed the pipe is no error, since it has all that it wants. Another failure of stdout is kept for
    /// ``ending(_:)``.
    private static func write(_ text: String, to descriptor: Int32) {
        if let page { return page.append(text) }
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count > 0 else {
                let error = errno
                if count < 0, error != EPIPE, descriptor == STDOUT_FILENO {
                    outputError.withLock { if $0 == 0 { $0 = error } }
                }
                return
            }
            rest = rest.dropFirst(count)
        }
    }
}

extension JSONValue {
    /// A string from outside as a part of a sentence; nil for other values.
    var words: String? { stringValue?.onOneLine }
}

/// A table of text with a line of headings.
struct TextTable {
    private var rows: [[String]]

    init(_ headings: String...) { rows = [headings] }

    mutating func add(_ cells: String...) { rows.append(cells.map(\.onOneLine)) }

    /// The lines; columns are as wide as their widest cell.
    var lines: [String] {
        let count = rows.map(\.count).max() ?? 0
        let widths = (0..<count).map { column in
            rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
        }
        return rows.map { row in
            row.enumerated()
                .map { column, cell in
                    column == row.count - 1
                        ? cell : cell + String(repeating: " ", count: widths[column] - cell.count + 2)
                }
                .joined()
        }
    }

    /// Writes the table to stdout, the headings in bold.
    func print() {
        for (position, line) in lines.enumerated() { Shell.print(position == 0 ? Shell.paint(line, .bold) : line) }
    }
}
