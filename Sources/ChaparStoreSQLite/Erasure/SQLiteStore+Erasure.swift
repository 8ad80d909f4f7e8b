import Foundation
import GRDB
public import ChaparCore
public import ChaparQueue

/// Erasure of one user: everything is searched in short reads, and changed in short commits.
extension SQLiteStore: TraceStore {
    /// The most bytes of blocks, of events or of the archive, that are read at a time.
    ///
    /// A block may hold one event or hundreds: with a limit of blocks, small ones would take tens of thousands of
    /// reads.
    private static let bytesPerRead = 1 << 19

    /// Returns the numbers of the newest delivery and the newest event.
    public func tracesEnd() async throws(StoreError) -> UserTraces.End {
        try await look { [core] _ in UserTraces.End(delivery: core.highestID, event: core.feed.last) }
    }

    /// Cancels, removes and anonymises the deliveries of a user.
    public func eraseDeliveries(
        of traces: UserTraces,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8],
        state: @escaping @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8]),
        progress: (ErasedDeliveries) async throws(StoreError) -> Void
    ) async throws(StoreError) {
        try await writeOutStagedRows()
        // Compared byte by byte, as rows are found elsewhere: another user's name may differ only in its form of
        // Unicode.
        let recipients = Set(traces.recipients.map { ExactText($0) })
        var removed: Set<Int64> = []
        let rows = rowsPerScan
        // Without an end the search would go on while work comes in.
        let end = traces.end?.delivery ?? core.highestID
        var position = Int64.min
        while true {
            try StoreError.checkCancellation()
            let start = position
            let step = try await searchRows(after: start, upTo: end, limit: rows, recipients)
            if !step.found.isEmpty {
                let part = try await erase(rows: step.found.count, after: &removed, state) {
                    (writer) throws(StoreError) in
                    try writer.erasing.erase(step.found, recipients, event)
                }
                try await progress(part)
            }
            guard let last = step.last else { break }
            position = last
        }
        let lastBlock = try await scan { db in try db.number("SELECT max(number) FROM archive") ?? .min }
        position = Int64.min
        while true {
            try StoreError.checkCancellation()
            let start = position
            let step = try await searchArchive(after: start, upTo: lastBlock, end, recipients)
            for number in step.found {
                let part = try await erase(rows: 1, after: &removed, state) { (writer) throws(StoreError) in
                    try writer.erasing.erase(archiveBlock: number, recipients, upTo: end)
                }
                try await progress(part)
            }
            guard let last = step.last else { break }
            position = last
        }
        // The keys last: an erasure that is interrupted finds the deliveries by their recipients.
        let keys = traces.searchKeys
        try await work(rows: rows, isNew: false) { (writer) throws(StoreError) in
            try writer.searchIndex.remove(keys, upTo: end)
        }
    }

    /// Commits a part, together with the state that refers to what was removed; adds that to `removed`.
    private func erase(
        rows: Int,
        after removed: inout Set<Int64>,
        _ state: @escaping @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8]),
        _ body: @escaping @Sendable (StoreWriter) throws(StoreError) -> ErasedDeliveries
    ) async throws(StoreError) -> ErasedDeliveries {
        let part = try await work(rows: rows, isNew: false) { [removed] (writer) throws(StoreError) in
            let part = try body(writer)
            if !part.notifications.isEmpty {
                let (name, value) = state(removed.union(part.notifications))
                try writer.transaction.saveState(name, value)
            }
            return part
        }
        removed.formUnion(part.notifications)
        return part
    }

    /// Redacts stored events, then those in memory.
    public func redactEvents(
        _ redact: @escaping @Sendable (Int64, [UInt8]) -> [UInt8]?
    ) async throws(StoreError) -> Int {
        var count = 0
        let end = core.feed.last
        var position = Int64.min
        while true {
            try StoreError.checkCancellation()
            let start = position
            let step = try await scan { db in
                let rows = try db.statement(
                    "SELECT first, packed FROM events WHERE first > ?1 AND first <= ?2 ORDER BY first"
                )
                rows.bind(1, start)
                rows.bind(2, end)
                var found: [Int64] = []
                var last: Int64?
                var bytes = 0
                defer { rows.reset() }
                while bytes < Self.bytesPerRead, try rows.next() {
                    let first = try rows.id(0)
                    last = first
                    let packed = try rows.bytes(1)
                    bytes += packed.count
                    let events = EventPacking.unpack(packed).enumerated()
                    if events.contains(where: { redact(first.adding(clamping: Int64($0.offset)), $0.element) != nil }) {
                        found.append(first)
                    }
                }
                return (found, last)
            }
            for first in step.0 {
                count += try await work(rows: 1, isNew: false) { (writer) throws(StoreError) in
                    try writer.erasing.redact(eventBlock: first, redact)
                }
            }
            guard let last = step.1 else { break }
            position = last
        }
        feed.redact(redact)
        return count
    }

    /// Returns the pages of the file that removed rows were in to the file system.
    public func clearRemoved() async throws(StoreError) {
        while try await work(
            rows: rowsPerScan,
            isNew: false,
            { (writer) throws(StoreError) in try writer.freePages.clear() }
        ) {
            try StoreError.checkCancellation()
        }
    }

    /// Writes the rows of all deliveries that have none now, so that the search finds them; one commit at a time.
    private func writeOutStagedRows() async throws(StoreError) {
        guard let newest = try await look({ $0.staged.last?.number }) else { return }
        while try await work(
            rows: rowsPerScan,
            isNew: false,
            { (writer) throws(StoreError) in
                try writer.erasing.writeOutFirst(upTo: newest)
            }
        ) {}
    }

    private func searchRows(
        after start: Int64,
        upTo end: Int64,
        limit: Int,
        _ recipients: Set<ExactText>
    ) async throws(StoreError) -> (found: [Int64], last: Int64?) {
        try await scan { db in
            let rows = try db.statement(
                "SELECT id, recipient FROM deliveries WHERE id > ?1 AND id <= ?3 ORDER BY id LIMIT ?2"
            )
            rows.bind(1, start)
            rows.bind(2, limit)
            rows.bind(3, end)
            var found: [Int64] = []
            var last: Int64?
            while try rows.next() {
                let number = try rows.integer(0)
                last = number
                if recipients.contains(ExactText(try rows.text(1))) { found.append(number) }
            }
            return (found, last)
        }
    }

    /// Returns the blocks of the archive, up to one, that hold a delivery of these recipients up to a number.
    private func searchArchive(
        after start: Int64,
        upTo lastBlock: Int64,
        _ end: Int64,
        _ recipients: Set<ExactText>
    ) async throws(StoreError) -> (found: [Int64], last: Int64?) {
        try await scan { db in
            let rows = try db.statement(
                "SELECT number, packed FROM archive WHERE number > ?1 AND number <= ?2 ORDER BY number"
            )
            rows.bind(1, start)
            rows.bind(2, lastBlock)
            var found: [Int64] = []
            var last: Int64?
            var bytes = 0
            defer { rows.reset() }
            while bytes < Self.bytesPerRead, try rows.next() {
                let number = try rows.integer(0)
                last = number
                let packed = try rows.bytes(1)
                bytes += packed.count
                let isConcerned = EventPacking.unpack(packed).contains { record in
                    ArchivedDelivery(record).map { $0.id <= end && recipients.contains($0.recipientText) } ?? false
                }
                if isConcerned { found.append(number) }
            }
            return (found, last)
        }
    }
}

extension EventFeed {
    /// Redacts events that are kept for live readers.
    func redact(_ redact: (Int64, [UInt8]) -> [UInt8]?) {
        // Checked outside of the lock: the writer appends meanwhile.
        var changed: [Int64: [UInt8]] = [:]
        for event in newest() { if let other = redact(event.number, event.json) { changed[event.number] = other } }
        if !changed.isEmpty { replace(changed) }
    }
}
