import ChaparCore
import ChaparQueue

/// The newest deliveries that ended, gathered in a transaction and written together as blocks.
///
/// A delivery that was accepted alone, sent from memory and answered never gets a row of its own: it goes from
/// ``StagedRows`` into the archive. A block costs one row for hundreds of deliveries, takes a fraction of their bytes
/// since they look alike (``EventPacking``), and is purged as one. A later change of such a delivery, by a receipt from
/// the app for instance, gives it a row, which takes precedence over the archive. Used by the writer's thread only.
final class Archive {
    /// The most deliveries of a block, since reading one means reading all.
    private static let largestBlock = 256
    /// The largest distance between the lowest and the highest number in a block: the numbers of ten seconds.
    static let widestBlock = SearchBucket.widestBlock

    private let insert: SQLStatement
    private let find: SQLStatement
    private let block: SQLStatement
    @exclusivity(unchecked) private var gathered: [(id: Int64, record: [UInt8])] = []
    /// The recipient and the notification's record of the delivery that is added; kept to reuse their memory.
    @exclusivity(unchecked) private var recipient: [UInt8] = []
    @exclusivity(unchecked) private var notification: [UInt8] = []

    init(_ connection: OpaquePointer) throws(StoreError) {
        insert = try SQLStatement(
            connection,
            "INSERT INTO archive (first, last, at, packed) VALUES (?1, ?2, ?3, ?4)"
        )
        find = try SQLStatement(connection, Self.search)
        block = try SQLStatement(connection, "SELECT packed FROM archive WHERE number = ?1")
    }

    /// The statement that finds blocks which may hold deliveries from ?1 to ?2; ?3 is ?2 + ``widestBlock``.
    static let search = """
        SELECT packed, at, number FROM archive INDEXED BY archived WHERE last >= ?1 AND last <= ?3 AND first <= ?2
        """

    /// Discards what a failed transaction gathered.
    func reset() { gathered.removeAll(keepingCapacity: true) }

    /// Adds a delivery that ended, after one attempt or none.
    func add(_ entry: Entry, _ row: StagedRow.Row, as state: DeliveryState, attempt: [UInt8]?) {
        recipient.removeAll(keepingCapacity: true)
        entry.recipient.appendStoredForm(to: &recipient)
        notification.removeAll(keepingCapacity: true)
        entry.head.record.encode(to: &notification)
        let record = ArchivedDelivery.pack(
            id: entry.id,
            flow: entry.flow.number,
            state: state,
            row,
            recipient: recipient,
            caller: entry.flow.caller,
            record: notification,
            attemptLog: attempt
        )
        gathered.append((entry.id, record))
    }

    /// Writes what was gathered.
    func flush(now: Int64) throws(StoreError) {
        guard !gathered.isEmpty else { return }
        gathered.sort { $0.id < $1.id }
        var start = 0
        while start < gathered.count {
            var end = start
            while end < gathered.count, end - start < Self.largestBlock,
                gathered[end].id.subtracting(clamping: gathered[start].id) <= Self.widestBlock
            { end += 1 }
            try write(gathered[start..<end], now: now)
            start = end
        }
        reset()
    }

    private func write(_ block: ArraySlice<(id: Int64, record: [UInt8])>, now: Int64) throws(StoreError) {
        guard let first = block.first?.id, let last = block.last?.id else { return }
        insert.bind(1, first)
        insert.bind(2, last)
        insert.bind(3, now)
        try EventPacking.pack(block.map(\.record)).withUnsafeBufferPointer { (bytes) throws(StoreError) in
            insert.bindBlob(4, borrowing: bytes)
            _ = try insert.run()
        }
    }

    /// Returns the numbers of the deliveries in a block.
    func numbers(inBlock number: Int64) throws(StoreError) -> [Int64] {
        block.bind(1, number)
        guard try block.next() else { return [] }
        defer { block.reset() }
        return try ArchivedDelivery.numbers(in: block.bytes(0))
    }

    /// Returns the delivery with a number, and when it ended; nil when it is not in the archive.
    func delivery(_ id: Int64) throws(StoreError) -> (delivery: ArchivedDelivery, endedAt: Int64)? {
        find.bind(1, id)
        find.bind(2, id)
        find.bind(3, id.adding(clamping: Self.widestBlock))
        while try find.next() {
            guard let found = try ArchivedDelivery.find(id, in: find.bytes(0)) else { continue }
            let endedAt = try find.moment(1)
            find.reset()
            return (found, endedAt)
        }
        return nil
    }
}

/// A delivery in the archive: the only one of its notification.
///
/// The commit loop makes it from a delivery that ended before it ever had a row; it is read for its status and when a
/// user is erased.
struct ArchivedDelivery: Equatable {
    var id: Int64
    var flow: Int64
    var state: DeliveryState
    var expires: Int64
    var scheduled: Int64?
    var recipient: [UInt8]
    var caller: [UInt8]
    /// The notification's ``NotificationRecord``, encoded.
    var record: [UInt8]
    /// Its one attempt, or how it ended without one; nil when there was neither.
    var attemptLog: [UInt8]?

    /// The value for no time, and for no text.
    private static let none = Int64.min

    /// Packs a delivery: its numbers, then its texts.
    ///
    /// Numbers take eight bytes, the lowest first, so that most of their bytes equal those of the previous delivery. A
    /// token of hexadecimal digits takes half of its length.
    static func pack(
        id: Int64,
        flow: Int64,
        state: DeliveryState,
        _ row: StagedRow.Row,
        recipient: [UInt8],
        caller: String,
        record: [UInt8],
        attemptLog: [UInt8]?
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        let texts = recipient.count + caller.utf8.count + record.count + (attemptLog?.count ?? 0)
        bytes.reserveCapacity(80 + texts)
        let digits = HexDigits.start(in: recipient)
        let numbers: [10 of Int64] = [
            id, flow, state.code, row.expires, row.scheduled ?? none, Int64(digits), Int64(recipient.count),
            Int64(caller.utf8.count), Int64(record.count), attemptLog.map { Int64($0.count) } ?? none,
        ]
        bytes.pack(numbers)
        bytes.append(contentsOf: recipient[..<digits])
        HexDigits.pack(recipient[digits...], to: &bytes)
        bytes.append(contentsOf: caller.utf8)
        bytes.append(contentsOf: record)
        if let attemptLog { bytes.append(contentsOf: attemptLog) }
        return bytes
    }

    /// The error for a block, or a delivery in it, that cannot be read.
    static let damage = StoreError.damaged("archive.packed holds bytes that are no ended deliveries")

    /// Returns the delivery with a number in a block; nil when it is not there.
    static func find(_ id: Int64, in block: [UInt8]) throws(StoreError) -> ArchivedDelivery? {
        for record in try records(of: block) {
            var input = record[...]
            guard input.unpackNumber() == id else { continue }
            guard let found = ArchivedDelivery(record) else { throw damage }
            return found
        }
        return nil
    }

    /// Returns the numbers of all deliveries in a block.
    static func numbers(in block: [UInt8]) throws(StoreError) -> [Int64] {
        try records(of: block).compactMap { record in
            var input = record[...]
            return input.unpackNumber()
        }
    }

    /// Returns the deliveries of a block, each in its packed form.
    static func records(of block: [UInt8]) throws(StoreError) -> [[UInt8]] {
        let (records, isWhole) = EventPacking.unpackAll(block)
        guard isWhole else { throw damage }
        return records
    }

    /// Reads a delivery; nil when it is damaged.
    init?(_ record: [UInt8]) {
        var input = record[...]
        var numbers: [Int64] = []
        for _ in 0..<10 {
            guard let number = input.unpackNumber() else { return nil }
            numbers.append(number)
        }
        guard let state = DeliveryState(code: numbers[2]), StoredRange.ids.contains(numbers[0]),
            StoredRange.moments.contains(numbers[3]),
            numbers[4] == Self.none || StoredRange.moments.contains(numbers[4])
        else { return nil }
        (id, flow, self.state, expires) = (numbers[0], numbers[1], state, numbers[3])
        scheduled = numbers[4] == Self.none ? nil : numbers[4]
        let (digits, whole) = (numbers[5], numbers[6])
        guard digits >= 0, digits <= whole, let head = input.unpackText(digits),
            let tail = input.unpackText(whole.subtracting(clamping: digits) / 2),
            let caller = input.unpackText(numbers[7]), let stored = input.unpackText(numbers[8]),
            NotificationRecord(encoded: stored) != nil
        else { return nil }
        recipient = head + HexDigits.unpack(tail)
        (self.caller, self.record) = (caller, stored)
        if numbers[9] == Self.none {
            attemptLog = nil
        } else {
            guard let text = input.unpackText(numbers[9]) else { return nil }
            attemptLog = text
        }
    }
}
