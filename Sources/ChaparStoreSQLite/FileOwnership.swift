import Foundation
import ChaparCore
import ChaparQueue
import Synchronization

/// The right to use a store's file, held by one process at a time: an advisory lock on a file beside it.
///
/// The lock ends with the process, however it ends. The database file itself is not locked this way, since closing a
/// second descriptor of it would drop the locks that SQLite holds there.
///
/// The file has the process that holds the lock and, while a gateway runs (``beginRun(at:committed:)``), the start of
/// the run (``LockNote``). Only an orderly end removes this time, so the next gateway finds it after any other end.
final class FileOwnership: Sendable {
    private let descriptor: Mutex<Int32?>
    /// The note that the file keeps after this ownership.
    private let lasting: Mutex<LockNote>
    /// The run before this ownership, if it did not end in order.
    let brokenRun: BrokenRun?
    /// The number of an event that was committed before, and must be in the store; nil when none is known.
    let committed: Int64?
    private let runSince = Mutex<Date?>(nil)

    /// Takes the lock, or throws an error that names the process that has it.
    init(of path: String) throws(StoreError) {
        if FolderPath.isFolder(path) == true {
            throw .failed("the store \(path) is a folder: name a file in it, such as \(path)/chapar.db")
        }
        let lockPath = path + ".lock"
        let descriptor = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let reason = errno
            let folder = FolderPath.place(of: path)
            guard reason == ENOENT, !FileManager.default.fileExists(atPath: folder) else {
                throw .failed("cannot open \(lockPath): \(String(cString: strerror(reason)))")
            }
            throw .failed(
                "the folder \(folder) of the store is not there: make it, writable for the account that runs the gateway"
            )
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            defer { close(descriptor) }
            guard reason == EWOULDBLOCK else {
                throw .failed("cannot lock \(lockPath): \(String(cString: strerror(reason)))")
            }
            let owner = LockNote(in: descriptor).process
            throw .failed(
                "the store \(path) is in use by process \(owner.map { "\($0)" } ?? "(unknown)"); "
                    + "stop it first, or give this gateway a store of its own"
            )
        }
        let former = LockNote(in: descriptor)
        brokenRun = former.unendedRun
        committed = former.committed
        // Kept until a run begins: each start that does not find the event is refused.
        let note = LockNote(process: getpid(), runSince: nil, broken: former.unendedRun, committed: former.committed)
        lasting = Mutex(note)
        note.write(to: descriptor)
        self.descriptor = Mutex(descriptor)
    }

    deinit { release() }

    /// Notes the newest committed event for the next start: if that does not find the event, it was lost with the
    /// write-ahead log.
    func note(committed event: Int64) {
        descriptor.withLock { descriptor in
            guard let descriptor, let since = runSince.withLock({ $0 }) else { return }
            lasting.withLock { $0.committed = event }
            LockNote(process: getpid(), runSince: since, broken: brokenRun, committed: event)
                .write(to: descriptor, isLasting: false)
        }
    }

    /// Forgets the event that was committed before: another database takes the place of this one.
    func forgetCommitted() { lasting.withLock { $0.committed = nil } }

    /// Notes that a gateway has the store until ``release()``, and the number of the newest event in it.
    func beginRun(at now: Date, committed: Int64? = nil) {
        descriptor.withLock { descriptor in
            guard let descriptor else { return }
            runSince.withLock { $0 = now }
            // The file keeps this until the run takes requests: a start that fails has not reported the run before.
            lasting.withLock {
                $0 = LockNote(process: getpid(), runSince: nil, broken: brokenRun, committed: committed)
            }
            LockNote(process: getpid(), runSince: now, broken: brokenRun, committed: committed).write(to: descriptor)
        }
    }

    /// Notes that the run takes requests: it has reported the run before it, which is forgotten once this one ends in
    /// order.
    func noteServing() { lasting.withLock { $0.broken = nil } }

    /// Releases the lock: a run that had begun has ended in order, unless `isInOrder` is false; then the file stays as
    /// after a death of the process.
    func release(isInOrder: Bool = true) {
        descriptor.withLock { descriptor in
            if let open = descriptor {
                if isInOrder { lasting.withLock { $0 }.write(to: open) }
                // Unlocked explicitly: a child process that is just being started shares the lock until it has become
                // another program.
                flock(open, LOCK_UN)
                close(open)
            }
            descriptor = nil
        }
    }

    /// Creates the file if it is missing, and lets only its owner read it; SQLite gives its other files the same mode.
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
