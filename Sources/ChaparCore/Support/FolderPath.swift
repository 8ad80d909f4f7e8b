internal import Foundation

/// Functions that find the folder of a path from its text, and check whether a path is a folder.
///
/// ``folder(of:)`` replaces Foundation's `NSString.deletingLastPathComponent`, which ends the process (Swift 6.3) for a
/// path of one character: `c`, `.`.
package enum FolderPath {
    /// Returns the folder that a path is in, without a slash at its end: empty for a path without a folder, `/` for one
    /// in the root.
    ///
    /// It reads only the text: the folder of `..` is empty, and the folder of `a/b/` is `a`.
    package static func folder(of path: String) -> String {
        let slash = UInt8(ascii: "/")
        func trimmed(_ bytes: Substring.UTF8View) -> Substring.UTF8View {
            var bytes = bytes
            while bytes.count > 1, bytes.last == slash { bytes.removeLast() }
            return bytes
        }
        let whole = trimmed(path[...].utf8)
        guard let last = whole.lastIndex(of: slash) else { return "" }
        return String(Substring(trimmed(whole[...last])))
    }

    /// Returns the same as a path that can be opened: `.` for a path without a folder.
    package static func place(of path: String) -> String {
        let folder = folder(of: path)
        return folder.isEmpty ? "." : folder
    }

    /// Whether there is a folder at a path, through links; nil for a path at which there is nothing.
    package static func isFolder(_ path: String) -> Bool? {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) ? isFolder.boolValue : nil
    }
}
