import GRDBSQLite
import Glibc
import Synchronization

/// The `sqlite3_vfs` of all simulated disks: it finds the disk of a path, and passes on what is in none.
enum SimulatedFileSystem {
    static let name = "chapar-simulated"

    static func add(_ disk: SimulatedDisk) {
        disks.withLock { disks in
            if disks.byFolder.isEmpty { sqlite3_vfs_register(own, 1) }
            disks.byFolder[disk.folder] = disk
            disks.last = disk
        }
        forgetRandomness()
    }

    static func remove(_ disk: SimulatedDisk) {
        disks.withLock { disks in
            guard disks.byFolder[disk.folder] === disk else { return }
            disks.byFolder[disk.folder] = nil
            if disks.last === disk { disks.last = disks.byFolder.values.first }
            if disks.byFolder.isEmpty { sqlite3_vfs_unregister(own) }
        }
        forgetRandomness()
    }

    /// Makes SQLite's generator begin anew, with randomness of the file system that is the default now.
    private static func forgetRandomness() { sqlite3_randomness(0, nil) }
}

/// The disks that are registered.
private struct Disks {
    var byFolder: [String: SimulatedDisk] = [:]
    /// Serves what has no path: randomness, time, sleeping and temporary files.
    var last: SimulatedDisk?
}

private let disks = Mutex(Disks())

private var last: SimulatedDisk? { disks.withLock { $0.last } }

/// The disk that a path is on, and the file's name there.
private func find(_ path: UnsafePointer<CChar>?) -> (disk: SimulatedDisk, name: String)? {
    guard let path else { return nil }
    let full = String(cString: path)
    guard let slash = full.lastIndex(of: "/") else { return nil }
    let disk = disks.withLock { $0.byFolder[String(full[..<slash])] }
    return disk.map { ($0, String(full[full.index(after: slash)...])) }
}

/// The file system that SQLite uses without this one.
///
/// Found before this one is registered first. SQLite's own file systems are there for as long as the process, and
/// the tests do not change this one.
private nonisolated(unsafe) let outside: UnsafeMutablePointer<sqlite3_vfs> = {
    guard let found = sqlite3_vfs_find(nil) else { fatalError("SQLite has no file system") }
    return found
}()

/// This file system, in memory that is never given back: a connection may outlast all disks.
///
/// Complete before any process sees it; after that only SQLite writes to it, its `pNext`, under a lock of its own.
private nonisolated(unsafe) let own: UnsafeMutablePointer<sqlite3_vfs> = {
    let own = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
    own.initialize(to: makeFileSystem())
    return own
}()

private func makeFileSystem() -> sqlite3_vfs {
    var own = sqlite3_vfs()
    own.iVersion = 2
    own.szOsFile = max(Int32(MemoryLayout<OpenFile>.stride), outside.pointee.szOsFile)
    own.mxPathname = outside.pointee.mxPathname
    own.zName = UnsafePointer(strdup(SimulatedFileSystem.name))
    own.xOpen = { _, path, file, flags, out in openFile(path, file, flags, out) }
    own.xDelete = { _, path, syncsFolder in
        guard let (disk, name) = find(path) else { return outside.pointee.xDelete(outside, path, syncsFolder) }
        return disk.delete(name, syncsFolder: syncsFolder != 0)
    }
    own.xAccess = { _, path, flags, out in
        guard let (disk, name) = find(path) else { return outside.pointee.xAccess(outside, path, flags, out) }
        out?.pointee = flags != SQLITE_ACCESS_EXISTS || disk.exists(name) ? 1 : 0
        return SQLiteCode.ok
    }
    own.xFullPathname = { _, path, room, out in
        guard find(path) != nil, let path, let out else {
            return outside.pointee.xFullPathname(outside, path, room, out)
        }
        guard strlen(path) < Int(room) else { return SQLiteCode.cannotOpen }
        strcpy(out, path)
        return SQLiteCode.ok
    }
    // Extensions cannot be loaded while a disk is registered.
    own.xDlOpen = { _, _ in nil }
    own.xDlError = { _, room, out in if room > 0 { out?.pointee = 0 } }
    own.xDlSym = { _, _, _ in nil }
    own.xDlClose = { _, _ in }
    own.xRandomness = { _, count, out in
        guard let disk = last, let out else { return outside.pointee.xRandomness(outside, count, out) }
        let words = (0..<(Int(count) + 7) / 8).map { _ in disk.decider.random() }
        memcpy(out, words, Int(count))
        return count
    }
    own.xSleep = { _, microseconds in
        guard let disk = last else { return outside.pointee.xSleep(outside, microseconds) }
        disk.decider.sleep(microseconds: Int(microseconds))
        return microseconds
    }
    own.xGetLastError = { _, _, _ in 0 }
    own.xCurrentTimeInt64 = { _, out in currentTime(out) }
    own.xCurrentTime = { _, out in
        var now: sqlite3_int64 = 0
        let code = currentTime(&now)
        out?.pointee = Double(now) / 86_400_000
        return code
    }
    return own
}

/// The time in milliseconds since SQLite's begins, at noon of a day in 4714 BC.
private func currentTime(_ out: UnsafeMutablePointer<sqlite3_int64>?) -> Int32 {
    guard let disk = last else { return outside.pointee.xCurrentTimeInt64(outside, out) }
    out?.pointee = disk.decider.now + 210_866_760_000_000
    return SQLiteCode.ok
}

private func openFile(
    _ path: UnsafePointer<CChar>?,
    _ file: UnsafeMutablePointer<sqlite3_file>?,
    _ flags: Int32,
    _ out: UnsafeMutablePointer<Int32>?
) -> Int32 {
    // Without a path it is a temporary file.
    let found = path == nil ? last.map { ($0, "") } : find(path)
    guard let (disk, name) = found, let file else { return outside.pointee.xOpen(outside, path, file, flags, out) }
    file.pointee.pMethods = nil
    let isOutside = flags & SQLITE_OPEN_MAIN_DB != 0 && path.map { access($0, F_OK) == 0 } ?? false
    let opened = disk.open(name, flags: flags, isOutside: isOutside)
    guard opened.code == SQLiteCode.ok else { return opened.code }
    out?.pointee = opened.flags
    OpenFile.start(file, disk, handle: opened.handle)
    return SQLiteCode.ok
}
