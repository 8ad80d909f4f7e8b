import GRDBSQLite
import Synchronization

/// A disk in memory on which SQLite keeps its files, and which fails as disks do: writes that end early, syncs that
/// fail, no room, and crashes between any two writes, after which only what the file system promised is there.
///
/// While it is registered, each file whose path is in ``folder`` lives here; every other path goes to the file system
/// that SQLite has without it. A ``DiskDecider`` is asked what each call that changes something comes to.
///
///     let disk = SimulatedDisk(folder: "/simulated/7", decider: world)
///     disk.register()
///     let pool = try DatabasePool(path: "/simulated/7/store.db")  // or SQLiteStore, in a real folder
///     disk.crash(.power)   // or by an answer of the decider, in the middle of a write
///     // close what the dead process had open: all its calls fail
///     disk.restart()
///     // open again, and look
///     disk.unregister()
///
/// ## What is modelled
/// * **Files**: for each what reads see, what is surely on the disk, and each write and truncation in between. A sync
///   that succeeds makes all of them durable. At a power failure each comes to what ``DiskDecider/fate(of:)`` says, in
///   any combination: kept, dropped, torn at sectors of 512 bytes, a longer file with zeros, noise. Bytes next to a
///   write are never touched. What is synced is safe.
/// * **A sync that fails** leaves all to be synced again (``DiskAnswer/fail(written:)``), or forgets it
///   (``DiskAnswer/forget``), as Linux does since the errors of writing back are told once. Forgotten is what was
///   written, byte by byte; a real page cache would write a whole page of 4 KiB anew once one byte of it changes.
/// * **The folder**: creations and deletions reach the disk in their order, at the latest with a sync of the folder,
///   and a sync of a file does not imply one, as POSIX has it (ext4, XFS and Btrfs promise more). SQLite syncs the
///   folder with the first sync of each journal or log that it opened, and with deletions that ask for it.
/// * **The end of a process**: all handles are dead, and their calls fail and change nothing; locks and shared memory
///   are gone; what was written stays, also what was not synced, which a later power failure may still lose. Until
///   ``restart()`` nothing can be opened: a dead process opens no more connections. Whoever restarts must have closed
///   what the dead one had, since a pool that still lives would open new ones.
/// * **Locks**: SQLite's five levels between the handles of this process, the wal-index with its locks, and a handle
///   that was opened for reading cannot lock for writing.
/// * **Room**: a budget for all files together, temporary ones included. A write beyond it is done as far as it fits,
///   then fails with `SQLITE_FULL`. Holes take room, shared memory takes none.
/// * **Randomness and time** of SQLite come from the decider of the disk that was registered last. `register()` makes
///   SQLite forget what its generator had drawn, so that salts of logs and the like are the same in each run.
///
/// ## What is not
/// * Reads do not fail, and bits do not rot. Opening fails only between a crash and the restart.
/// * Nothing reaches the disk by itself before a crash: what is not synced can be lost, however long ago it was
///   written.
/// * Folders, links, renames, permissions, memory-mapped files, locks between processes.
/// * What a program does past SQLite. `SQLiteStore` makes its file and a lock file itself, so its folder must be real;
///   a database that is opened and is there outside only is taken to be here, empty. It also looks at the length of the
///   log by `stat`, which finds none, and so does GRDB, whose pools therefore begin each time with a transaction of
///   their own.
///
/// ## Threads
/// One lock guards the state, so any thread may call. No lock of the disk is held while the decider is asked. In a
/// simulation that runs one thread at a time the order of calls, and with it all that happens here, follows from the
/// decider alone.
public final class SimulatedDisk: Sendable {
    /// The folder that is simulated, without a slash at its end.
    ///
    /// Files count as in it when their path is spelled with it: links are not followed.
    public let folder: String
    let decider: any DiskDecider
    private let state: Mutex<DiskState>

    /// Makes a disk; nothing can be opened on it before ``register()``.
    ///
    /// - Parameters:
    ///   - folder: An absolute path. The folder need not be there.
    ///   - decider: What is asked.
    ///   - budget: How many bytes all files together may have; nil for no bound.
    ///   - contents: Files that are there already, and durable, by name.
    public init(
        folder: String,
        decider: any DiskDecider,
        budget: Int? = nil,
        contents: [String: [UInt8]] = [:]
    ) {
        self.folder = folder
        self.decider = decider
        state = Mutex(DiskState(contents: contents, budget: budget))
    }

    /// The name of the file system among SQLite's.
    public static let fileSystemName = SimulatedFileSystem.name

    /// Lets SQLite find this disk: all paths in ``folder``, from now on.
    ///
    /// While any disk is registered, SQLite's default file system is one that passes all other paths on.
    public func register() { SimulatedFileSystem.add(self) }

    /// Takes the disk away from SQLite; what is open stays usable.
    public func unregister() { SimulatedFileSystem.remove(self) }

    // MARK: The end, and a new beginning

    /// Stops the process or the machine, now.
    ///
    /// Nothing happens when it has stopped already.
    public func crash(_ kind: CrashKind) {
        guard let entries = state.withLock({ $0.stop(kind) }), kind == .power else { return }
        let kept = decider.keptEntries(of: entries)
        let changes = state.withLock { $0.revertFolder(keeping: kept) }
        let fates = changes.map { decider.fate(of: $0) }
        state.withLock { $0.revertFiles(fates) }
    }

    /// Lets files be opened again after a crash.
    public func restart() { state.withLock { $0.restart() } }

    /// Whether there was a crash and no restart since.
    public var isDown: Bool { state.withLock { $0.isDown } }

    // MARK: Contents

    /// The bytes that all files may have together; nil for no bound.
    public var budget: Int? {
        get { state.withLock { $0.budget } }
        set { state.withLock { $0.budget = newValue } }
    }

    /// How many bytes the files may still grow by; nil without a budget.
    public var freeBytes: Int64? { state.withLock { $0.free }.map(Int64.init) }

    /// How many bytes the files have.
    public var usedBytes: Int64 { Int64(state.withLock { $0.used }) }

    /// The files as reads see them, by name; another disk can begin with them.
    public var contents: [String: [UInt8]] { state.withLock { $0.contents } }

    /// A hash of ``contents`` that is the same in each process; it goes over all bytes.
    public var contentsHash: UInt64 { state.withLock { $0.hash } }

    /// The counts so far.
    public var counts: DiskCounts { state.withLock { $0.counts } }

    // MARK: Calls that change something

    func write(_ handle: Int, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int32 {
        // The memory is SQLite's, which lends it for the call, and what is done with it here ends with the call.
        nonisolated(unsafe) let bytes = bytes
        return change(.write, handle, offset: offset, count: bytes.count, failure: SQLiteCode.writeError) {
            $0.write(handle, bytes, at: offset)
        } part: {
            _ = $0.write(handle, UnsafeRawBufferPointer(rebasing: bytes.prefix($1)), at: offset)
        }
    }

    func truncate(_ handle: Int, to length: Int) -> Int32 {
        change(.truncate, handle, offset: length, failure: SQLiteCode.truncateError) { $0.truncate(handle, to: length) }
    }

    func sync(_ handle: Int) -> Int32 {
        change(.sync, handle, failure: SQLiteCode.syncError) { $0.sync(handle) }
    }

    func delete(_ name: String, syncsFolder: Bool) -> Int32 {
        change(.delete, nil, file: name, failure: SQLiteCode.deleteError) {
            $0.delete(name, syncsFolder: syncsFolder)
        }
    }

    /// Asks what a call comes to, and does that.
    ///
    /// `part` does the first so many bytes of it. What the process does not live to see done is not done.
    private func change(
        _ kind: DiskCall.Kind,
        _ handle: Int?,
        file: String = "",
        offset: Int = 0,
        count: Int = 0,
        failure: Int32,
        whole: (inout DiskState) -> Int32,
        part: (inout DiskState, Int) -> Void = { _, _ in }
    ) -> Int32 {
        guard
            let (call, life) = state.withLock({ $0.announce(kind, handle, file: file, offset: offset, count: count) })
        else { return failure }
        decider.pause(.before, call)
        defer { decider.pause(.after, call) }
        guard state.withLock({ $0.life == life }) else { return failure }
        let answer = decider.answer(call)
        let fates = answer == .forget && kind == .sync ? handle.map(fatesOfUnsynced) : nil
        let code: Int32? = state.withLock { state in
            guard state.life == life else { return nil }
            state.note(answer, of: kind)
            switch answer {
            case .proceed: return whole(&state)
            case .ignore: return SQLiteCode.ok
            case .forget:
                if let handle, let fates { state.forget(handle, fates) }
                return failure
            case .fail(let written), .full(let written), .crash(_, let written):
                part(&state, written)
                if case .full = answer { return SQLiteCode.full } else { return failure }
            }
        }
        if code != nil, case .crash(let kind, _) = answer { crash(kind) }
        return code ?? failure
    }

    private func fatesOfUnsynced(_ handle: Int) -> [ChangeFate] {
        state.withLock { $0.unsynced(handle) }.map { decider.fate(of: $0) }
    }

    private func use(_ body: (inout DiskState) -> Int32) -> Int32 { state.withLock { body(&$0) } }

    // MARK: Other calls

    func open(_ name: String, flags: Int32, isOutside: Bool) -> (code: Int32, handle: Int, flags: Int32) {
        state.withLock { $0.open(name, flags: flags, isOutside: isOutside) }
    }

    func exists(_ name: String) -> Bool { state.withLock { $0.exists(name) } }
    func close(_ handle: Int) { state.withLock { $0.close(handle) } }

    func read(_ handle: Int, into target: UnsafeMutableRawBufferPointer, at offset: Int) -> Int32 {
        // As in `write(_:_:at:)`.
        nonisolated(unsafe) let target = target
        return use { $0.read(handle, into: target, at: offset) }
    }

    func length(_ handle: Int) -> Int? { state.withLock { $0.length(handle) } }
    func lock(_ handle: Int, _ level: Int32) -> Int32 { state.withLock { $0.lock(handle, level) } }
    func unlock(_ handle: Int, _ level: Int32) -> Int32 { state.withLock { $0.unlock(handle, level) } }
    func isReserved(_ handle: Int) -> Bool? { state.withLock { $0.isReserved(handle) } }

    func map(_ handle: Int, region: Int, bytes: Int, extend: Bool) -> UInt? {
        state.withLock { $0.map(handle, region: region, bytes: bytes, extend: extend) }
    }

    func lockMemory(_ handle: Int, slots: UInt32, flags: Int32) -> Int32 {
        state.withLock { $0.lockMemory(handle, slots: slots, flags: flags) }
    }

    /// A barrier for the shared memory: a lock that is taken and given up orders what comes before and after it.
    func barrier() { state.withLock { _ in } }

    func unmap(_ handle: Int) { state.withLock { $0.unmap(handle) } }
}
