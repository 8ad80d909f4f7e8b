internal import Foundation

/// Resolves symbolic links, for files that only one program may have open.
package enum FileLink {
    /// The most links that lead to a file, the same limit as the kernel's (path_resolution(7)).
    private static let longest = 40

    /// Returns the file at the end of a path's chain of links, even when that file does not exist.
    ///
    /// Links in the folders of the path are not resolved, so a file that is made beside the target is made in the same
    /// folder.
    package static func target(of path: String) -> String {
        var path = path
        for _ in 0..<longest {
            guard let next = try? FileManager.default.destinationOfSymbolicLink(atPath: path) else { return path }
            let folder = FolderPath.folder(of: path)
            path = next.hasPrefix("/") || folder.isEmpty ? next : (folder as NSString).appendingPathComponent(next)
        }
        return path
    }

    /// Returns one path for all names of a file: the end of its links, in its folder without links.
    package static func canonical(_ path: String) -> String {
        let target = Self.target(of: path)
        return URL(filePath: FolderPath.place(of: target)).resolvingSymlinksInPath().path + "/"
            + (target as NSString).lastPathComponent
    }
}
