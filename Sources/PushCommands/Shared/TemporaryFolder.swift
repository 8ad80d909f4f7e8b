import Foundation

/// A new folder that only this user can look into, to be removed at the end.
struct TemporaryFolder {
    let url: URL

    init(prefix: String) throws {
        let parent = FileManager.default.temporaryDirectory.path
        var template = Array("\(parent)/\(prefix)-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw CommandFailure("cannot make a folder in \(parent): \(String(cString: strerror(errno)))")
        }
        url = URL(filePath: String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self))
    }

    /// Removes it with everything in it.
    func remove() { try? FileManager.default.removeItem(at: url) }  // What cannot be removed is left to the system.
}
