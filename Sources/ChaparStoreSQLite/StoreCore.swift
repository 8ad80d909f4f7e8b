import Foundation
import GRDB
import Logging
import ChaparCore
import ChaparQueue
import Synchronization

/// The parts that the callers of a store and its commit loop share: inbox, ports, observers, events, timer, state of
/// the disk.
///
/// Each part has its own lock; none keeps a delivery. ``SQLiteStore`` makes it and closes its parts.
///
/// The folders, each of which uses only those before it (`.ci/folders`):
/// - Schema: tables, their steps and statements. Signals: what wakes calls that wait. Events: the log of events.
/// - Queue: what waits, in memory and without rows. Commit: commands, inbox, transaction. Clock: the two clocks.
/// - Outbox, Devices, Audiences: the registry. Record: outcomes, cancellations, receipts, the archive.
/// - Claims: deliveries for calls of `claim`, expired ones. Accept: new notifications. Upkeep: removal.
/// - Reads: status and events. Webhooks: their endpoints. Erasure: all of one user. Backup: copies of the file.
/// - Copy: the whole store, for another one.
final class StoreCore: Sendable {
    let options: SQLiteStoreOptions
    /// The clock, whose steady time continues over restarts.
    let time: StoreTime
    let observers = StoreObservers()
    let inbox: Inbox
    let ports = StorePorts()
    let feed: EventFeed
    let outboxSignal = OutboxSignal()
    let disk: DiskGuard
    let timer: WakeTimer
    let status: StoreStatus
    let subjects = SubjectMemory()
    private let waitingCount: Atomic<Int>
    private let ids: Mutex<(allocator: NotificationIDAllocator, highest: Int64)>

    /// Gets the number of the last committed event, about once a second.
    let noteCommitted: @Sendable (Int64) -> Void

    init(
        _ options: SQLiteStoreOptions,
        time: any TimeSource,
        logger: Logger,
        opened: OpenedStore,
        noteCommitted: @escaping @Sendable (Int64) -> Void = { _ in }
    ) {
        self.options = options
        self.noteCommitted = noteCommitted
        let time = StoreTime(base: time, shift: opened.shift)
        self.time = time
        let inbox = Inbox(
            maximumRows: options.maximumQueuedRows,
            maximumBytes: options.maximumQueuedBytes,
            threads: options.threads
        )
        self.inbox = inbox
        feed = EventFeed(last: opened.lastEvent, capacity: options.eventsInMemory)
        disk = DiskGuard(options)
        timer = WakeTimer(time: time) { inbox.poke() }
        status = StoreStatus(logger: logger)
        waitingCount = Atomic(opened.flows.reduce(0) { $0 + $1.waiting })
        ids = Mutex((NotificationIDAllocator(above: opened.highestID), opened.highestID))
    }

    /// Delivers the answers of the last transaction.
    func handOver() { options.threads.handOver { [ports] in ports.flush() } }

    /// Returns why no new work fits; nil when it does.
    ///
    /// The beginning and the end of a refusal are logged.
    func refusal(now: Int64) -> String? {
        let reason = disk.refusal(now: now)
        status.note(refusal: reason, now: now)
        return reason
    }

    /// The number of waiting deliveries, as of the last commit; the writer sets it.
    var waiting: Int {
        get { waitingCount.load(ordering: .relaxed) }
        set { waitingCount.store(newValue, ordering: .relaxed) }
    }

    /// The highest number ever given out.
    var highestID: Int64 { ids.withLock { $0.highest } }

    func makeID(recipients: Int) -> NotificationID {
        let now = time.steady
        return ids.withLock { ids in
            let id = ids.allocator.allocate(recipients, at: now)
            ids.highest = id.delivery(at: max(0, recipients - 1))
            return id
        }
    }
}

/// A clock whose steady time is shifted, so that it continues that of the process before.
struct StoreTime: BootTimeSource {
    let base: any TimeSource
    /// The shift, in milliseconds.
    let shift: Int64

    var now: Date { base.now }
    var bootTime: BootTime? { (base as? any BootTimeSource)?.bootTime }
    var steady: Date { base.steady.addingTimeInterval(Double(shift) / 1000) }
    func sleep(for duration: Duration) async throws { try await base.sleep(for: duration) }
    func sleep(until steady: Date) async throws {
        try await base.sleep(until: steady.addingTimeInterval(-Double(shift) / 1000))
    }
}

/// The observers, which are called after every commit.
final class StoreObservers: Sendable {
    private let observers = Mutex<[@Sendable (StoreChange) -> Void]>([])

    func add(_ observer: @escaping @Sendable (StoreChange) -> Void) { observers.withLock { $0.append(observer) } }

    func notify(_ change: StoreChange) { for observer in observers.withLock({ $0 }) { observer(change) } }

    /// Releases all of them when the store is closed.
    func removeAll() { observers.withLock { $0 = [] } }
}

/// The result of the last commit, for `health`, and the log of the store's failures, no more often than is useful.
final class StoreStatus: Sendable {
    private struct Failure {
        var sentence: String
        var at: Int64
    }

    /// The time, in milliseconds, for which a failure counts when no commit follows it.
    ///
    /// It must end: a gateway that takes no work would never commit again.
    private static let memory: Int64 = 10_000

    /// The shortest time between two logged failures, in milliseconds.
    private static let pause: Int64 = 10_000

    private let failure = Mutex<Failure?>(nil)
    /// The time when failures were last logged, and how many there were since.
    private let logged = Mutex<(at: Int64?, since: Int)>((nil, 0))
    /// The deliveries whose rows could not be read.
    private let unreadable = Mutex<Set<Int64>>([])
    /// The time when a refusal of new work was last logged, and whether it still lasts.
    private let refusing = Mutex<(since: Int64, isOn: Bool)>((.min, false))
    /// The logged sentences about rows that could not be read.
    private let damage = Mutex<Set<String>>([])
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    /// Logs that the disk refuses new work from now on, or takes it again.
    ///
    /// When free space goes up and down around the limit, a refusal is logged at most once in ``pause``.
    func note(refusal reason: String?, now: Int64) {
        let isNew = refusing.withLock { refusing in
            guard refusing.isOn != (reason != nil) else { return false }
            if reason != nil {
                guard now.distance(clamping: refusing.since) >= Self.pause else { return false }
                refusing.since = now
            }
            refusing.isOn = reason != nil
            return true
        }
        guard isNew else { return }
        if let reason {
            logger.error("the store takes no new work", metadata: ["store.reason": "\(reason)"])
        } else {
            logger.notice("the store takes new work again")
        }
    }

    /// Returns the last failure, unless something was committed since or it is long ago.
    func lastFailure(now: Int64) -> String? {
        failure.withLock { failure in
            failure.flatMap { now.distance(clamping: $0.at) < Self.memory ? $0.sentence : nil }
        }
    }

    func record(_ error: StoreError, now: Int64) {
        failure.withLock { $0 = Failure(sentence: error.description, at: now) }
        let count: Int? = logged.withLock { logged in
            logged.since += 1
            if let last = logged.at, now >= last, now.subtracting(clamping: last) < Self.pause { return nil }
            defer { logged = (now, 0) }
            return logged.since
        }
        guard let count else { return }
        logger.warning(
            "store transactions failed",
            metadata: ["store.error": "\(error)", "store.failures": .stringConvertible(count)]
        )
    }

    /// Logs a waiting delivery whose row is damaged: once for each of the first thousand.
    func logUnreadable(_ delivery: Int64) {
        guard unreadable.withLock({ $0.count < 1_000 && $0.insert(delivery).inserted }) else { return }
        logger.error(
            "a waiting delivery cannot be read and is passed over: the store's file is damaged or from a newer version",
            metadata: ["delivery.number": .stringConvertible(delivery)]
        )
    }

    /// Logs a damaged row that is skipped: once for each of the first thousand sentences.
    func logDamage(_ sentence: String) {
        guard damage.withLock({ $0.count < 1_000 && $0.insert(sentence).inserted }) else { return }
        logger.error(
            "a row cannot be read and is passed over: the store's file is damaged",
            metadata: ["store.error": "\(sentence)"]
        )
    }

    /// Logs at the end that stored data is lost.
    func logLoss(_ reason: String) {
        logger.error("the store's file was lost while the gateway ran", metadata: ["store.reason": "\(reason)"])
    }

    /// Logs that the store's file alone is not the whole store after the end.
    func logUnfolded(_ reason: String) {
        logger.warning(
            "the write-ahead log was not moved into the store's file: the file is the store only together with its -wal",
            metadata: ["store.error": "\(reason)"]
        )
    }

    /// Logs that the wall clock was set.
    func logJump(milliseconds: Int64) {
        logger.notice(
            "the wall clock was set",
            metadata: ["clock.jump_seconds": .stringConvertible(Double(milliseconds) / 1000)]
        )
    }

    func recordSuccess() { failure.withLock { if $0 != nil { $0 = nil } } }
}

/// Lets tasks wait for the end of the writer's thread.
final class ThreadEnd: Sendable {
    private struct State {
        var hasEnded = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func signal() {
        let waiters = state.withLock { state in
            state.hasEnded = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let hasEnded = state.withLock { state in
                if !state.hasEnded { state.waiters.append(continuation) }
                return state.hasEnded
            }
            if hasEnded { continuation.resume() }
        }
    }
}
