import GRDBSQLite

/// The layout of the memory that SQLite has for an open file: its methods, the disk, and the handle there.
struct OpenFile {
    private var base: sqlite3_file
    fileprivate var disk: Unmanaged<SimulatedDisk>
    fileprivate var handle: Int

    /// Fills SQLite's memory for a file; the disk stays until the file is closed.
    static func start(_ file: UnsafeMutablePointer<sqlite3_file>, _ disk: SimulatedDisk, handle: Int) {
        UnsafeMutableRawPointer(file).initializeMemory(
            as: OpenFile.self,
            to: OpenFile(base: sqlite3_file(pMethods: methods), disk: .passRetained(disk), handle: handle)
        )
    }

    /// The methods of all open files, in memory that is never given back and, once it is there, never written.
    private nonisolated(unsafe) static let methods: UnsafePointer<sqlite3_io_methods> = {
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        methods.initialize(to: make())
        return UnsafePointer(methods)
    }()

    private static func make() -> sqlite3_io_methods {
        var methods = sqlite3_io_methods()
        methods.iVersion = 2
        methods.xClose = { file in
            use(file) { $0.close($1) }
            if let file { UnsafeRawPointer(file).assumingMemoryBound(to: OpenFile.self).pointee.disk.release() }
            return SQLiteCode.ok
        }
        methods.xRead = { file, target, count, offset in
            let target = UnsafeMutableRawBufferPointer(start: target, count: Int(count))
            return use(file) { $0.read($1, into: target, at: Int(offset)) }
        }
        methods.xWrite = { file, bytes, count, offset in
            let bytes = UnsafeRawBufferPointer(start: bytes, count: Int(count))
            return use(file) { $0.write($1, bytes, at: Int(offset)) }
        }
        methods.xTruncate = { file, length in use(file) { $0.truncate($1, to: Int(length)) } }
        methods.xSync = { file, _ in use(file) { $0.sync($1) } }
        methods.xFileSize = { file, out in
            guard let length = use(file, { $0.length($1) }) else { return SQLiteCode.ioError }
            out?.pointee = sqlite3_int64(length)
            return SQLiteCode.ok
        }
        methods.xLock = { file, level in use(file) { $0.lock($1, level) } }
        methods.xUnlock = { file, level in use(file) { $0.unlock($1, level) } }
        methods.xCheckReservedLock = { file, out in
            guard let isReserved = use(file, { $0.isReserved($1) }) else { return SQLiteCode.ioError }
            out?.pointee = isReserved ? 1 : 0
            return SQLiteCode.ok
        }
        methods.xFileControl = { _, _, _ in SQLiteCode.notFound }
        // What SQLite takes disks to have, and more than is torn: a journal's header gets as much room.
        methods.xSectorSize = { _ in 4_096 }
        methods.xDeviceCharacteristics = { _ in SQLITE_IOCAP_POWERSAFE_OVERWRITE }
        methods.xShmMap = { file, region, bytes, extend, out in
            guard
                let address = use(file, { $0.map($1, region: Int(region), bytes: Int(bytes), extend: extend != 0) })
            else { return SQLiteCode.ioError }
            out?.pointee = UnsafeMutableRawPointer(bitPattern: address)
            return SQLiteCode.ok
        }
        methods.xShmLock = { file, first, count, flags in
            let slots = ((UInt32(1) << UInt32(count)) - 1) << UInt32(first)
            return use(file) { $0.lockMemory($1, slots: slots, flags: flags) }
        }
        methods.xShmBarrier = { file in use(file) { disk, _ in disk.barrier() } }
        methods.xShmUnmap = { file, _ in
            use(file) { $0.unmap($1) }
            return SQLiteCode.ok
        }
        return methods
    }
}

/// Calls the disk of an open file, with the handle there.
private func use<Value>(
    _ file: UnsafeMutablePointer<sqlite3_file>?,
    _ body: (SimulatedDisk, Int) -> Value
) -> Value {
    guard let file else { fatalError("SQLite calls a file's method without a file") }
    let open = UnsafeRawPointer(file).assumingMemoryBound(to: OpenFile.self)
    return open.pointee.disk._withUnsafeGuaranteedRef { body($0, open.pointee.handle) }
}
