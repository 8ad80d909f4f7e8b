internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The state that the parts of a store share.
///
/// The folders, each of which uses only those before it (`.ci/folders`):
/// - Connection: libpq, values and rows. Schema: tables, their steps and partitions.
/// - Signals: what wakes calls of this node and of others. Events: the log of events.
/// - Queue: rows of what waits, flows. Commit: calls in groups. Counts: what waits, in numbers.
/// - Quotas: what nodes share. Clock: the database's clock. Outbox, Devices, Audiences: the registry.
/// - Record: outcomes, cancellations, receipts. Claims: deliveries for calls of `claim`.
/// - Nodes: leases, recovery of dead nodes. Accept: new notifications. Upkeep: partitions, removal, vacuum.
/// - Reads: status and events. Webhooks: their endpoints. Erasure: all of one user. Copy: the whole store.
final class StoreCore: Sendable {
    let options: PostgresOptions
    let logger: Logger
    let time: any TimeSource
    /// The clock that ``NodeLease`` sets; nil where a test has its own.
    let databaseTime: DatabaseTime?

    let flows = FlowTable()
    let heads = HeadCache(capacity: 32 << 20)
    let partitions = Partitions()
    let lateEnds = LateEnds()
    let claimWaiters = ClaimWaiters()
    let inHand = ClaimsInHand()
    let unknownClaims = UnknownClaims()
    /// Raised when there are new events.
    let events = AsyncSignal()
    let announcer: Announcer
    let leaseHealth: LeaseHealth
    let outboxSignals: OutboxSignals
    let sessions = NodeSessions()
    /// The backends of the gateway's configuration, once it has declared them, and the number of the node whose row has
    /// them.
    let declared = Mutex<(backends: [String], node: Int64)?>(nil)

    /// The connection for upkeep: partitions, removal, other nodes.
    let keeper: PostgresConnection
    /// The connection for the node's lease and the clock only, which nothing may hold up.
    let renewer: PostgresConnection
    /// The connection for new notifications.
    let writer: PostgresConnection
    let claimer: PostgresConnection
    /// The connection for results of deliveries.
    let recorder: PostgresConnection
    let reader: PostgresConnection
    /// The connection for counts of what waits, which may take long.
    let counter: PostgresConnection

    private struct Node {
        var number: Int64 = 0
        /// All numbers that this process has had.
        var own: [Int64] = []
        var numbers = NodeNumbers(slot: 0, above: 0)
        var ahead: Int64 = 0
    }

    /// The searches for deliveries whose time to live is over.
    let expiryScan = Mutex(IncrementalScan(every: .zero))
    let numbering = NumberingMark()
    /// The number of deliveries that have not ended, for `max_waiting`.
    let waitingCount = Mutex(WaitingCount())
    /// The pace of exact counts, for `max_waiting`.
    let exactCounts = Mutex(WaitingEstimate.Pace())
    /// Raised for ``Keeper`` when another node has joined, or this one has taken a new place.
    let nodeJoined = AsyncSignal()
    /// The last count of what waits.
    let counts = Mutex(DepthCount.Counts())
    /// The waiting deliveries of each caller whose share is limited.
    let callerCounts = CallerCounts()
    /// The number of dead rows of the queue, and the age of the oldest snapshot that keeps some, as ``Keeper`` last
    /// read them.
    let remains = Mutex<(deadRows: Int64?, oldestSnapshot: Duration?)>((nil, nil))
    private let node = Mutex(Node())
    private let observers = Mutex<[@Sendable (StoreChange) -> Void]>([])
    private let failure = Mutex<(sentence: String, at: ContinuousClock.Instant)?>(nil)
    /// The reason why this program may not work with the tables any more; nil while it may.
    private let refusal = Mutex<String?>(nil)

    init(_ options: PostgresOptions, time: (any TimeSource)?, logger: Logger) {
        self.options = options
        self.logger = logger
        let databaseTime = time == nil ? DatabaseTime() : nil
        self.databaseTime = databaseTime
        self.time = time ?? databaseTime ?? SystemTime()
        announcer = Announcer()
        leaseHealth = LeaseHealth(lease: options.nodeLease)
        outboxSignals = OutboxSignals(announcer)
        keeper = PostgresConnection(options, name: "keeper", walksIndexes: true)
        renewer = PostgresConnection(options, name: "renewer")
        writer = PostgresConnection(options, name: "writer", walksIndexes: true, keepsPlans: true)
        claimer = PostgresConnection(options, name: "claimer", walksIndexes: true, keepsPlans: true)
        recorder = PostgresConnection(options, name: "recorder", walksIndexes: true, keepsPlans: true)
        reader = PostgresConnection(options, name: "reader", walksIndexes: true, reopens: true)
        counter = PostgresConnection(options, name: "counter", reopens: true)
        sessions.add(connections)
    }

    var connections: [PostgresConnection] { [keeper, renewer, writer, claimer, recorder, reader, counter] }

    /// The steady time in milliseconds.
    var now: Int64 { time.steady.millisecondsSince1970 }

    // MARK: The node

    /// The number under which this node claims.
    var nodeNumber: Int64 { node.withLock { $0.number } }

    /// The number of this node and its slot.
    var place: (number: Int64, slot: Int64) { node.withLock { ($0.number, $0.numbers.slot) } }

    /// All numbers under which this process has claimed: a new one each time the node was declared dead.
    var ownNumbers: [Int64] { node.withLock { $0.own } }

    func makeID(recipients: Int) -> NotificationID {
        let now = time.steady
        return node.withLock { $0.numbers.allocate(recipients, at: now) }
    }

    /// Returns the highest number that any node can have given out by now, at least `stored`; this node gives out
    /// higher ones from now on.
    func newestDelivery(stored: Int64) -> Int64 {
        let now = time.steady
        return node.withLock { node in
            let newest = max(
                node.numbers.allocate(1, at: now).rawValue,
                NotificationID(firstAt: now + 0.001).delivery(at: -1),
                stored
            )
            node.numbers.skip(to: newest)
            return newest
        }
    }

    func become(node number: Int64, slot: Int64, above highest: Int64) {
        node.withLock {
            $0.number = number
            $0.own.append(number)
            // Numbers that it gave out before may not be stored yet, and its slot may be the same.
            $0.numbers = NodeNumbers(slot: slot, above: max(highest, $0.numbers.last))
        }
    }

    /// Writes the gateway's backends into the node's row, unless they are there.
    func noteBackends(_ db: isolated PostgresConnection) throws(PostgresError) {
        let number = nodeNumber
        guard let (backends, node) = declared.withLock({ $0 }), node != number else { return }
        try db.run(
            "UPDATE chapar.nodes SET backends = $2 WHERE number = $1",
            [.integer(number), .texts(backends)]
        )
        declared.withLock { declared in if declared?.backends == backends { declared?.node = number } }
    }

    /// About how many deliveries wait or are claimed: the last count, with what this node has changed since.
    var waiting: Int64 { waitingCount.withLock { $0.known } }

    // MARK: Clocks

    /// How far the wall clock was ahead of the steady one when it was last read, in milliseconds.
    var ahead: Int64 {
        get { node.withLock { $0.ahead } }
        set {
            let isNew = node.withLock { node in
                defer { node.ahead = newValue }
                return node.ahead != newValue
            }
            // ``ClockShift`` changes the rows of notifications that were accepted before, on any node.
            if isNew { heads.removeAll() }
        }
    }

    /// The smallest step of the wall clock that is followed, in milliseconds; smaller ones add up until they reach it.
    static let smallestJump: Int64 = 1_000

    /// Shifts scheduled deliveries when a test's clock was set; for the database's clock ``NodeLease`` does.
    func followWallClock() async throws(PostgresError) {
        guard databaseTime == nil else { return }
        let (wall, steady) = time.reading
        let ahead = wall.millisecondsSince1970.subtracting(clamping: steady.millisecondsSince1970)
        guard ahead.distance(clamping: self.ahead) >= Self.smallestJump else { return }
        let shift = ClockShift(self)
        try await shift.run()  // Ends a shift that another node may have begun.
        try await shift.begin(to: ahead, on: keeper)
        try await shift.run()
    }

    /// Ends the move of a backend that is in use again.
    func endMove(of backend: String) async throws(PostgresError) {
        try await claimer.session { [flows] (db) throws(PostgresError) in
            try db.run("DELETE FROM chapar.moves WHERE backend = $1", [.text(backend)])
            try flows.read(db)
        }
    }

    /// Makes the partition for the events of a time, if it is missing.
    func prepareDay(_ now: Int64, on connection: PostgresConnection) async throws(PostgresError) {
        let missing = partitions.missing([Partitions.day(now)])
        if !missing.isEmpty { try await partitions.make(missing, on: connection) }
    }

    /// Reads flows again after a connection was lost, and forgets the noted late ends.
    ///
    /// A standby that took over may lack what was written last, and give the numbers of flows to others.
    ///
    /// - Returns: Whether the connection was lost.
    @discardableResult
    func refresh(_ connection: PostgresConnection) async throws(PostgresError) -> Bool {
        guard connection.isNew.load(ordering: .acquiring) else { return false }
        lateEnds.forgetNoted()
        try await connection.session { [flows] (db) throws(PostgresError) in
            try flows.read(db)
            db.isNew.store(false, ordering: .releasing)
        }
        return true
    }

    /// Whether a transaction may succeed when it is repeated: it collided with another one, lacks a partition, or was
    /// not sent because the server had ended the connection.
    ///
    /// A missing partition is made before the next attempt.
    func mayRepeat(_ error: PostgresError) -> Bool {
        if error.lacksPartition { partitions.forget() }
        return error.isConflict || error.lacksPartition || error == .ended
    }

    // MARK: News

    /// Reports to this node's callers and to other nodes that something waits at a backend, since or from a time.
    ///
    /// Call it after the commit. Work that became due less than ``ClaimMarks/slack`` ago is beyond every mark then.
    func stir(_ backend: String, due: Int64) {
        let now = now
        let isOlder = due <= now.subtracting(clamping: ClaimMarks.slack)
        claimWaiters.stir(backend, due: due > now ? due : nil, isOlder: isOlder)
        if due <= now { announcer.announce(isOlder ? .olderWork(backend: backend) : .work(backend: backend)) }
    }

    /// Reports that something may wait at any backend since any time.
    func stirAll() { for backend in flows.backends { stir(backend, due: .min) } }

    /// Wakes readers of events, on this node and on others.
    func noteEvents() {
        events.signal()
        announcer.announce(.events)
    }

    // MARK: Observers and health

    func observe(_ observer: @escaping @Sendable (StoreChange) -> Void) { observers.withLock { $0.append(observer) } }

    func tell(_ change: StoreChange) {
        guard change != StoreChange() else { return }
        let difference = Int64(change.accepted - change.ended.values.reduce(0, +))
        waitingCount.withLock { $0.add(difference) }
        for observer in observers.withLock({ $0 }) { observer(change) }
    }

    func noteSuccess() { failure.withLock { $0 = nil } }

    /// Throws when a newer program has changed the tables since the start, while this node stood still or was away.
    func refuseNewer(_ db: isolated PostgresConnection) throws(PostgresError) {
        do throws(PostgresError) {
            _ = try Schema.appliedSteps(db, options, Schema.steps)
            refusal.withLock { $0 = nil }
        } catch {
            guard case .declined(.newer(let sentence)) = error else { throw error }
            let isNews = refusal.withLock { refusal in
                defer { refusal = sentence }
                return refusal == nil
            }
            if isNews {
                logger.error(
                    "this node stops its work: a newer version has changed the store",
                    metadata: ["store.error": "\(sentence)"]
                )
            }
            throw error
        }
    }

    func noteFailure(_ error: PostgresError) {
        if case .closed = error { return }
        if case .declined(.newer) = error { return }  // ``refuseNewer(_:)`` has logged it.
        // Class 22 is a value that the server does not take: it says nothing about the server.
        if case .refused(let code, _) = error, code.hasPrefix("22") {
            logger.warning("the store's database refused a value", metadata: ["store.error": "\(error)"])
            return
        }
        let isNews = failure.withLock { failure in
            let isNews = failure.map { $0.at.duration(to: .now) > .seconds(10) } ?? true
            if isNews { failure = (error.description, .now) }
            return isNews
        }
        if isNews { logger.warning("the store's database failed", metadata: ["store.error": "\(error)"]) }
    }

    /// The last failure, or why the tables are refused; nil when the last call of the database succeeded.
    var lastFailure: String? { refusal.withLock { $0 } ?? failure.withLock { $0?.sentence } }

    // MARK: Rows

    /// Runs a statement that claims deliveries and returns ``DeliveryRow/columns``; returns the claims with the heads
    /// of their notifications.
    func claim(
        _ statement: String,
        _ parameters: [PostgresValue],
        within limit: Duration
    ) async throws(PostgresError) -> [Claim] {
        let found: [DeliveryRow]
        do throws(PostgresError) {
            found = try await claimer.single(statement, parameters, within: limit) { (rows) throws(PostgresError) in
                var found: [DeliveryRow] = []
                for row in 0..<rows.count {
                    if let delivery = DeliveryRow(rows, row) {
                        found.append(delivery)
                    } else {
                        self.logUnreadable(rows.integer(row, 0))
                    }
                }
                // Added here, before any other statement of this connection: see ``UnknownClaims``.
                self.inHand.add(found)
                return found
            }
        } catch {
            if case .broken = error { unknownClaims.note() }
            throw error
        }
        guard !found.isEmpty else { return [] }
        let heads: [Int64: NotificationHead]
        do throws(PostgresError) {
            heads = try await self.heads.heads(of: Set(found.map(\.notification)), on: claimer)
        } catch {
            // They are claimed, but no caller gets them.
            inHand.forget(found)
            unknownClaims.note()
            throw error
        }
        let claims: [Claim] = found.compactMap { row in
            guard let head = heads[row.notification] else {
                logUnreadable(row.id)
                return nil
            }
            return Claim(
                delivery: row.claimed(head),
                flow: row.flow,
                due: row.due,
                isUrgent: flows.flow(row.flow)?.isUrgent ?? true,
                collapse: row.collapse
            )
        }
        return claims
    }

    func logUnreadable(_ delivery: Int64?) {
        logger.error(
            "a waiting delivery cannot be read and is passed over: its row is damaged or from a newer version",
            metadata: ["delivery.number": .stringConvertible(delivery ?? 0)]
        )
    }

    func logUnreadable(_ notification: NotificationID) {
        logger.error(
            "a notification cannot be read and is passed over: its record is damaged or from a newer version",
            metadata: ["notification.id": "\(notification)"]
        )
    }

    /// Closes all connections.
    func disconnect() async {
        counts.withLock { $0.close() }
        counter.interrupt()
        for connection in connections { await connection.close() }
    }
}
