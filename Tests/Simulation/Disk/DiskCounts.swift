/// The counts of events on a ``SimulatedDisk`` since it was made.
public struct DiskCounts: Hashable, Sendable {
    /// A fault of a kind that a table of faults lists.
    public enum Fault: String, Hashable, Sendable, CaseIterable {
        /// A write failed after a part of it, or none.
        case failedWrite, shortWrite
        /// A truncation or deletion failed.
        case failedTruncation, failedDeletion
        /// A sync failed; what was written was forgotten by it; it did nothing and said that all was well.
        case failedSync, forgottenSync, ignoredCall
        /// The disk was full, by its budget or by an answer.
        case diskFull
        /// How it all ended.
        case processCrash, powerFailure
        /// The effects of a power failure, or of a sync that forgets, on unsynced writes.
        case droppedWrite, tornWrite, enlargedFile, garbledWrite, droppedTruncation
        /// A creation or deletion was undone by a power failure.
        case undoneEntry
    }

    /// How often each kind of call was made.
    public var calls: [DiskCall.Kind: Int] = [:]
    /// How often each fault happened; those that never happened are not listed.
    public var faults: [Fault: Int] = [:]
    /// How many bytes were written.
    public var bytesWritten = 0

    /// Nothing yet.
    public init() {}

    mutating func note(_ fault: Fault, times: Int = 1) {
        if times > 0 { faults[fault, default: 0] += times }
    }
}
