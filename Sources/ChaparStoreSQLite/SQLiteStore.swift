internal import Foundation
import GRDB
public import Logging
public import ChaparCore
public import ChaparQueue
import Synchronization

/// The embedded store: one SQLite file, owned by one process, that keeps up with a gateway on the same machine.
///
/// Calls pass commands to one thread that writes (`CommitLoop`, whose comment says how a commit works) and wait for
/// their answers, so that many calls share one wait for the disk. Leases are kept in memory; deliveries that were
/// claimed when the process died are known from the file. Reads use connections of their own. The store calls no plugin
/// and sends nothing.
public final class SQLiteStore: NotificationStore, ServingNotes {
    /// Every ability that does not need several gateways: `nodes` and `quotas` are nil.
    public var abilities: StoreAbilities {
        var abilities = StoreAbilities(traces: self, search: self)
        abilities.campaigns = self
        abilities.serving = self
        abilities.webhooks = self
        abilities.audiences = self
        abilities.series = self
        return abilities
    }

    let core: StoreCore
    private let end = ThreadEnd()
    private let isClosing = Mutex(false)
    private let closed = ThreadEnd()
    private let ownership: FileOwnership
    /// The reason why stored data is lost, as the end of the store found it.
    private let loss = Mutex<String?>(nil)
    let pool: DatabasePool
    /// The limit of searches, which leaves half of the connections for reading to look-ups.
    let scans = ScanGate(atOnce: OpenedStore.readers / 2)

    /// Opens a store, and creates the file when there is none.
    ///
    /// - Throws: `StoreError.failed` when another process has the file, or when it cannot be opened or brought
    ///   up to date; `StoreError.newer` when a newer version of the program has changed it.
    public init(
        _ options: SQLiteStoreOptions,
        time: any TimeSource = SystemTime(),
        logger: Logger = Logger(label: "chapar.store")
    ) throws(StoreError) {
        ownership = try FileOwnership(of: options.path)
        try FileOwnership.makePrivate(options.path)
        let (pool, opened) = try OpenedStore.open(options, time: time) {
            logger.notice("upgrade of the store", metadata: ["progress": "\($0)"])
        }
        try Self.compare(opened, with: ownership, pool, options, logger)
        ownership.beginRun(at: time.now, committed: opened.lastEvent)
        if let run = ownership.brokenRun {
            logger.warning(
                "the last run of a gateway on this store did not end in order: killed, ended by a fault, or without power",
                metadata: ["run.process": .stringConvertible(run.process), "run.since": "\(RFC3339.string(run.since))"]
            )
        }
        let core = StoreCore(options, time: time, logger: logger, opened: opened) { [ownership] in
            ownership.note(committed: $0)
        }
        self.pool = pool
        self.core = core
        if !opened.givesPagesBack {
            logger.notice(
                "the store's file is from an older version and never shrinks; to let it, stop the gateway and run VACUUM",
                metadata: ["store.fix": "sqlite3 FILE 'PRAGMA auto_vacuum = INCREMENTAL; VACUUM'"]
            )
        }
        options.threads.startWriter { [end, ownership] in
            // The lock is held until the last commit, even if nothing else refers to the store.
            withExtendedLifetime(ownership) { Self.work(core, pool, opened) }
            end.signal()
        }
    }

    /// Refuses a store that lacks what the last run had committed: SQLite ignores a write-ahead log that is damaged,
    /// cut or gone.
    ///
    /// A commit that need not survive a loss of power (``SQLiteStoreOptions/Durability/normal``) may be missing after
    /// one.
    private static func compare(
        _ opened: OpenedStore,
        with ownership: FileOwnership,
        _ pool: DatabasePool,
        _ options: SQLiteStoreOptions,
        _ logger: Logger
    ) throws(StoreError) {
        guard let committed = ownership.committed, opened.lastEvent < committed else { return }
        let lost = committed.subtracting(clamping: opened.lastEvent)
        let what =
            "the last run had committed events up to \(committed), and \(lost) of them are missing with the messages they tell of: its "
            + "write-ahead log \(options.path)-wal was damaged, cut or removed, or an older file was put in the store's place"
        guard options.durability == .full else {
            return logger.warning("commits of the last run are missing", metadata: ["store": "\(what)"])
        }
        try? pool.close()
        throw .damaged(
            "the store \(options.path) is damaged: \(what). Put a backup in its place: chapar restore BACKUP; or go on without them: remove "
                + "\(options.path).lock; see docs/Operations.md, \"A damaged store\""
        )
    }

    deinit { core.inbox.close() }

    /// Runs the writer on its thread.
    ///
    /// It keeps the writing connection for as long as the store is open.
    private static func work(_ core: StoreCore, _ pool: DatabasePool, _ opened: OpenedStore) {
        pool.writeWithoutTransaction { db in
            do throws(StoreError) {
                guard let connection = db.sqliteConnection else { throw .closed }
                let queueIndex = opened.makeQueueIndex(core.options)
                try CommitLoop(core: core, connection: connection, queueIndex: queueIndex, opened: opened).run()
            } catch {
                core.status.record(error, now: core.time.steady.millisecondsSince1970)
                core.inbox.close()
                while let commands = core.inbox.drain(isHurried: false) {
                    for command in commands { command.fail(error) }
                }
                core.handOver()
            }
        }
    }

    /// The clock, whose steady time continues over restarts.
    public var time: any TimeSource { core.time }

    /// Adds an observer that is called after each commit, on the writer's thread.
    public func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) { core.observers.add(observer) }

    // MARK: Work

    /// Reserves the numbers of a notification with this number of recipients.
    public func makeID(recipients: Int) -> NotificationID { core.makeID(recipients: recipients) }

    /// Accepts notifications, in one commit with other commands that wait.
    public func enqueue(_ batch: EnqueueBatch) async throws(StoreError) -> EnqueueResult {
        let key = batch.idempotency.map { Inbox.KeyName(caller: $0.caller, key: $0.key) }
        var refusal: Result<EnqueueResult, StoreError>?
        let result = await withCheckedContinuation { (continuation: Continuation<EnqueueResult>) in
            let reply = EnqueueReply.task(Reply(continuation: continuation))
            refusal = core.inbox.admit(.enqueue(batch, reply), key: key).refusal
            if let refusal { continuation.resume(returning: refusal) }
        }
        if refusal == nil, let key { core.inbox.release(key) }
        return try result.get()
    }

    /// Makes a port that delivers its results after each commit, on the writer's thread.
    public func makePort(receive: @escaping @Sendable ([EnqueueAnswer]) -> Void) -> any EnqueuePort {
        let port = StorePort(core.inbox, receive)
        core.ports.add(port)
        return port
    }

    /// Claims due deliveries of a backend's queue, and waits for some when there are none.
    public func claim(backend: String, limit: Int, normal: Int, wait: Duration) async throws(StoreError)
        -> [ClaimedDelivery]
    {
        let until = core.time.steady.millisecondsSince1970.adding(clamping: wait.boundedMilliseconds)
        let ticket = ClaimTicket(backend: backend, limit: limit, normal: normal, until: until)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: Continuation<[ClaimedDelivery]>) in
                ticket.expect(Reply(continuation: continuation))
                if !core.inbox.add(.claim(ticket)) { ticket.answer(.failure(.closed)) }
            }
        } onCancel: { [core] in
            ticket.cancel()
            core.inbox.poke()
        }
        return try result.get()
    }

    /// Claims waiting deliveries whose time to live is over.
    ///
    /// Each call reads a part of the waiting ones, in turn.
    public func claimExpired(limit: Int) async throws(StoreError) -> [ClaimedDelivery] {
        try await ask { .claimExpired(limit: limit, $0) }
    }

    /// Records the results of claimed deliveries.
    public func record(
        _ resolutions: [Resolution],
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]
    ) async throws(StoreError) {
        try await ask { .record(resolutions, event, $0) }
    }

    /// Cancels the deliveries of a notification that are not final; a large notification takes several commits.
    public func cancel(_ id: NotificationID, event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])
        async throws(StoreError) -> Cancellation?
    {
        try await ask { .cancel(CancelStep(id: id, event: event, after: id.delivery(at: -1)), $0) }
    }

    /// Cancels a part of a caller's waiting deliveries.
    public func cancel(
        caller: String,
        from place: CallerCancellation.Place?,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8]
    ) async throws(StoreError) -> CallerCancellation {
        let place = place ?? CallerCancellation.Place(end: core.highestID)
        return try await work(rows: core.options.rowsPerCommit, isNew: false) { (writer) throws(StoreError) in
            try writer.withdrawals.cancel(caller: caller, from: place, event)
        }
    }

    /// Moves the waiting deliveries of a backend to another one.
    public func move(backend: String, to other: String) async throws(StoreError) -> Int? {
        try await ask { .move(backend: backend, to: other, $0) }
    }

    /// Appends events that belong to no delivery.
    public func publish(_ events: [[UInt8]]) async throws(StoreError) {
        try await ask { .publish(events, $0) }
    }

    /// Keeps a small value, or removes it.
    public func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        try await ask { .saveState(name: name, value: value, $0) }
    }

    /// Removes data that is over and old, as much as one short commit can.
    public func purge(_ retention: Retention) async throws(StoreError) -> Bool {
        try await ask { .purge(retention, $0) }
    }

    /// Returns how much waits in each backend's queue, from memory.
    public func depths() async throws(StoreError) -> [String: QueueDepth] {
        let now = core.time.steady.millisecondsSince1970
        return try await look { queueIndex in
            Dictionary(queueIndex.queues.map { ($0.name, $0.depth(now: now)) }, uniquingKeysWith: { first, _ in first })
        }
    }

    /// Returns how much each sender has waiting, from memory.
    public func depthsBySender() async throws(StoreError) -> [String: SenderDepth]? {
        let now = core.time.steady.millisecondsSince1970
        return try await look { queueIndex in
            var depths: [String: SenderDepth] = [:]
            for flow in queueIndex.queues.lazy.flatMap(\.flows) where flow.waiting > 0 {
                var depth = depths[flow.caller] ?? SenderDepth()
                depth.waiting += flow.waiting
                if let due = flow.oldestDue(now: now).map({ Date(millisecondsSince1970: $0) }) {
                    depth.oldestDue = min(depth.oldestDue ?? due, due)
                }
                depths[flow.caller] = depth
            }
            return depths
        }
    }

    // MARK: Life

    /// Returns whether the store can take work.
    public func health() async -> StoreHealth {
        let now = core.time.steady.millisecondsSince1970
        // The writer then commits something, which shows whether the log is whole.
        if !core.inbox.isClosed, core.disk.hasEmptyLog(now: now) { _ = try? await look { _ in } }
        let free = core.disk.free(now: now)
        if core.inbox.isClosed {
            let loss = loss.withLock { $0 }
            var health = StoreHealth(acceptsWork: false, detail: loss ?? "the store is closed", freeBytes: free)
            health.isLost = loss != nil
            return health
        }
        let trouble = core.refusal(now: now) ?? core.status.lastFailure(now: now)
        let used = core.disk.used(now: now)
        var health = StoreHealth(acceptsWork: trouble == nil, detail: trouble, freeBytes: free, usedBytes: used)
        health.brokenRun = ownership.brokenRun
        health.note(waiting: core.waiting, bound: core.options.maximumWaiting)
        return health
    }

    /// Notes that a gateway takes requests, and so has reported an earlier run that did not end in order.
    package func noteServing() { ownership.noteServing() }

    /// Commits work under way and releases the file.
    public func close() async {
        core.inbox.close()
        let isFirst = isClosing.withLock { isClosing in
            defer { isClosing = true }
            return !isClosing
        }
        guard isFirst else { return await closed.wait() }
        await end.wait()
        core.feed.close()
        core.outboxSignal.close()
        core.ports.removeAll()
        core.observers.removeAll()
        await core.timer.close()
        // Checked before the connections close, which may write into a file that was emptied.
        var found = core.disk.loss()
        let foundEmptyLog = core.disk.foundEmptyLog
        switch found?.part {
        case nil: if !foldLog(), foundEmptyLog { found = core.disk.lossOfContent }
        case .logName:
            let log = core.options.path + "-wal"
            // A log that something else put there would be read into the file, which already has later commits.
            if foldLog() { rename(log, log + ".replaced") }
        case .file: try? pool.close()
        case .logContent:
            // Kept open: SQLite copies the log at the last close, into a file that is whole as of the last checkpoint.
            _ = Unmanaged.passRetained(pool)
        }
        if let found {
            core.status.logLoss(found.sentence)
            loss.withLock { $0 = found.sentence }
        }
        ownership.release(isInOrder: found == nil)
        closed.signal()
    }

    /// Moves the content of the write-ahead log into the file, so that the file alone is the store, and closes the
    /// connections; returns false when the log still has something.
    private func foldLog() -> Bool {
        defer { try? pool.close() }
        do {
            try pool.foldLog()
            return true
        } catch {
            core.status.logUnfolded("\(error)")
            return false
        }
    }

    // MARK: Parts

    typealias Continuation<Value: Sendable> = CheckedContinuation<Result<Value, StoreError>, Never>

    /// Passes a command to the commit loop and waits for its answer.
    func ask<Value: Sendable>(_ make: (Reply<Value>) -> StoreCommand) async throws(StoreError) -> Value {
        let result = await withCheckedContinuation { (continuation: Continuation<Value>) in
            let operation = make(Reply(continuation: continuation))
            if !core.inbox.add(operation) { operation.fail(.closed) }
        }
        return try result.get()
    }

    /// A closure that returns why a change cannot be made now; nil when it can.
    typealias Refusal = @Sendable (StoreWriter) throws(StoreError) -> StoreError?

    /// Passes a change of tables to the writer; new data is refused while the disk or the writer cannot take it.
    ///
    /// `refusal` is called within the transaction, before anything is changed.
    func work<Value: Sendable>(
        rows: Int,
        isNew: Bool,
        refusal: Refusal? = nil,
        _ body: @escaping @Sendable (StoreWriter) throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        let result = await withCheckedContinuation { (continuation: Continuation<Value>) in
            let reply = Reply(continuation: continuation)
            let work = TableWork(rows: rows) { (writer) throws(StoreError) in
                if isNew, let reason = writer.transaction.core.refusal(now: writer.transaction.now) {
                    return { reply.fail(.full(reason: reason, retryAfter: .seconds(30))) }
                }
                if let refused = try refusal?(writer) { return { reply.fail(refused) } }
                let value = try body(writer)
                return { reply.succeed(value) }
            } fail: {
                reply.fail($0)
            }
            switch isNew ? core.inbox.admit(.work(work), key: nil) : core.inbox.add(.work(work)) ? .admitted : .closed {
            case .admitted, .keyInUse: break
            case .closed: reply.fail(.closed)
            case .full:
                reply.fail(.full(reason: "more is being stored than the disk can follow", retryAfter: .seconds(1)))
            }
        }
        return try result.get()
    }

    /// Reads what the writer has in memory.
    func look<Value: Sendable>(_ body: @escaping @Sendable (QueueIndex) -> Value) async throws(StoreError) -> Value {
        let result = await withCheckedContinuation { (continuation: Continuation<Value>) in
            let reply = Reply(continuation: continuation)
            let look = StoreCommand.inspect { reply.continuation.resume(returning: $0.map(body)) }
            if !core.inbox.add(look) { look.fail(.closed) }
        }
        return try result.get()
    }

    /// Reads the file.
    func read<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws(StoreError)
        -> Value
    {
        guard !core.inbox.isClosed else { throw .closed }
        do {
            return try await core.options.threads.read(pool, body)
        } catch let error as StoreError {
            throw error
        } catch {
            guard !core.inbox.isClosed else { throw .closed }
            if case .damaged(let what) = StoreError(reading: error) { throw .damaged(what) }
            throw .failed("cannot read the store: \(error)")
        }
    }

    /// Reads the file as one of a limited number of searches; a search that may read many rows takes several such
    /// steps.
    func scan<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws(StoreError)
        -> Value
    {
        await scans.enter()
        defer { scans.leave() }
        return try await read(body)
    }

    var feed: EventFeed { core.feed }
    var outboxSignal: OutboxSignal { core.outboxSignal }
    func setTimer(_ moment: Int64) { core.timer.set(moment) }
    var isClosed: Bool { core.inbox.isClosed }
    var rowsPerScan: Int { core.options.rowsPerScan }
    var callsInInbox: Int { core.inbox.count }
}
