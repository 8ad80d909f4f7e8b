/// The decisions of the simulation's driver for a ``SimulatedDisk``: failing calls, losses of a crash, randomness and
/// time.
///
/// Every method is called on the thread that uses SQLite, with no lock of the disk held, so that an answer may look at
/// the disk, and ``pause(_:_:)`` and ``sleep(microseconds:)`` may block the thread while others run. All but
/// ``random()`` have a default, with which nothing ever fails, and a power failure loses everything that was not
/// synced.
public protocol DiskDecider: Sendable {
    /// Returns the fate of a call that changes the disk; asked before each.
    func answer(_ call: DiskCall) -> DiskAnswer

    /// Returns the part of a write or truncation that was not synced and that a power failure leaves.
    ///
    /// Asked for each, file by file in the order in which the files were made, within a file in the order of the calls;
    /// also for a sync that fails and forgets (``DiskAnswer/forget``).
    func fate(of change: UnsyncedChange) -> ChangeFate

    /// How many creations and deletions, of so many since the last sync of the folder, a power failure leaves in
    /// effect.
    ///
    /// They reach the disk in their order, as in a journalling file system: the first ones stay, the others are undone.
    func keptEntries(of count: Int) -> Int

    /// A random number, from the simulation's seed; SQLite waits for it with a lock of its own held, so it must not
    /// block.
    func random() -> UInt64

    /// The time of day, in milliseconds since 1970.
    var now: Int64 { get }

    /// Waits for a lock: it should let other threads run, and need not take any time.
    func sleep(microseconds: Int)

    /// Called before and after each call for which ``answer(_:)`` is asked; it may block.
    func pause(_ moment: DiskMoment, _ call: DiskCall)
}

extension DiskDecider {
    /// Lets every call go on.
    public func answer(_ call: DiskCall) -> DiskAnswer { .proceed }
    /// Loses what was not synced.
    public func fate(of change: UnsyncedChange) -> ChangeFate { .dropped }
    /// Undoes all.
    public func keptEntries(of count: Int) -> Int { 0 }
    /// The first moment of 2026.
    public var now: Int64 { 1_767_225_600_000 }
    /// Takes no time.
    public func sleep(microseconds: Int) {}
    /// Goes on at once.
    public func pause(_ moment: DiskMoment, _ call: DiskCall) {}
}

/// A call that is about to change the disk.
public struct DiskCall: Hashable, Sendable {
    /// The function that is called.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Writes `count` bytes at `offset`.
        case write
        /// Cuts the file, or lengthens it with zeros, to `offset` bytes.
        case truncate
        /// Makes what was written to the file durable.
        case sync
        /// Removes the file.
        case delete
    }

    /// The function that is called.
    public var kind: Kind
    /// The file's name in its folder; empty for a temporary file of SQLite's, which no crash leaves.
    public var file: String
    /// The first byte of a write, or the new length of a truncation.
    public var offset: Int
    /// How many bytes are written.
    public var count: Int
    /// Which call of the disk's this is, from 1 on; a crash does not set it back.
    public var number: Int
}

/// Before or after a call.
public enum DiskMoment: Hashable, Sendable {
    /// Nothing was done yet, and no answer was asked for.
    case before
    /// The call is over, whether it failed or not.
    case after
}

/// The fate of a call that changes the disk.
public enum DiskAnswer: Hashable, Sendable {
    /// It is done, unless the disk is full.
    case proceed
    /// It fails with an I/O error. Of a write the first `written` bytes are done, of any other call nothing; what was
    /// written since the last sync stays to be synced.
    case fail(written: Int)
    /// As ``fail(written:)``, but the error is that the disk is full.
    case full(written: Int)
    /// For a sync: it fails, and what was written since the last one counts as clean from now on.
    ///
    /// Reads go on seeing it, but no later sync makes it durable unless it is written again, as in Linux's page cache
    /// after an error of the device. What of it reached the disk is asked by ``DiskDecider/fate(of:)``. For other calls
    /// it is ``fail(written:)`` with nothing written.
    case forget
    /// It succeeds, and nothing is done: a sync by a device that lies.
    case ignore
    /// The process or the machine stops now; of a write the first `written` bytes were done, of any other call nothing.
    case crash(CrashKind, written: Int)
}

/// How everything ends.
public enum CrashKind: String, Hashable, Sendable, CaseIterable {
    /// The process is killed: all that was written stays, synced or not.
    case process
    /// The machine loses power: what was synced stays, of the rest what ``DiskDecider/fate(of:)`` leaves.
    case power
}

/// A write or truncation that no sync has made durable.
public struct UnsyncedChange: Hashable, Sendable {
    /// The file's name when it was opened last.
    public var file: String
    /// ``DiskCall/Kind/write`` or ``DiskCall/Kind/truncate``.
    public var kind: DiskCall.Kind
    /// The first byte of the write, or the length after the truncation.
    public var offset: Int
    /// How many bytes were written.
    public var count: Int

    /// How many sectors a write touches, in part or whole.
    public var sectors: Int { count == 0 ? 0 : (offset + count - 1) / Self.sectorBytes - offset / Self.sectorBytes + 1 }

    /// The bytes of a sector, the unit in which a write is torn.
    public static let sectorBytes = 512
}

/// The part of a write that a power failure leaves.
///
/// Bytes outside the write are never touched (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`). A truncation is either kept or
/// dropped: every other fate drops it.
public enum ChangeFate: Hashable, Sendable {
    /// All of it.
    case kept
    /// Nothing.
    case dropped
    /// The first sectors.
    case prefix(sectors: Int)
    /// The last sectors; what lies before them reads as it was, or as zeros where nothing was.
    case suffix(sectors: Int)
    /// One sector, counted from 0.
    case single(sector: Int)
    /// Only its length: bytes after the former end of the file read as zeros, the others as they were.
    case enlarged
    /// The range of the write holds noise that is made of this number, but for sectors that got the bytes they had.
    case garbled(UInt64)
}
