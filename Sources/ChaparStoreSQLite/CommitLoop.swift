import DequeModule
import Foundation
import ChaparCore
import ChaparComposition

/// The one writer of a store: a thread that takes every command that waits into one transaction, commits, answers, and
/// starts over.
///
/// It decides the order of the steps; its parts, each in the folder of its room, make them. All write within one
/// ``Transaction``, which has the connection and the ``QueueIndex``; nothing outside of the parts touches either.
/// ``SQLiteStore`` hands commands in by the ``Inbox``. The loop never calls a plugin, and never answers before what it
/// answers is durable.
///
/// ## How a commit works
/// 1. ``Inbox/drain(isHurried:remains:until:)`` gives what waits. Under load a small batch waits a moment for more
///    (``GroupCommit``); a large one is cut at `rowsPerCommit`, and the rest begins the next.
/// 2. Calls of `claim` join their ``BackendQueue``. Where a queue that is asked for work runs low in memory, its next
///    page is read (``Claims``).
/// 3. The transaction begins with the first write, and runs in this order: the search for expired deliveries
///    (``Expiry``); what waits in memory is claimed (``Claims``); outcomes (``Recording``), cancellations
///    (``Withdrawals``), devices and the like; the oldest ``StagedRows`` get their rows (``RowWriter``); new
///    notifications (``Enqueuing``), which a call that waits for work gets at once.
/// 4. What belongs to all of it is written last: finished deliveries as an ``Archive`` block, new staged rows, leases,
///    events in one row (``EventWriter``), new flows, the clocks (``WriterClock``).
/// 5. `COMMIT`. From here on the work, its events and its claims survive a crash of the process, and with
///    `durability: full` a loss of power. Nothing of it was shown before.
/// 6. `apply`: memory follows (``PendingChanges``), observers and ``EventFeed`` get it, claims and callers are
///    answered; answers to new work may wait for their queue to catch up (``BackPressure``).
///
/// When a step fails the transaction is rolled back, and with it the claims, which are the one thing that memory shows
/// before the commit (``Transaction/rollBack()``). Then each command is tried in a transaction of its own, so that one
/// that cannot be stored fails alone.
final class CommitLoop {
    private let core: StoreCore
    private let queueIndex: QueueIndex
    private let transaction: Transaction
    private let rows: RowWriter
    private let events: EventWriter
    private let archive: Archive
    private let clock: WriterClock
    private let recording: Recording
    private let settling: Settling
    private let withdrawals: Withdrawals
    private let moves: BackendMoves
    private let claims: Claims
    private let expiry: Expiry
    private let enqueuing: Enqueuing
    private let freePages: FreePages
    private let purge: Purge
    /// The parts that calls of the store use by themselves.
    private let writer: StoreWriter
    private let backPressure: BackPressure
    /// Whether the transaction writes something even without commands, to test the log.
    private var isTryingLog = false

    init(core: StoreCore, connection: OpaquePointer, queueIndex: QueueIndex, opened: OpenedStore) throws(StoreError) {
        self.core = core
        self.queueIndex = queueIndex
        transaction = try Transaction(core: core, queueIndex: queueIndex, connection: connection)
        let shared = try NotificationStatements(connection)
        rows = try RowWriter(transaction)
        events = try EventWriter(transaction, last: opened.lastEvent)
        archive = try Archive(connection)
        clock = try WriterClock(transaction, rows, offset: opened.wallOffset)
        let receipts = Receipts(transaction, archive)
        let rivals = try Rivals(transaction)
        let searchIndex = SearchIndex(transaction)
        let endings = try Endings(transaction, rows, archive, searchIndex)
        recording = try Recording(transaction, rows, endings, rivals, receipts)
        settling = try Settling(transaction, recording)
        withdrawals = try Withdrawals(transaction, rows, endings, archive, shared)
        moves = try BackendMoves(transaction)
        claims = try Claims(transaction)
        expiry = try Expiry(transaction, rows, claims)
        enqueuing = try Enqueuing(transaction, rows, claims, endings, rivals, searchIndex)
        freePages = try FreePages(transaction, opened)
        purge = try Purge(transaction, receipts, freePages, searchIndex, shared)
        let erasing = Erasing(transaction, rows, endings, receipts, searchIndex, shared)
        let reports = Reports(transaction, endings, recording)
        writer = StoreWriter(transaction, receipts, reports, withdrawals, erasing, freePages, searchIndex)
        backPressure = BackPressure(
            windowCapacity: core.options.windowCapacity,
            longestPause: core.options.longestPause
        )
    }

    /// Works until the inbox is closed and empty.
    func run() {
        var waiting = Deque<StoreCommand>()
        var isHurried = false
        var groupCommit = GroupCommit(longest: core.options.longestGathering)
        while true {
            let isBusy = isHurried || !waiting.isEmpty
            let remains = !waiting.isEmpty
            guard let arrived = core.inbox.drain(isHurried: isBusy, remains: remains, until: backPressure.deadline)
            else {
                break
            }
            if waiting.isEmpty {
                var gathered = arrived
                groupCommit.gather(&gathered, from: core.inbox)
                waiting.append(contentsOf: gathered)
            } else {
                waiting.append(contentsOf: arrived)
            }
            var batch: [StoreCommand] = []
            var size = CommandSize()
            // A taken command is released at once: under load the queue is never empty, and a command holds its
            // messages.
            while size.rows < core.options.rowsPerCommit, let operation = waiting.popFirst() {
                size += operation.size
                batch.append(operation)
            }
            groupCommit.lastRows = size.rows
            cycle(batch)
            core.inbox.finish(size)
            let continuations = withdrawals.takeContinuations()
            if !continuations.isEmpty {
                waiting.prepend(contentsOf: continuations)
                core.inbox.reserve(continuations.reduce(into: CommandSize()) { $0 += $1.size })
            }
            isHurried = setTimer()
        }
        queueIndex.forgetStagedRows()
        backPressure.releaseAll()
        events.noteLast()
        // Pending closures refer to parts of the writer, whose statements keep the connection from closing.
        transaction.pending.reset()
        core.handOver()
        for queue in queueIndex.queues {
            for ticket in queue.tickets { ticket.answer(.success([])) }
            queue.tickets.removeAll()
        }
    }

    /// Runs one transaction with everything in `batch`.
    private func cycle(_ batch: [StoreCommand]) {
        transaction.start(at: core.time.steady.millisecondsSince1970)
        var writes: [StoreCommand] = []
        for operation in batch {
            switch operation {
            case .claim(let ticket):
                queueIndex.queue(named: ticket.backend).tickets.append(ticket)
                if queueIndex.moves[ticket.backend] != nil { writes.append(.endMove(ticket.backend)) }
            case .inspect, .look: break
            default: writes.append(operation)
            }
        }
        for queue in queueIndex.queues where !queue.tickets.isEmpty { claims.loadWindows(of: queue) }
        freePages.measure()
        if core.disk.hasEmptyLog(now: transaction.now) { tryLog() }
        if let failure = attempt(writes) { attemptSeparately(writes, after: failure) }
        events.noteCommitted()
        claims.answerTimedOut()
        backPressure.release()
        core.handOver()
        for case .inspect(let look) in batch { look(.success(queueIndex)) }
    }

    /// Makes a commit to a log that was found empty, which shows why it is empty.
    ///
    /// After a checkpoint SQLite begins the log anew; where something else has cut it SQLite goes on behind a hole.
    private func tryLog() {
        isTryingLog = true
        if let failure = attempt([], handsOut: false) { core.status.record(failure, now: transaction.now) }
        isTryingLog = false
        core.disk.lookAgain()
    }

    /// Repeats everything, each call in a transaction of its own.
    private func attemptSeparately(_ writes: [StoreCommand], after failure: StoreError) {
        core.status.record(failure, now: transaction.now)
        if writes.count == 1, !hasTickets {
            writes[0].fail(failure)
            return
        }
        for operation in writes {
            if let failure = attempt([operation], handsOut: false) { operation.fail(failure) }
        }
        if let failure = attempt([]) {
            for queue in queueIndex.queues {
                for ticket in queue.tickets { ticket.answer(.failure(failure)) }
                queue.tickets.removeAll()
            }
        }
    }

    /// Runs the calls in one transaction; returns nil when it was committed, and memory shows it.
    private func attempt(_ writes: [StoreCommand], handsOut: Bool = true) -> StoreError? {
        transaction.pending.reset()
        archive.reset()
        do throws(StoreError) {
            if handsOut { try clock.follow() }
            // Searches first, which take from memory: after the others the window may show what this transaction ends.
            for operation in writes { if operation.isSearch { try execute(operation) } }
            if handsOut { claims.handOut() }
            for operation in writes { if !operation.isNewWork, !operation.isSearch { try execute(operation) } }
            if handsOut { try rows.writeOutOldest() }
            for operation in writes { if operation.isNewWork { try execute(operation) } }
            try archive.flush(now: transaction.now)
            try rows.writeStagedRows()
            try claims.writeLeases()
            try events.write()
            try transaction.writeFlows()
            if isTryingLog { try clock.touch() }
            if transaction.pending.isOpen {
                try clock.write()
                try transaction.commit()
            }
        } catch {
            transaction.rollBack()
            return error
        }
        if transaction.pending.isOpen { core.status.recordSuccess() }
        apply()
        return nil
    }

    /// Applies the committed transaction to memory, tells observers and readers of events, and answers callers.
    private func apply() {
        transaction.apply()
        events.apply()
        transaction.notifyObservers()
        core.feed.append(transaction.pending.events)
        transaction.answerClaims()
        for (rows, flow, reply) in transaction.pending.accepted { backPressure.accept(rows, in: flow, reply) }
        for answer in transaction.pending.answers { answer() }
    }

    private func execute(_ operation: StoreCommand) throws(StoreError) {
        switch operation {
        case .enqueue, .record: break
        default: try archive.flush(now: transaction.now)
        }
        switch operation {
        case .enqueue(let batch, let reply): try enqueuing.enqueue(batch, reply)
        case .record(let resolutions, let event, let reply): try recording.record(resolutions, event, reply)
        case .settle(let resolutions, let backend, let event, let reply):
            try settling.settle(resolutions, of: backend, event, reply)
        case .makeDue(let deliveries, let backend, let reply): try settling.makeDue(deliveries, of: backend, reply)
        case .claimExpired(let limit, let reply): try expiry.claim(limit: limit, reply)
        case .cancel(let step, let reply): try withdrawals.cancel(step, reply)
        case .move(let name, let other, let reply): try moves.move(name, to: other, reply)
        case .endMove(let name): try moves.endMove(of: name)
        case .publish(let events, let reply):
            transaction.pending.events.append(contentsOf: events)
            transaction.pending.answers.append { reply.succeed(()) }
        case .saveState(let name, let value, let reply):
            try transaction.saveState(name, value)
            transaction.pending.answers.append { reply.succeed(()) }
        case .purge(let retention, let reply): try purge.purge(retention, reply)
        case .work(let work):
            try transaction.begin()
            transaction.pending.answers.append(try work.run(writer))
        case .claim, .inspect, .look: break
        }
    }

    /// Sets the timer for the next moment at which the writer has work.
    ///
    /// Returns true when that moment is now.
    private func setTimer() -> Bool {
        var next = Int64.max
        for queue in queueIndex.queues where !queue.tickets.isEmpty {
            for ticket in queue.tickets { next = min(next, ticket.until) }
            if let due = queue.nextDue { next = min(next, due) }
        }
        let now = core.time.steady.millisecondsSince1970
        if let patience = core.feed.expire(now: now) { next = min(next, patience) }
        if let look = core.outboxSignal.expire(now: now) { next = min(next, look) }
        if let moment = events.nextNote { next = min(next, moment) }
        if next <= transaction.now { return true }
        if next < .max { core.timer.set(next) }
        return false
    }

    private var hasTickets: Bool { queueIndex.queues.contains { !$0.tickets.isEmpty } }
}

extension StoreCommand {
    /// Whether it brings deliveries that come after those which wait already.
    var isNewWork: Bool { if case .enqueue = self { true } else { false } }

    /// Whether it searches for expired deliveries.
    var isSearch: Bool { if case .claimExpired = self { true } else { false } }
}
