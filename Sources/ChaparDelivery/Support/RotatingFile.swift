package import Foundation
package import ChaparCore

/// A file of lines with a limited size: a full file is renamed, and the oldest one is removed.
///
/// `path` is the newest, `path.1` the one before it. Only their owner can read them.
package struct RotatingFile: ~Copyable {
    private let path: String
    private let maximumBytes: Int
    /// The most files, including the newest.
    private let count: Int
    private var descriptor: Int32 = -1
    private var size = 0

    /// Sets the limits; the file is opened at the first line.
    package init(path: String, maximumBytes: Int, count: Int) {
        self.path = path
        self.maximumBytes = maximumBytes
        self.count = max(1, count)
    }

    deinit { if descriptor >= 0 { Foundation.close(descriptor) } }

    /// The reason why a line could not be written.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        init(_ what: String) { description = "\(what): \(String(cString: strerror(errno)))" }
    }

    /// Appends an object as a line that begins with a time.
    package mutating func append(at time: Date, _ members: (inout JSONWriter) -> Void) throws(Failure) {
        var writer = JSONWriter(capacity: 320)
        writer.beginObject()
        writer.name("at")
        RFC3339.write(time, to: &writer)
        members(&writer)
        writer.endObject()
        try append(writer.bytes)
    }

    /// Appends a line, whole or not at all.
    mutating func append(_ line: [UInt8]) throws(Failure) {
        if descriptor < 0 { try open() }
        if size > 0, size + line.count + 1 > maximumBytes { try rotate() }
        var rest = (line + [UInt8(ascii: "\n")])[...]
        let start = size
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if written < 0, errno == EINTR { continue }
            guard written > 0 else {
                let failure = Failure("cannot write \(path)")
                // Otherwise the written part would stand before the next line.
                if ftruncate(descriptor, off_t(clamping: start)) == 0 { size = start }
                throw failure
            }
            rest = rest.dropFirst(written)
            size += written
        }
    }

    private mutating func open() throws(Failure) {
        descriptor = Foundation.open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure("cannot open \(path)") }
        size = max(0, Int(lseek(descriptor, 0, SEEK_END)))
    }

    private mutating func rotate() throws(Failure) {
        if count > 1 {
            for number in stride(from: count - 1, through: 2, by: -1) {
                _ = rename("\(path).\(number - 1)", "\(path).\(number)")
            }
            guard rename(path, "\(path).1") == 0 else { throw Failure("cannot rename \(path)") }
        } else {
            guard unlink(path) == 0 else { throw Failure("cannot remove \(path)") }
        }
        Foundation.close(descriptor)
        descriptor = -1
        try open()
    }
}
