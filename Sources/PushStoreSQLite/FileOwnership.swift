import Foundation
import PushCore
import Synchronization

/// The right to use a store's file, held by one process at a time: an advisory lock on a file beside it.
///
/// The lock ends with the process, however it ends. The database file itself is not locked this way, since closing a
/// second descriptor of it would drop the locks that SQLite holds there.
final class FileOwnership: Sendable {
    private let descriptor: Mutex<Int32?>

    /// Takes the lock, or says which process has it.
    init(of path: String) throws(StoreError) {
        let lockPath = path + ".lock"
        let descriptor = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw .failed("cannot open \(lockPath): \(String(cString: strerror(errno)))")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            defer { close(descriptor) }
            guard reason == EWOULDBLOCK else {
                throw .failed("cannot lock \(lockPath): \(String(cString: strerror(reason)))")
            }
            var text = [UInt8](repeating: 0, count: 20)
            let length = pread(descriptor, &text, text.count, 0)
            let owner = String(decoding: text.prefix(max(0, length)), as: UTF8.self).filter(\.isNumber)
            throw .failed(
                "the store \(path) is in use by process \(owner.isEmpty ? "(unknown)" : owner); "
                    + "stop it first, or give this gateway a store of its own"
            )
        }
        let owner = Array("\(getpid())\n".utf8)
        _ = ftruncate(descriptor, 0)
        _ = pwrite(descriptor, owner, owner.count, 0)
        self.descriptor = Mutex(descriptor)
    }

    deinit { release() }

    /// Gives the lock up.
    func release() {
        descriptor.withLock { descriptor in
            if let open = descriptor {
                // Said aloud: a child process that is just being started shares the lock until it has become another program.
                flock(open, LOCK_UN)
                close(open)
            }
            descriptor = nil
        }
    }

    /// Makes sure that the file exists and that nobody but its owner can read it; SQLite gives its other files the
    /// same mode.
    static func makePrivate(_ path: String) throws(StoreError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw .failed("cannot open the store \(path): \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else {
            throw .failed("cannot protect the store \(path): \(String(cString: strerror(errno)))")
        }
    }
}
