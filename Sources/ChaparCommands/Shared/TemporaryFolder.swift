import Foundation

/// A new folder that only this user can open, removed at the end.
struct TemporaryFolder {
    let url: URL

    init(prefix: String) throws {
        let parent = FileManager.default.temporaryDirectory.path
        var isMade = false
        let path = PrivateFile.named("\(parent)/\(prefix)-XXXXXX") { isMade = mkdtemp($0) != nil }
        guard isMade else { throw CommandFailure.system("make a folder in \(parent)") }
        url = URL(filePath: path)
    }

    /// Removes it with everything in it.
    func remove() { try? FileManager.default.removeItem(at: url) }  // The system removes what cannot be removed here.
}
