import Foundation

/// A file that only its owner may read, and that appears under its name once it is whole.
///
/// It grows under a random name in the same folder, which no link planted there can stand for. Its owner calls ``publish()`` or
/// ``discard()``.
struct PrivateFile {
    /// Where it is to appear.
    let path: String
    /// What it is written through; closed by who writes.
    let descriptor: Int32
    private let part: String

    /// Creates the file, with mode 0600.
    init(_ path: String) throws(CommandFailure) {
        var template = Array((path + ".XXXXXX").utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else {
            throw CommandFailure("cannot write \(path): \(String(cString: strerror(errno)))", .usage)
        }
        self.path = path
        self.descriptor = descriptor
        part = template.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? path }
    }

    /// Gives it its name, in the place of a file that has it.
    func publish() throws(CommandFailure) {
        guard rename(part, path) == 0 else {
            throw CommandFailure("cannot write \(path): \(String(cString: strerror(errno)))")
        }
    }

    /// Removes it.
    func discard() { unlink(part) }
}
