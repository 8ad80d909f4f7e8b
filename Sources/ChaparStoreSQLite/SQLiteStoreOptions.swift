internal import ChaparCore

/// The options of an embedded store.
///
/// The defaults suit a gateway on one machine.
public struct SQLiteStoreOptions: Sendable {
    /// The failures that a commit survives.
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
    /// The version of the program, which is kept in the file, so that an older one that cannot read the file can name
    /// it.
    public var version: String?
    /// The failures that a commit survives.
    public var durability: Durability = .full
    /// The number of free bytes on the disk below which no new work is taken; accepted work goes on.
    public var minimumFreeBytes: Int64 = 256 << 20
    /// The number of bytes in use in its files at which no new work is taken; 0 is no bound.
    ///
    /// Space that was freed inside the file counts as free. Accepted work goes on.
    public var maximumBytes: Int64 = 0
    /// The most deliveries that may wait; above it new work is refused.
    public var maximumWaiting = 5_000_000
    /// The number of rows waiting for the writer at which no new work is taken.
    ///
    /// It bounds memory when the disk is slow. A batch that comes while fewer wait is taken whole, so that a large
    /// batch gets in beside many small ones; the bound is exceeded by one batch at most.
    package var maximumQueuedRows = 50_000
    /// The most bytes of messages that may wait for the writer; above it new work is refused.
    package var maximumQueuedBytes = 48 << 20
    /// The most changes of devices that may wait for the outbox planner; above it changes are refused.
    package var maximumUnplannedChanges = 10_000
    /// About the most rows in one commit, which bounds how long a call waits behind others.
    package var rowsPerCommit = 1_000
    /// The longest time that a commit waits for more rows to share it, while commits are small and follow each other
    /// closely.
    ///
    /// Zero means never. A store with little to do commits at once; see `GroupCommit`.
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
    /// Zero means no pauses. It keeps callers that post as fast as they are answered from driving deliveries out of
    /// memory.
    package var longestPause = Duration.milliseconds(200)
    /// The number of events that are kept in memory for live readers.
    package var eventsInMemory = 4_096
    /// The size of the writer's page cache, in bytes.
    public var cacheBytes = 16 << 20
    /// The size of a page when the file is created, in bytes: a power of two from 512 to 65,536.
    ///
    /// An existing file keeps its size of pages. Larger pages cost less CPU for each row of a large commit, smaller
    /// ones write less for each row of a small commit.
    public var pageBytes = 8_192
    /// The number of pages in the write-ahead log after which they are moved into the database file.
    public var checkpointPages = 4_000
    /// The number of bytes that the write-ahead log keeps after a checkpoint.
    package var logBytes = 40 << 20
    /// The size of the write-ahead log, in bytes, at which no new work is taken: a connection that reads for long keeps
    /// its pages from being moved.
    package var largestLogBytes: Int64 = 512 << 20
    /// The most waiting deliveries that one search for expired ones reads.
    package var expiryScan = 20_000
    /// Returns the free bytes of the file system that holds a path; nil when they are unknown.
    package var freeBytes: @Sendable (_ path: String) -> Int64? = FileSystemSpace.freeBytes

    /// The most rows that one read transaction of a search reads.
    ///
    /// A longer one would keep the write-ahead log from being reused.
    var rowsPerScan = 1_000

    /// The threads that it uses; the simulation has its own.
    var threads: any StoreThreads = MachineThreads()

    /// The most pages the file may have; for tests of a disk that is really full.
    var maximumPages: Int?

    /// Makes options with the defaults for a file; a symbolic link is resolved, so that two stores share one lock.
    public init(path: String) { self.path = FileLink.target(of: path) }
}
