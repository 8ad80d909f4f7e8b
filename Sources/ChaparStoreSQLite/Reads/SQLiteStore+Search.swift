import Foundation
import GRDB
public import ChaparCore
public import ChaparQueue

/// The search: by the indexes of keys and bad ends, or delivery by delivery, the newest first.
///
/// Rows, the archive and the deliveries that are only in memory are searched together. Memory is asked before the file:
/// a delivery that gets its row or is archived meanwhile is found in both, and the file counts.
extension SQLiteStore: SearchStore {
    /// The number of candidates of an index that are read at a time.
    private static let candidates = 256

    /// Returns the deliveries of a part of the store that are wanted, the highest numbers first.
    public func search(
        _ look: SearchLook,
        where isWanted: @escaping @Sendable (FoundDelivery) -> Bool
    ) async throws(StoreError) -> SearchPage {
        if case .all = look.source { return try await searchAll(look, isWanted) }
        var page = SearchPage()
        var before = look.before
        var rows = 0
        while true {
            let below = before
            let found = try await read { db in try SearchCandidates.next(look, below: below, Self.candidates, db) }
            guard let last = found.last else { return page }
            let inMemory = try await memory(of: look, found)
            let part = try await read { [rest = look.limit - page.found.count] db in
                var reader = try SearchReader(db, look, inMemory, isWanted)
                return try reader.read(found, below: below, atMost: rest)
            }
            page.found += part.found
            rows += part.rows
            before = part.next ?? last
            guard page.found.count < look.limit, rows < look.rows else {
                page.next = before > look.from ? before : nil
                return page
            }
        }
    }

    private func searchAll(
        _ look: SearchLook,
        _ isWanted: @escaping @Sendable (FoundDelivery) -> Bool
    ) async throws(StoreError) -> SearchPage {
        let inMemory = try await memory(of: look)
        return try await scan { db in
            var reader = try SearchReader(db, look, inMemory, isWanted)
            return try reader.readAll()
        }
    }

    /// Returns what only memory has: the deliveries without a row, and which are claimed.
    ///
    /// `numbers` are those of the deliveries that are meant, or of their notifications; nil means all of the look.
    private func memory(of look: SearchLook, _ numbers: [Int64]? = nil) async throws(StoreError) -> SearchMemory {
        if case .dead = look.source { return SearchMemory() }
        let now = time.steady.millisecondsSince1970
        return try await self.look { queueIndex in
            var memory = SearchMemory()
            memory.now = now
            guard let numbers else {
                let span = look.from..<max(look.before, look.from)
                for id in queueIndex.claims.keys where span.contains(id) { memory.claimed.insert(id) }
                for case let entry? in queueIndex.staged.lazy.flatMap(\.entries) where span.contains(entry.id) {
                    memory.add(entry)
                }
                return memory
            }
            for number in numbers {
                for staged in queueIndex.staged {
                    if let entry = staged.entry(number) { memory.add(entry) }
                }
                if queueIndex.claims[number] != nil { memory.claimed.insert(number) }
            }
            guard look.isOfNotifications else { return memory }
            let heads = Set(numbers)
            for entry in queueIndex.claims.values where heads.contains(entry.head.id.rawValue) {
                memory.claimed.insert(entry.id)
            }
            return memory
        }
    }

    /// Returns the number of the delivery from which on the indexes are complete.
    public func indexedFrom() async throws(StoreError) -> Int64 {
        SearchStart.number(try await loadState(SearchStart.name))
    }

    /// Marks ended deliveries as handled, or no longer, in one commit.
    public func mark(_ marks: [DeadMark]) async throws(StoreError) {
        guard !marks.isEmpty else { return }
        try await work(rows: marks.count, isNew: false) { (writer) throws(StoreError) in
            try writer.searchIndex.mark(marks)
        }
    }
}

/// The part of a search that only memory has.
struct SearchMemory: Sendable {
    var now: Int64 = 0
    /// The deliveries that have no row.
    var deliveries: [Int64: FoundDelivery] = [:]
    /// The numbers of claimed deliveries.
    var claimed: Set<Int64> = []

    mutating func add(_ entry: Entry) {
        deliveries[entry.id] = FoundDelivery(
            entry.stored,
            of: entry.head.id,
            record: entry.head.record,
            caller: entry.flow.caller
        )
    }
}

extension SearchLook {
    /// Whether the numbers that the index has are those of notifications.
    fileprivate var isOfNotifications: Bool {
        if case .keys(let keys) = source { keys.contains(where: \.isOfNotification) } else { false }
    }
}

/// The numbers that an index has for a search.
enum SearchCandidates {
    /// Returns the next numbers below one, the highest first; for references those of notifications.
    static func next(_ look: SearchLook, below: Int64, _ limit: Int, _ db: Database) throws(StoreError) -> [Int64] {
        switch look.source {
        case .all: []
        case .keys(let keys): try ofKeys(keys, look, below, limit, db)
        case .dead: try ofEnds(look, below, limit, db)
        }
    }

    private static func ofKeys(
        _ keys: [SearchKey],
        _ look: SearchLook,
        _ below: Int64,
        _ limit: Int,
        _ db: Database
    ) throws(StoreError) -> [Int64] {
        guard below > look.from else { return [] }
        let nextBucket = try db.statement("SELECT max(bucket) FROM search_keys WHERE bucket <= ?1")
        let places = try db.statement(
            """
            SELECT place FROM search_keys WHERE bucket = ?1 AND hash = ?2 AND place < ?3 ORDER BY place DESC LIMIT ?4
            """
        )
        var found: Set<Int64> = []
        var bucket = SearchBucket.of(below.subtracting(clamping: 1))
        while found.count < limit {
            nextBucket.bind(1, bucket)
            guard try nextBucket.next(), let newest = try nextBucket.optional(0) else { break }
            nextBucket.reset()
            guard newest >= SearchBucket.of(look.from) else { break }
            for key in keys {
                places.bind(1, newest)
                places.bind(2, key.hash)
                places.bind(3, below >= SearchBucket.end(of: newest) ? .max : SearchBucket.place(of: below))
                places.bind(4, limit)
                while try places.next() {
                    let id = SearchBucket.delivery(newest, try places.id(0))
                    if id >= look.from { found.insert(id) }
                }
            }
            bucket = newest.subtracting(clamping: 1)
        }
        return Array(found.sorted(by: >).prefix(limit))
    }

    private static func ofEnds(
        _ look: SearchLook,
        _ below: Int64,
        _ limit: Int,
        _ db: Database
    ) throws(StoreError) -> [Int64] {
        let ends = try db.statement(
            """
            SELECT id FROM (
                SELECT * FROM (
                    SELECT id FROM deliveries INDEXED BY dead_ends
                    WHERE \(Schema.isDead) AND id < ?1 AND id >= ?2 ORDER BY id DESC LIMIT ?3
                ) UNION SELECT * FROM (
                    SELECT id FROM search_ends WHERE id < ?1 AND id >= ?2 ORDER BY id DESC LIMIT ?3
                )
            ) ORDER BY id DESC LIMIT ?3
            """
        )
        ends.bind(1, below)
        ends.bind(2, look.from)
        ends.bind(3, limit)
        var found: [Int64] = []
        while try ends.next() { found.append(try ends.id(0)) }
        return found
    }
}

/// Reads the deliveries of a search from rows and archive, within one transaction.
struct SearchReader {
    private let look: SearchLook
    private let memory: SearchMemory
    private let isWanted: @Sendable (FoundDelivery) -> Bool
    private let db: Database
    private let rows: SQLStatement
    private let heads: SQLStatement
    private let marks: SQLStatement
    private let blocks: SQLStatement
    private let flows: SQLStatement
    /// The notification whose delivery was read last.
    private var head: (id: Int64, record: NotificationRecord, caller: String, collapseID: String?)?
    /// The names of backends, by the numbers of flows.
    private var backends: [Int64: String] = [:]
    /// The blocks of the archive that were unpacked last, the newest first.
    private var unpacked: [UnpackedBlock] = []
    /// The most blocks that are kept: those that overlap lie side by side.
    private static let keptBlocks = 4
    /// The number of deliveries read.
    private var count = 0
    private var found: [FoundDelivery] = []

    init(
        _ db: Database,
        _ look: SearchLook,
        _ memory: SearchMemory,
        _ isWanted: @escaping @Sendable (FoundDelivery) -> Bool
    ) throws(StoreError) {
        (self.db, self.look, self.memory, self.isWanted) = (db, look, memory, isWanted)
        rows = try db.statement(
            """
            SELECT d.id, d.state, d.attempts, d.due, d.expires, d.recipient, d.attempt_log, f.backend, d.head,
                d.changed
            FROM deliveries d LEFT JOIN flows f ON f.number = d.flow
            WHERE d.id < ?1 AND d.id >= ?2 ORDER BY d.id DESC
            """
        )
        heads = try db.statement("SELECT record, caller, collapse_id, count FROM deliveries WHERE id = ?1")
        marks = try db.statement("SELECT acknowledged, resent FROM handled WHERE id = ?1")
        blocks = try db.statement(Archive.search)
        flows = try db.statement("SELECT backend FROM flows WHERE number = ?1")
    }

    // MARK: By an index

    /// Reads deliveries by their numbers, or all of notifications, until a number of them is found.
    ///
    /// - Returns: The deliveries, how many were read, and the number below which to continue; nil when all were read.
    mutating func read(
        _ numbers: [Int64],
        below: Int64,
        atMost limit: Int
    ) throws(StoreError) -> (found: [FoundDelivery], rows: Int, next: Int64?) {
        let isOfNotifications = look.isOfNotifications
        for number in numbers {
            let isLast = isOfNotifications ? try readAll(of: number, below: below, limit) : try readOne(number, limit)
            if let isLast { return (found, count, isLast) }
            if count >= look.rows { return (found, count, number) }
        }
        return (found, count, nil)
    }

    /// Reads a delivery; returns the number below which to continue once enough are found.
    private mutating func readOne(_ number: Int64, _ limit: Int) throws(StoreError) -> Int64? {
        if look.onePerNotification, let last = found.last, number >= last.notification.rawValue { return nil }
        guard let delivery = try delivery(number) else { return nil }
        return take(delivery, limit)
    }

    /// Reads the deliveries of a notification, the last first.
    private mutating func readAll(of head: Int64, below: Int64, _ limit: Int) throws(StoreError) -> Int64? {
        heads.bind(1, head)
        guard try heads.next(), !heads.isNull(3) else {
            heads.reset()
            return head < below ? try readOne(head, limit) : nil
        }
        let end = min(below, head.adding(clamping: Int64(try heads.count(3))))
        heads.reset()
        rows.bind(1, end)
        rows.bind(2, head)
        defer { rows.reset() }
        while try rows.next() {
            guard let row = try row() else { continue }
            if let next = take(row, limit) { return next }
            if look.onePerNotification, found.last?.notification.rawValue == head { return nil }
        }
        return nil
    }

    private mutating func take(_ delivery: FoundDelivery, _ limit: Int) -> Int64? {
        count += 1
        guard isWanted(delivery) else { return nil }
        found.append(delivery)
        guard found.count >= limit else { return nil }
        return look.onePerNotification ? delivery.notification.rawValue : delivery.delivery.id
    }

    private mutating func delivery(_ number: Int64) throws(StoreError) -> FoundDelivery? {
        rows.bind(1, number.adding(clamping: 1))
        rows.bind(2, number)
        if try rows.next() {
            defer { rows.reset() }
            return try row()
        }
        blocks.bind(1, number)
        blocks.bind(2, number)
        blocks.bind(3, number.adding(clamping: SearchBucket.widestBlock))
        defer { blocks.reset() }
        while try blocks.next() {
            guard let record = try block().record(of: number) else { continue }
            guard let archived = ArchivedDelivery(record) else { throw ArchivedDelivery.damage }
            return try self.archived(archived, at: try? blocks.date(1))
        }
        return memory.deliveries[number]
    }

    /// Returns the block of the current row; one that holds several deliveries of the index is unpacked once.
    private mutating func block() throws(StoreError) -> UnpackedBlock {
        let number = try blocks.integer(2)
        if let kept = unpacked.first(where: { $0.number == number }) { return kept }
        let block = UnpackedBlock(
            number: number,
            records: try ArchivedDelivery.records(of: try blocks.bytes(0))
        )
        if unpacked.count >= Self.keptBlocks { unpacked.removeLast() }
        unpacked.insert(block, at: 0)
        return block
    }

    // MARK: Delivery by delivery

    /// Reads every delivery of the look until enough are found, or enough are read.
    mutating func readAll() throws(StoreError) -> SearchPage {
        var archive = try ArchiveCursor(db, from: look.from, before: look.before)
        var inMemory = memory.deliveries.keys.sorted()
        var isRow = try begin(below: look.before)
        while true {
            let id = isRow ? try rows.id(0) : .min
            let archived = try archive.top()
            let next = max(id, archived ?? .min, inMemory.last ?? .min)
            guard next > .min else { return SearchPage(found: found) }
            count += 1
            // The row counts where a delivery has one, then the archive.
            var delivery: FoundDelivery?
            if id == next { delivery = try row() }
            if archived == next {
                let (record, endedAt) = archive.pop()
                if id != next {
                    guard let read = ArchivedDelivery(record) else { throw ArchivedDelivery.damage }
                    delivery = try self.archived(read, at: endedAt)
                }
            }
            if inMemory.last == next {
                inMemory.removeLast()
                if id != next, archived != next { delivery = memory.deliveries[next] }
            }
            if id == next { isRow = try rows.next() }
            guard let delivery else { continue }
            let isFound = isWanted(delivery)
            if isFound { found.append(delivery) }
            guard found.count < look.limit, count < look.rows else {
                rows.reset()
                let below = isFound && look.onePerNotification ? delivery.notification.rawValue : next
                return SearchPage(found: found, next: below > look.from ? below : nil)
            }
            if isFound, look.onePerNotification, delivery.notification.rawValue < next {
                rows.reset()
                isRow = try begin(below: delivery.notification.rawValue)
            }
        }
    }

    /// Begins to read rows below a number; returns whether there is one.
    private func begin(below number: Int64) throws(StoreError) -> Bool {
        rows.bind(1, number)
        rows.bind(2, look.from)
        return try rows.next()
    }

    // MARK: The parts of a delivery

    /// Returns the delivery of the current row; nil where its notification's row is missing.
    private mutating func row() throws(StoreError) -> FoundDelivery? {
        let id = try rows.id(0)
        let head = try rows.optional(8) ?? id
        if self.head?.id != head {
            heads.bind(1, head)
            defer { heads.reset() }
            guard try heads.next(), !heads.isNull(0) else { return nil }
            guard let record = NotificationRecord(encoded: try heads.bytes(0)) else {
                throw heads.damage(0, "a notification's record")
            }
            self.head = (head, record, try heads.optionalText(1) ?? "", try heads.optionalText(2))
        }
        guard let shared = self.head else { return nil }
        guard let recipient = Recipient(storedForm: try rows.text(5)) else { throw rows.damage(5, "a recipient") }
        let code = try rows.integer(1)
        guard code == 0 || DeliveryState(code: code) != nil else { throw rows.damage(1, "the number of a state") }
        var state = DeliveryState(
            code: code,
            attempts: try rows.integer(2),
            due: try rows.moment(3),
            now: memory.now
        )
        if !state.isFinal, memory.claimed.contains(id) { state = .sending }
        var stored = StoredDelivery(
            id: id,
            recipient: recipient,
            state: state,
            backend: try rows.optionalText(7) ?? "",
            dueAt: state.isFinal ? nil : try rows.date(3),
            expiresAt: try rows.date(4),
            attemptLog: rows.isNull(6) ? [] : try rows.bytes(6)
        )
        // A damaged time costs the time, not the delivery.
        if state.isFinal { stored.endedAt = try? rows.date(9) }
        let delivery = FoundDelivery(
            stored,
            of: NotificationID(rawValue: head),
            record: shared.record,
            caller: shared.caller,
            collapseID: shared.collapseID
        )
        return try marked(delivery)
    }

    /// Returns a delivery of the archive, whose block was written at a time.
    private mutating func archived(
        _ archived: ArchivedDelivery,
        at endedAt: Date?
    ) throws(StoreError) -> FoundDelivery? {
        guard let record = NotificationRecord(encoded: archived.record),
            let recipient = Recipient(storedForm: String(decoding: archived.recipient, as: UTF8.self))
        else { throw ArchivedDelivery.damage }
        if backends[archived.flow] == nil {
            flows.bind(1, archived.flow)
            backends[archived.flow] = try flows.next() ? try flows.text(0) : ""
            flows.reset()
        }
        var stored = StoredDelivery(
            id: archived.id,
            recipient: recipient,
            state: archived.state,
            backend: backends[archived.flow] ?? "",
            dueAt: nil,
            expiresAt: Date(millisecondsSince1970: archived.expires),
            attemptLog: archived.attemptLog ?? []
        )
        stored.endedAt = endedAt
        let delivery = FoundDelivery(
            stored,
            of: NotificationID(rawValue: archived.id),
            record: record,
            caller: String(decoding: archived.caller, as: UTF8.self)
        )
        return try marked(delivery)
    }

    private func marked(_ delivery: FoundDelivery) throws(StoreError) -> FoundDelivery {
        guard delivery.delivery.state.isDead else { return delivery }
        marks.bind(1, delivery.delivery.id)
        defer { marks.reset() }
        guard try marks.next() else { return delivery }
        var delivery = delivery
        (delivery.isAcknowledged, delivery.isResent) = (try marks.integer(0) != 0, try marks.integer(1) != 0)
        return delivery
    }
}

/// A block of the archive with its packed deliveries.
private struct UnpackedBlock {
    let number: Int64
    private let records: [[UInt8]]
    /// The number of each delivery; nil for a record that is damaged.
    private let deliveries: [Int64?]

    init(number: Int64, records: [[UInt8]]) {
        (self.number, self.records) = (number, records)
        deliveries = records.map { record in
            var input = record[...]
            return input.unpackNumber()
        }
    }

    /// Returns the packed delivery with a number; nil when it is not in the block.
    func record(of delivery: Int64) -> [UInt8]? { deliveries.firstIndex(of: delivery).map { records[$0] } }
}

/// Goes through the archived deliveries with numbers in a span, the highest first.
///
/// Blocks overlap, since they have the order in which deliveries ended: a delivery is the next only when no further
/// block can have a higher one. So it holds the deliveries of overlapping blocks, those of ten seconds at most.
private struct ArchiveCursor {
    private let blocks: SQLStatement
    private let from, before: Int64
    /// The highest number of the next block; nil when none is left.
    private var nextLast: Int64?
    /// Packed deliveries with their numbers and the times of their blocks, in ascending order of the numbers.
    private var gathered: [(id: Int64, record: [UInt8], at: Date?)] = []

    init(_ db: Database, from: Int64, before: Int64) throws(StoreError) {
        blocks = try db.statement(
            """
            SELECT last, first, packed, at FROM archive INDEXED BY archived
            WHERE last >= ?1 AND last <= ?2 AND first < ?3 ORDER BY last DESC
            """
        )
        (self.from, self.before) = (from, before)
        blocks.bind(1, from)
        blocks.bind(2, before.adding(clamping: SearchBucket.widestBlock))
        blocks.bind(3, before)
        nextLast = try blocks.next() ? try blocks.integer(0) : nil
    }

    /// Returns the number of the next delivery; nil at the end.
    mutating func top() throws(StoreError) -> Int64? {
        while let last = nextLast, gathered.last.map({ $0.id <= last }) ?? true {
            let at = try? blocks.date(3)
            for record in try ArchivedDelivery.records(of: try blocks.bytes(2)) {
                var input = record[...]
                guard let id = input.unpackNumber() else { throw ArchivedDelivery.damage }
                if id >= from, id < before { gathered.append((id, record, at)) }
            }
            gathered.sort { $0.id < $1.id }
            nextLast = try blocks.next() ? try blocks.integer(0) : nil
        }
        return gathered.last?.id
    }

    /// Removes the next delivery; ``top()`` returned its number.
    mutating func pop() -> (record: [UInt8], at: Date?) {
        let last = gathered.popLast()
        return (last?.record ?? [], last?.at)
    }
}
