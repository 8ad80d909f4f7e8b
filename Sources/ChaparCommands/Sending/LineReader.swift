import Foundation
import ChaparCore

/// Reads the lines of a file as bytes; a line ends with LF, CRLF, or CR alone.
struct LineReader {
    /// The most bytes of one line.
    static let limit = 4 << 20
    private static let chunk = 1 << 16

    private let handle: UnsafeMutablePointer<FILE>
    private let name: String
    private var buffer: [UInt8] = []
    private var place = 0
    /// Whether the last line ended with CR: an LF right after it belongs to that end.
    private var endedWithReturn = false
    /// The number of lines read so far.
    private(set) var number = 0
    /// The number of bytes read so far.
    private(set) var consumed = 0

    /// Makes a reader of an open file, which its owner closes; `name` is for errors.
    init(_ handle: UnsafeMutablePointer<FILE>, name: String) {
        self.handle = handle
        self.name = name
    }

    /// Returns the next line without its end; nil at the end of the file.
    mutating func next() throws(CommandFailure) -> [UInt8]? {
        var line: [UInt8] = []
        var hasBytes = false
        while try fill() {
            if endedWithReturn {
                endedWithReturn = false
                if buffer[place] == UInt8(ascii: "\n") {
                    (place, consumed) = (place + 1, consumed + 1)
                    continue
                }
            }
            hasBytes = true
            let isEnd: (UInt8) -> Bool = { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
            let end = buffer[place...].firstIndex(where: isEnd)
            line += buffer[place..<(end ?? buffer.count)]
            guard line.count <= Self.limit else { throw Self.tooLong(name, number + 1) }
            let next = end.map { $0 + 1 } ?? buffer.count
            consumed += next - place
            place = next
            guard let end else { continue }
            endedWithReturn = buffer[end] == UInt8(ascii: "\r")
            break
        }
        guard hasBytes else { return nil }
        number += 1
        return line
    }

    /// The error of a line, or of a record of lines, that is too long.
    static func tooLong(_ name: String, _ line: Int) -> CommandFailure {
        CommandFailure("\(name):\(line): the line is longer than \(limit) bytes", .usage)
    }

    /// Reads more when the buffer is used up; returns false at the end of the file.
    private mutating func fill() throws(CommandFailure) -> Bool {
        guard place == buffer.count else { return true }
        place = 0
        let handle = handle
        buffer = [UInt8](unsafeUninitializedCapacity: Self.chunk) { space, count in
            count = fread(space.baseAddress, 1, Self.chunk, handle)
        }
        guard buffer.isEmpty else { return true }
        guard ferror(handle) == 0 else { throw CommandFailure.system("read \(name)") }
        return false
    }
}
