import Foundation
import ChaparCore

/// A file under a temporary name beside its destination, whose place it takes in one step once it is complete.
///
/// From the first moment on only its owner can read it, under any umask. It follows no link, neither when it is
/// created nor when it is put in place. A discarded file leaves nothing behind.
final class StagedFile {
    /// The temporary name.
    let path: String
    private let destination: String
    private var descriptor: Int32

    /// Creates an empty file beside `destination`, with a name that no file has.
    init(for destination: String) throws(StoreFileError) {
        self.destination = destination
        path = "\(destination).\(MessageID.random()).part"
        descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failure("cannot make \(path)") }
        // A umask only removes rights: without this the owner might not be able to read it.
        guard fchmod(descriptor, 0o600) == 0 else { throw .failure("cannot protect \(path)") }
    }

    /// Copies a file's bytes into it.
    func fill(from source: Int32, isCancelled: () -> Bool) throws(StoreFileError) {
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            if isCancelled() { throw .cancelled }
            let count = read(source, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .failure("cannot read the backup") }
            if count == 0 { return }
            var rest = buffer[..<count]
            while !rest.isEmpty {
                let written = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
                if written < 0, errno == EINTR { continue }
                guard written > 0 else { throw .failure("cannot write \(path)") }
                rest = rest.dropFirst(written)
            }
        }
    }

    /// Gives it the owner of another file, when an administrator works for the user that runs the gateway.
    func takeOwner(of other: String) throws(StoreFileError) {
        var (own, found) = (stat(), stat())
        guard stat(other, &found) == 0, fstat(descriptor, &own) == 0,
            own.st_uid != found.st_uid || own.st_gid != found.st_gid
        else { return }
        guard fchown(descriptor, found.st_uid, found.st_gid) == 0 else {
            throw .failure("cannot give the copy to the owner of \(other), nothing was changed")
        }
    }

    /// Waits until the disk has what was written so far.
    ///
    /// Call it now and then during a large write: a single sync at the end would delay other programs' writes, also the
    /// gateway's commits.
    func flush() throws(StoreFileError) {
        guard CLibrary.synchronizeContent(of: descriptor) else { throw .failure("cannot write \(path)") }
    }

    /// Waits for the disk and puts the file in place; without `replacing` only when nothing has that name.
    ///
    /// The databases that SQLite opened under ``path`` must be closed: closing this descriptor ends their locks.
    func takePlace(replacing: Bool) throws(StoreFileError) {
        guard fsync(descriptor) == 0 else { throw .failure("cannot write \(path)") }
        var (own, named) = (stat(), stat())
        guard fstat(descriptor, &own) == 0, lstat(path, &named) == 0, own.st_ino == named.st_ino,
            own.st_dev == named.st_dev
        else { throw .failed("\(path) was replaced by another program: nothing was put in place") }
        if replacing {
            guard rename(path, destination) == 0 else { throw .failure("cannot put \(destination) in place") }
        } else {
            guard link(path, destination) == 0 else {
                if errno == EEXIST { throw .exists(destination) }
                throw .failure("cannot put \(destination) in place")
            }
            unlink(path)
        }
        Self.synchronizeFolder(of: destination)
        close(descriptor)
        descriptor = -1
    }

    /// Removes the file and what SQLite made beside it, unless it was put in place.
    func discard() {
        guard descriptor >= 0 else { return }
        close(descriptor)
        descriptor = -1
        for suffix in ["", "-wal", "-shm", "-journal"] { unlink(path + suffix) }
    }

    deinit { discard() }

    /// Makes a change of names survive a loss of power.
    static func synchronizeFolder(of path: String) {
        let folder = open(FolderPath.place(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard folder >= 0 else { return }
        fsync(folder)
        close(folder)
    }
}

/// Why a copy of a store could not be made, verified or put in place.
package enum StoreFileError: Error, Sendable, Hashable, CustomStringConvertible {
    /// A file of that name exists, and is not overwritten.
    case exists(String)
    /// It was cancelled; nothing was put in place.
    case cancelled
    /// It failed; the sentence says how.
    case failed(String)

    /// Returns a failure with the system's own reason.
    static func failure(_ sentence: String) -> StoreFileError {
        .failed("\(sentence): \(String(cString: strerror(errno)))")
    }

    /// The error as a sentence.
    package var description: String {
        switch self {
        case .exists(let path): "\(path) is there already and was not overwritten"
        case .cancelled: "ended before it was done; nothing was put in place"
        case .failed(let sentence): sentence
        }
    }
}
