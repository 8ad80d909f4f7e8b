import Foundation
import PushCore

/// The one writer of a store: a thread that takes everything that waits into one transaction, commits, answers, and
/// starts over.
///
/// While a commit waits for the disk, the next batch collects; under load a small one waits a moment for more
/// (``Gathering``). Memory changes after the commit, never before, but for claims, which ``Journal`` takes back when the
/// commit fails. Then each call is tried by itself, so that a call that cannot be stored fails alone.
final class Writer {
    let core: StoreCore
    let connection: OpaquePointer
    let sql: Statements
    let ended: EndedRows
    let book: Book
    let pacer: Pacer
    /// What the transaction at hand does; not checked for exclusive access, since one thread uses it, and often.
    @exclusivity(unchecked) var journal = Journal()
    /// The moment of the transaction, in milliseconds since 1970.
    var now: Int64 = 0
    /// The number of the newest committed event.
    var lastEvent: Int64
    /// Where the search for expired deliveries goes on, and what the current round has found out.
    var expiryRound = ExpiryRound()
    /// Work that goes on in another transaction, before what waits in the inbox.
    var continuations: [Operation] = []
    /// The recipient of the row at hand, as text; kept to keep its memory.
    @exclusivity(unchecked) var recipientText: [UInt8] = []
    /// What is bound to the statement that inserts notifications.
    var boundPlan = DeliveryPlan([])
    var boundCaller: String?
    var boundCollapse: String?
    /// The new deliveries of the transaction that have no rows, as they are written.
    @exclusivity(unchecked) var arrivalBytes: [UInt8] = []
    /// The plan that was last written so, in that form.
    var packedPlan: (plan: DeliveryPlan, bytes: [UInt8]) = (DeliveryPlan([]), [])
    /// The tables of the device registry, once they were used.
    var devices: DeviceTables?
    /// The table of awaited receipts, once it was needed.
    var receipts: ReceiptTables?
    /// The table of operations on devices, once it was needed.
    var operations: OperationTables?
    /// The table of changes that are not planned, once it was needed.
    var outbox: OutboxTables?

    init(core: StoreCore, connection: OpaquePointer, book: Book, lastEvent: Int64) throws(StoreError) {
        self.core = core
        self.connection = connection
        self.book = book
        self.lastEvent = lastEvent
        pacer = Pacer(windowCapacity: core.options.windowCapacity, longestPause: core.options.longestPause)
        sql = try Statements(connection)
        ended = try EndedRows(connection)
    }

    /// Works until the inbox is closed and empty.
    func run() {
        var waiting: [Operation] = []
        var place = 0
        var isHurried = false
        var gathering = Gathering(longest: core.options.longestGathering)
        while true {
            let isBusy = isHurried || place < waiting.count
            let remains = place < waiting.count
            guard let arrived = core.inbox.take(isHurried: isBusy, remains: remains, until: pacer.deadline) else {
                break
            }
            if place == waiting.count {
                waiting = arrived
                place = 0
                gathering.gather(&waiting, from: core.inbox)
            } else {
                waiting.append(contentsOf: arrived)
            }
            var batch: [Operation] = []
            var rows = 0
            while place < waiting.count, rows < core.options.rowsPerCommit {
                rows += waiting[place].rows
                batch.append(waiting[place])
                place += 1
            }
            gathering.lastRows = rows
            cycle(batch)
            core.inbox.settle(rows: rows)
            if !continuations.isEmpty {
                waiting = continuations + waiting[place...]
                place = 0
                core.inbox.settle(rows: -continuations.reduce(0) { $0 + $1.rows })
                continuations.removeAll()
            }
            isHurried = setAlarm()
        }
        book.forgetArrivals()
        pacer.releaseAll()
        core.ports.flush()
        for lane in book.lanes {
            for ticket in lane.tickets { ticket.answer(.success([])) }
            lane.tickets.removeAll()
        }
    }

    /// One transaction with everything in `batch`.
    private func cycle(_ batch: [Operation]) {
        now = core.time.now.millisecondsSince1970
        var writes: [Operation] = []
        for operation in batch {
            switch operation {
            case .claim(let ticket): book.lane(named: ticket.lane).tickets.append(ticket)
            case .inspect, .look: break
            default: writes.append(operation)
            }
        }
        for lane in book.lanes where !lane.tickets.isEmpty { loadWindow(of: lane) }
        if let failure = attempt(writes) { attemptSeparately(writes, after: failure) }
        sendAwayImpatient()
        pacer.release()
        core.ports.flush()
        for case .inspect(let look) in batch { look(.success(book)) }
    }

    /// Everything again, each call in a transaction of its own.
    private func attemptSeparately(_ writes: [Operation], after failure: StoreError) {
        core.status.note(failure, now: now)
        if writes.count == 1, !hasTickets, book.nextLapse > now {
            writes[0].fail(failure)
            return
        }
        for operation in writes {
            if let failure = attempt([operation], handsOut: false) { operation.fail(failure) }
        }
        if let failure = attempt([]) {
            book.nextLapse = max(book.nextLapse, now + 1_000)
            for lane in book.lanes {
                for ticket in lane.tickets { ticket.answer(.failure(failure)) }
                lane.tickets.removeAll()
            }
        }
    }

    /// Runs the calls in one transaction; nil when it was committed, and memory shows it.
    private func attempt(_ writes: [Operation], handsOut: Bool = true) -> StoreError? {
        journal.reset()
        ended.reset()
        do throws(StoreError) {
            for operation in writes { if !operation.isNewWork { try execute(operation) } }
            if handsOut {
                try lapseLeases()
                handOut()
                try writeOutOldest()
            }
            for operation in writes { if operation.isNewWork { try execute(operation) } }
            try ended.flush()
            try writeArrivals()
            try writeLeases()
            try writeEvents()
            try writeLanes()
            if journal.isOpen { try sql.commit.run() }
        } catch {
            if journal.isOpen { _ = try? sql.rollback.run() }
            takeBack()
            return error
        }
        if journal.isOpen { core.status.noteSuccess() }
        apply()
        return nil
    }

    private func execute(_ operation: Operation) throws(StoreError) {
        switch operation {
        case .enqueue, .record: break
        default: try ended.flush()
        }
        switch operation {
        case .enqueue(let batch, let reply): try enqueue(batch, reply)
        case .record(let resolutions, let reply): try record(resolutions, reply)
        case .claimExpired(let limit, let lease, let reply): try claimExpired(limit: limit, lease: lease, reply)
        case .cancel(let step, let reply): try cancel(step, reply)
        case .publish(let events, let reply):
            journal.events.append(contentsOf: events)
            journal.answers.append { reply.succeed(()) }
        case .saveState(let name, let value, let reply): try saveState(name, value, reply)
        case .purge(let step, let reply): try purge(step, reply)
        case .work(let work):
            try begin()
            journal.answers.append(try work.run(self))
        case .claim, .inspect, .look: break
        }
    }

    /// Opens the transaction, once something is to be written.
    func begin() throws(StoreError) {
        guard !journal.isOpen else { return }
        try sql.begin.run()
        journal.isOpen = true
    }

    /// Writes the names of lanes that came up in this transaction.
    private func writeLanes() throws(StoreError) {
        guard journal.isOpen else { return }
        for lane in book.unsavedLanes {
            sql.insertLane.bind(1, lane.number)
            sql.insertLane.bind(2, lane.name)
            try sql.insertLane.run()
        }
    }

    private func writeEvents() throws(StoreError) {
        guard !journal.events.isEmpty else { return }
        try begin()
        let packed = EventPacking.pack(journal.events)
        let statement = sql.insertEvents
        statement.bind(1, lastEvent + 1)
        statement.bind(2, journal.events.count)
        statement.bind(3, now)
        try packed.withUnsafeBufferPointer { (bytes) throws(StoreError) in
            statement.bindBlob(4, borrowing: bytes)
            _ = try statement.run()
        }
    }

    private func saveState(_ name: String, _ value: [UInt8]?, _ reply: Reply<Void>) throws(StoreError) {
        try begin()
        let statement = value == nil ? sql.deleteState : sql.saveState
        statement.bind(1, name)
        if let value { statement.bind(2, blob: value) }
        try statement.run()
        journal.answers.append { reply.succeed(()) }
    }

    private var hasTickets: Bool { book.lanes.contains { !$0.tickets.isEmpty } }
}

extension Operation {
    /// Whether it brings deliveries that come after those which wait already.
    var isNewWork: Bool { if case .enqueue = self { true } else { false } }
}
