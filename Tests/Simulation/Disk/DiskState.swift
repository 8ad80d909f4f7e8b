import GRDBSQLite

/// All that a disk holds, as a value that one lock guards: files, the folder that names them, and the open handles.
///
/// Nothing here asks or waits; ``SimulatedDisk`` does, between the calls. What a call may touch outside is the memory
/// that SQLite hands over with it.
struct DiskState {
    /// The handle that `xOpen` gave to a connection.
    struct Handle {
        var file: DiskFile
        var isReadOnly = false
        var deletesOnClose = false
        /// The next sync syncs the folder too; `unixOpen` wants that for journals and logs.
        var syncsFolder = false
        /// It was open when the process or the machine died.
        var isDead = false
        var memory: SharedMemory?
    }

    /// A creation, or without a file a deletion, that the folder's last sync does not cover.
    struct EntryChange {
        var name: String
        var file: DiskFile?
    }

    private var names: [String: DiskFile] = [:]
    private var durableNames: [String: DiskFile] = [:]
    private var entryChanges: [EntryChange] = []
    private var handles: [Int: Handle] = [:]
    private var nextHandle = 1
    private var nextFile = 1
    private var calls = 0
    /// How many processes have ended here; all handles end with their process.
    private(set) var life = 0
    /// The files that a power failure leaves, with how many changes each has to be settled.
    private var unsettled: [(file: DiskFile, changes: Int)] = []
    /// From a crash until the restart nothing can be opened.
    private(set) var isDown = false
    private(set) var used = 0
    var budget: Int?
    var counts = DiskCounts()

    init(contents: [String: [UInt8]], budget: Int?) {
        self.budget = budget
        for (name, bytes) in contents.sorted(by: { $0.key < $1.key }) {
            let file = makeFile(name)
            file.current.write(bytes)
            file.durable.write(bytes)
            used += bytes.count
            names[name] = file
        }
        durableNames = names
    }

    var free: Int? { budget.map { max(0, $0 - used) } }

    var contents: [String: [UInt8]] { names.mapValues(\.current.array) }

    /// A hash of the names and what reads see, the same in each process.
    var hash: UInt64 {
        var hash = FNV1a()
        for (name, file) in names.sorted(by: { $0.key < $1.key }) {
            hash.add(name)
            file.current.add(to: &hash)
        }
        return hash.value
    }

    // MARK: The folder

    /// Opens a file, and makes it when it is not there and may be made or `isOutside` says that the program made it.
    mutating func open(_ name: String, flags: Int32, isOutside: Bool) -> (code: Int32, handle: Int, flags: Int32) {
        guard !isDown else { return (SQLiteCode.cannotOpen, 0, 0) }
        let creates = flags & SQLITE_OPEN_CREATE != 0
        let isOpen = names[name]
        if isOpen != nil, creates, flags & SQLITE_OPEN_EXCLUSIVE != 0 { return (SQLiteCode.cannotOpen, 0, 0) }
        guard creates || isOutside || isOpen != nil else { return (SQLiteCode.cannotOpen, 0, 0) }
        let file = isOpen ?? makeFile(name)
        if name.isEmpty {
            file.isLinked = false
        } else if isOpen == nil {
            names[name] = file
            entryChanges.append(EntryChange(name: name, file: file))
        }
        file.handles += 1
        var handle = Handle(file: file)
        handle.isReadOnly = flags & SQLITE_OPEN_READONLY != 0
        handle.deletesOnClose = flags & SQLITE_OPEN_DELETEONCLOSE != 0
        let journals = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL
        handle.syncsFolder = creates && flags & journals != 0
        defer { nextHandle += 1 }
        handles[nextHandle] = handle
        return (SQLiteCode.ok, nextHandle, flags)
    }

    /// Whether there is a file with something in it: what `unixAccess` says.
    func exists(_ name: String) -> Bool { !isDown && names[name].map { $0.current.count > 0 } ?? false }

    mutating func delete(_ name: String, syncsFolder: Bool) -> Int32 {
        guard !isDown else { return SQLiteCode.deleteError }
        guard let file = names.removeValue(forKey: name) else { return SQLiteCode.deleteMissing }
        file.isLinked = false
        entryChanges.append(EntryChange(name: name, file: nil))
        freeUnused(file)
        if syncsFolder { syncFolder() }
        return SQLiteCode.ok
    }

    private mutating func makeFile(_ name: String) -> DiskFile {
        defer { nextFile += 1 }
        return DiskFile(number: nextFile, name: name)
    }

    private mutating func syncFolder() {
        durableNames = names
        entryChanges.removeAll()
    }

    /// Gives back the room of a file that has neither a name nor a handle.
    private mutating func freeUnused(_ file: DiskFile) {
        if !file.isLinked, file.handles == 0 { used -= file.current.count }
    }

    // MARK: Calls that change something

    /// Numbers a call, and tells the life of the process in which it is made; nil when that is over.
    mutating func announce(
        _ kind: DiskCall.Kind,
        _ handle: Int?,
        file: String,
        offset: Int,
        count: Int
    ) -> (DiskCall, Int)? {
        var file = file
        if let handle {
            guard let open = live(handle) else { return nil }
            file = open.file.name
        } else if isDown {
            return nil
        }
        calls += 1
        counts.calls[kind, default: 0] += 1
        return (DiskCall(kind: kind, file: file, offset: offset, count: count, number: calls), life)
    }

    /// Counts a fault.
    mutating func note(_ answer: DiskAnswer, of kind: DiskCall.Kind) {
        switch answer {
        case .proceed, .crash: break
        case .ignore: counts.note(.ignoredCall)
        case .forget: counts.note(kind == .sync ? .forgottenSync : kind.failure)
        case .full: counts.note(.diskFull)
        case .fail(let written): counts.note(kind == .write && written > 0 ? .shortWrite : kind.failure)
        }
    }

    /// Writes what fits.
    mutating func write(_ handle: Int, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int32 {
        guard let file = live(handle)?.file else { return SQLiteCode.writeError }
        let length = file.current.count
        let fitting = free.map { max(0, length + $0 - offset) } ?? bytes.count
        let done = min(bytes.count, fitting)
        file.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(done)), at: offset)
        used += file.current.count - length
        counts.bytesWritten += done
        guard done < bytes.count else { return SQLiteCode.ok }
        counts.note(.diskFull)
        return SQLiteCode.full
    }

    mutating func truncate(_ handle: Int, to length: Int) -> Int32 {
        guard let file = live(handle)?.file else { return SQLiteCode.truncateError }
        let growth = length - file.current.count
        if let free, growth > free {
            counts.note(.diskFull)
            return SQLiteCode.full
        }
        file.truncate(to: length)
        used += growth
        return SQLiteCode.ok
    }

    mutating func sync(_ handle: Int) -> Int32 {
        guard let open = live(handle) else { return SQLiteCode.syncError }
        open.file.sync()
        if open.syncsFolder {
            syncFolder()
            handles[handle]?.syncsFolder = false
        }
        return SQLiteCode.ok
    }

    /// Returns the changes that a sync of this file would make durable.
    func unsynced(_ handle: Int) -> [UnsyncedChange] { live(handle).map { Self.changes(of: $0.file) } ?? [] }

    /// Lets the first unsynced changes come to what was decided.
    mutating func forget(_ handle: Int, _ fates: [ChangeFate]) {
        guard let file = live(handle)?.file else { return }
        count(fates, of: file)
        file.settle(fates)
    }

    // MARK: Other calls

    func read(_ handle: Int, into target: UnsafeMutableRawBufferPointer, at offset: Int) -> Int32 {
        guard let file = live(handle)?.file else { return SQLiteCode.readError }
        return file.current.read(into: target, at: offset) < target.count ? SQLiteCode.shortRead : SQLiteCode.ok
    }

    func length(_ handle: Int) -> Int? { live(handle)?.file.current.count }

    mutating func lock(_ handle: Int, _ level: Int32) -> Int32 {
        guard let open = live(handle), let level = FileLocks.Level(rawValue: level) else { return SQLiteCode.lockError }
        // As `fcntl` refuses to lock for writing what is open for reading.
        if open.isReadOnly, level > .shared { return SQLiteCode.lockError }
        return open.file.locks.raise(handle, to: level) ? SQLiteCode.ok : SQLiteCode.busy
    }

    mutating func unlock(_ handle: Int, _ level: Int32) -> Int32 {
        guard let open = live(handle), let level = FileLocks.Level(rawValue: level) else { return SQLiteCode.lockError }
        open.file.locks.lower(handle, to: level)
        return SQLiteCode.ok
    }

    func isReserved(_ handle: Int) -> Bool? { live(handle)?.file.locks.isReserved }

    mutating func close(_ handle: Int) {
        guard let open = handles[handle] else { return }
        unmap(handle)
        handles[handle] = nil
        guard !open.isDead else { return }
        open.file.locks.release(handle)
        open.file.handles -= 1
        if open.deletesOnClose, !open.file.name.isEmpty, names[open.file.name] === open.file {
            names[open.file.name] = nil
            open.file.isLinked = false
            entryChanges.append(EntryChange(name: open.file.name, file: nil))
        }
        freeUnused(open.file)
    }

    // MARK: Shared memory

    /// A region's address, 0 when there is none and none is to be made; nil for a dead handle.
    mutating func map(_ handle: Int, region: Int, bytes: Int, extend: Bool) -> UInt? {
        guard let open = live(handle) else { return nil }
        let memory = open.memory ?? open.file.memory ?? SharedMemory()
        if open.memory == nil {
            memory.attach(handle)
            open.file.memory = memory
            handles[handle]?.memory = memory
        }
        return memory.region(region, bytes: bytes, extend: extend).map { UInt(bitPattern: $0) } ?? 0
    }

    mutating func lockMemory(_ handle: Int, slots mask: UInt32, flags: Int32) -> Int32 {
        guard let memory = live(handle)?.memory else { return SQLiteCode.lockError }
        if flags & SQLITE_SHM_UNLOCK != 0 {
            memory.unlock(handle, slots: mask)
            return SQLiteCode.ok
        }
        let isExclusive = flags & SQLITE_SHM_EXCLUSIVE != 0
        return memory.lock(handle, slots: mask, exclusively: isExclusive) ? SQLiteCode.ok : SQLiteCode.busy
    }

    mutating func unmap(_ handle: Int) {
        guard let open = handles[handle], let memory = open.memory else { return }
        memory.detach(handle)
        handles[handle]?.memory = nil
        if memory.isUnused, open.file.memory === memory { open.file.memory = nil }
    }

    // MARK: The end

    /// Ends everything that is open, and returns how many entries of the folder are not durable; nil when it is down
    /// already.
    mutating func stop(_ kind: CrashKind) -> Int? {
        guard !isDown else { return nil }
        isDown = true
        life += 1
        counts.note(kind == .process ? .processCrash : .powerFailure)
        for (number, handle) in handles where !handle.isDead {
            handles[number]?.isDead = true
            let file = handle.file
            file.handles = 0
            file.locks = FileLocks()
            file.memory = nil
        }
        used = names.values.reduce(0) { $0 + $1.current.count }
        return entryChanges.count
    }

    /// After a power failure: leaves the first changes of the folder in effect, and returns what was not synced in the
    /// files that are there then.
    mutating func revertFolder(keeping kept: Int) -> [UnsyncedChange] {
        let kept = min(max(0, kept), entryChanges.count)
        for change in entryChanges[..<kept] { durableNames[change.name] = change.file }
        counts.note(.undoneEntry, times: entryChanges.count - kept)
        entryChanges.removeAll()
        for file in names.values { file.isLinked = false }
        names = durableNames
        let files = names.values.sorted { $0.number < $1.number }
        unsettled = files.map { ($0, $0.changes.count) }
        return files.flatMap(Self.changes)
    }

    /// After a power failure: lets what was not synced come to what was decided.
    mutating func revertFiles(_ fates: [ChangeFate]) {
        var rest = fates[...]
        used = 0
        for (file, changes) in unsettled {
            let mine = Array(rest.prefix(changes))
            rest = rest.dropFirst(changes)
            count(mine, of: file)
            file.settle(mine)
            file.revert()
            file.isLinked = true
            used += file.current.count
        }
        unsettled = []
    }

    mutating func restart() { isDown = false }

    private static func changes(of file: DiskFile) -> [UnsyncedChange] {
        file.changes.map { UnsyncedChange(file: file.name, kind: $0.kind, offset: $0.offset, count: $0.count) }
    }

    private mutating func count(_ fates: [ChangeFate], of file: DiskFile) {
        for (change, fate) in zip(file.changes, fates) {
            switch fate {
            case .kept: break
            case _ where change.kind == .truncate: counts.note(.droppedTruncation)
            case .dropped: counts.note(.droppedWrite)
            case .prefix, .suffix, .single: counts.note(.tornWrite)
            case .enlarged: counts.note(.enlargedFile)
            case .garbled: counts.note(.garbledWrite)
            }
        }
    }

    private func live(_ handle: Int) -> Handle? {
        guard let open = handles[handle], !open.isDead else { return nil }
        return open
    }
}

extension DiskCall.Kind {
    /// The fault when such a call fails.
    fileprivate var failure: DiskCounts.Fault {
        switch self {
        case .write: .failedWrite
        case .truncate: .failedTruncation
        case .sync: .failedSync
        case .delete: .failedDeletion
        }
    }
}

extension FileBytes {
    /// Writes bytes from the start on.
    func write(_ bytes: [UInt8]) { bytes.withUnsafeBytes { write($0, at: 0) } }
}
