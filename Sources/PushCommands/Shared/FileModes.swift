import CoreFoundation  // Which some builds of the toolchain take for the module of `stat`.
import Foundation

/// Who else may read or write a file.
enum FileModes {
    /// The mode of what a path leads to; nil when there is nothing.
    static func mode(of path: String) -> mode_t? {
        var found = stat()
        return stat(path, &found) == 0 ? found.st_mode : nil
    }

    /// Why others could take what is in a folder away or replace it; nil when they cannot.
    static func folderWarning(of path: String) -> String? {
        let folder = (path as NSString).deletingLastPathComponent
        let position = folder.isEmpty ? "." : folder
        guard let mode = Self.mode(of: position), mode & S_IFMT == S_IFDIR, mode & 0o022 != 0, mode & 0o1000 == 0 else {
            return nil
        }
        return "others may write in the folder \(position), so they can replace what is in it: chmod go-w \(position)"
    }
}
