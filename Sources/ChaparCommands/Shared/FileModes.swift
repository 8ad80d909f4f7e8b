import CoreFoundation  // Some builds of the toolchain take this for the module of `stat`.
import Foundation
import ChaparCore

/// Checks and copies of who may read or write a file.
enum FileModes {
    /// Returns the mode of the file that a path leads to; nil when there is none.
    static func mode(of path: String) -> mode_t? {
        var found = stat()
        return stat(path, &found) == 0 ? found.st_mode : nil
    }

    /// Gives a file the owner and the group of another, and that one's mode, restricted by `mask`.
    static func copyAccess(from model: String, to path: String, mask: mode_t = 0o777) throws(CommandFailure) {
        var (wanted, found) = (stat(), stat())
        guard stat(model, &wanted) == 0, stat(path, &found) == 0,
            (wanted.st_uid, wanted.st_gid) == (found.st_uid, found.st_gid)
                || chown(path, wanted.st_uid, wanted.st_gid) == 0,
            chmod(path, wanted.st_mode & mask) == 0
        else {
            throw .system("give \(path) owner and mode of \(model)")
        }
    }

    /// Returns who else may use a file that holds a secret, as bits of its mode.
    ///
    /// The group counts as others, unless the configuration is for that group as well. Files that systemd gives a
    /// service under `/run/credentials` have the group's bits for an access list, which names the service's user.
    static func openness(
        of path: String,
        beside configuration: String,
        credentials: String = "/run/credentials/"
    ) -> mode_t {
        var (own, model) = (stat(), stat())
        guard stat(path, &own) == 0 else { return 0 }
        if path.hasPrefix(credentials) { return own.st_mode & 0o037 }
        let isShared = stat(configuration, &model) == 0 && own.st_gid == model.st_gid && model.st_mode & 0o040 != 0
        return own.st_mode & (isShared ? 0o037 : 0o077)
    }

    /// Returns whether this process may make and replace files in a folder; if not, `errno` says why.
    static func takesFiles(_ folder: String) -> Bool { access(folder, W_OK | X_OK) == 0 }

    /// Returns how other users could remove or replace the files of a folder; nil when they cannot.
    static func folderWarning(of path: String) -> String? {
        let position = FolderPath.place(of: path)
        guard let mode = Self.mode(of: position), mode & S_IFMT == S_IFDIR, mode & 0o022 != 0, mode & 0o1000 == 0 else {
            return nil
        }
        return "others may write in the folder \(position), so they can replace what is in it: chmod go-w \(position)"
    }
}
