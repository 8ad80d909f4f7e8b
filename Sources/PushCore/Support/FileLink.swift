internal import Foundation

/// Symbolic links to files of which only one program may have one.
package enum FileLink {
    /// The most links that lead to a file, as the kernel follows (path_resolution(7)).
    private static let longest = 40

    /// The file that a path means: what its links lead to, whether it is there or not.
    ///
    /// Links of its folders stay as they are: what is made beside the file is made in the same folder then.
    package static func target(of path: String) -> String {
        var path = path
        for _ in 0..<longest {
            guard let next = try? FileManager.default.destinationOfSymbolicLink(atPath: path) else { return path }
            let folder = FolderPath.folder(of: path)
            path = next.hasPrefix("/") || folder.isEmpty ? next : (folder as NSString).appendingPathComponent(next)
        }
        return path
    }

    /// The same for every name of one file: what its links lead to, in its folder without links.
    package static func canonical(_ path: String) -> String {
        let target = Self.target(of: path)
        return URL(filePath: FolderPath.place(of: target)).resolvingSymlinksInPath().path + "/"
            + (target as NSString).lastPathComponent
    }
}
