internal import PushCore

/// What can be chosen about an embedded store.
///
/// The defaults suit a gateway on one machine.
public struct SQLiteStoreOptions: Sendable {
    /// What a commit survives.
    @nonexhaustive
    public enum Durability: String, Sendable, CaseIterable {
        /// A loss of power: every commit waits for the disk (`PRAGMA synchronous=FULL`).
        case full
        /// A crash of the process; a loss of power may undo the last commits (`PRAGMA synchronous=NORMAL`).
        case normal
    }

    /// The database file.
    ///
    /// Its folder must exist; `-wal`, `-shm` and `.lock` files appear beside it.
    public var path: String
    /// The version of the program, which is kept in the file; an older one that cannot read it says so.
    public var version: String?
    /// What a commit survives.
    public var durability: Durability = .full
    /// Below so many free bytes on the disk no new work is taken; what was accepted goes on being worked off.
    public var minimumFreeBytes: Int64 = 256 << 20
    /// With so many bytes in use in its files no new work is taken; 0 is no bound.
    ///
    /// Room that was freed inside the file counts as free. What was accepted goes on being worked off.
    public var maximumBytes: Int64 = 0
    /// The most deliveries that may wait; above it new work is refused.
    public var maximumWaiting = 5_000_000
    /// While so many rows wait for the writer no new work is taken.
    ///
    /// Bounds memory when the disk is slow. What comes while fewer wait is taken whole, so that a large batch finds its
    /// way in beside many small ones; the bound is exceeded by one batch at most.
    package var maximumQueuedRows = 50_000
    /// The most bytes of messages that may wait for the writer; above it new work is refused.
    package var maximumQueuedBytes = 48 << 20
    /// The most changes of devices that may wait for the outbox planner; above it changes are refused.
    package var maximumUnplannedChanges = 10_000
    /// About so many rows go into one commit, which bounds how long a call waits behind others.
    package var rowsPerCommit = 1_000
    /// The longest time that a commit waits for more rows to share it, while commits are small and follow each other
    /// closely.
    ///
    /// Zero for never. A store with little to do commits at once; see `GroupCommit`.
    package var longestGathering = Duration.microseconds(1_500)
    /// The most deliveries of each backend, caller and priority that are kept in memory, ready to be claimed; the
    /// others wait on disk.
    package var windowCapacity = 4_096
    /// The most bytes that deliveries kept in memory may take together, besides a small part for each backend, caller
    /// and priority.
    package var windowBytes = 64 << 20
    /// The number of deliveries that are read from disk at once when a window runs low.
    package var pageSize = 512
    /// The longest time that the answer to new work is delayed while its flow is handed more than is claimed.
    ///
    /// Zero for no pauses. Callers who post as fast as they are answered are kept from driving deliveries out of
    /// memory.
    package var longestPause = Duration.milliseconds(200)
    /// The number of events that are kept in memory for live readers.
    package var eventsInMemory = 4_096
    /// The page cache of the writer, in bytes.
    public var cacheBytes = 16 << 20
    /// The size of a page when the file is made, in bytes: a power of two from 512 to 65,536.
    ///
    /// A file keeps the size it has. Larger pages cost less CPU for each row of a large commit, smaller ones write less
    /// for each row of a small commit.
    public var pageBytes = 8_192
    /// After so many pages of write-ahead log they are moved into the database file.
    public var checkpointPages = 4_000
    /// The number of bytes that the write-ahead log keeps after a checkpoint.
    package var logBytes = 40 << 20
    /// With so many bytes of write-ahead log, which somebody who reads for long keeps from being moved, no new work is
    /// taken.
    package var largestLogBytes: Int64 = 512 << 20
    /// The most waiting deliveries that one search for expired ones reads.
    package var expiryScan = 20_000
    /// Tells the free bytes of the file system that holds a path; nil when it cannot.
    package var freeBytes: @Sendable (_ path: String) -> Int64? = FileSystemSpace.freeBytes

    /// The most rows that one read transaction of a search reads.
    ///
    /// A longer one would keep the write-ahead log from starting over.
    var rowsPerScan = 1_000

    /// The threads it works on; the simulation has its own.
    var threads: any StoreThreads = MachineThreads()

    /// The most pages the file may have; for tests of a disk that is really full.
    var maximumPages: Int?

    /// Makes options with the defaults for a file; of a symbolic link for the file that it leads to, whose lock two
    /// stores share.
    public init(path: String) { self.path = FileLink.target(of: path) }
}
