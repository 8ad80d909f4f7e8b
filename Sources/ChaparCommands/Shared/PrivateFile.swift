import Foundation

/// A file that only its owner may read, and that appears under its name once it is whole.
///
/// It grows under a random name in the same folder, so that a link planted there cannot redirect it. Its owner calls
/// ``publish()`` or ``discard()``.
struct PrivateFile {
    /// The path at which it appears.
    let path: String
    /// The descriptor to write through; the writer closes it.
    let descriptor: Int32
    private let part: String

    /// Creates the file, with mode 0600.
    init(_ path: String) throws(CommandFailure) {
        var descriptor: Int32 = -1
        part = Self.named(path + ".XXXXXX") { descriptor = mkstemp($0) }
        guard descriptor >= 0 else {
            throw .system("write \(path)", .usage)
        }
        (self.path, self.descriptor) = (path, descriptor)
    }

    /// Returns the name that a system call has made of a template, which ends in `XXXXXX`.
    static func named(_ template: String, by make: (UnsafeMutablePointer<CChar>) -> Void) -> String {
        var name = Array(template.utf8CString)
        return name.withUnsafeMutableBufferPointer { name in
            guard let start = name.baseAddress else { return template }
            make(start)
            return String(cString: start)
        }
    }

    /// Renames the file to its path, in place of a file that is there.
    func publish() throws(CommandFailure) {
        guard rename(part, path) == 0 else { throw .system("write \(path)") }
    }

    /// Removes the unpublished file.
    func discard() { unlink(part) }
}
