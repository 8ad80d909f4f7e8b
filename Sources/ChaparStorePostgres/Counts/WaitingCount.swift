internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// About how many deliveries have not ended: those of all nodes at the last count, and what this node has changed
/// since.
struct WaitingCount: Sendable {
    private var seen: Int64 = 0
    /// The number that this node has accepted, less what has ended on it.
    private var own: Int64 = 0
    private var ownWhenSeen: Int64 = 0
    /// The number of living nodes, with this one.
    var nodes: Int64 = 1

    private var since: Int64 { own.subtracting(clamping: ownWhenSeen) }

    /// The number as far as it is known.
    var known: Int64 { seen.adding(clamping: since) }

    /// The number if each other node has accepted as many since the last count as this one has.
    ///
    /// A node that keeps to a bound by this takes no more than its part of the room that it has seen, however long ago
    /// that was. So all nodes together keep to the bound.
    var most: Int64 { known.adding(clamping: max(0, since).multiplied(clamping: nodes.subtracting(clamping: 1))) }

    /// Adds the number that this node has accepted, less what has ended on it.
    mutating func add(_ difference: Int64) {
        own = own.adding(clamping: difference)
        // Deliveries that end here may have been accepted elsewhere since.
        if known < 0 { seen = Int64.zero.subtracting(clamping: since) }
    }

    /// This node's own changes when a count begins, for ``note(_:since:)``.
    var mark: Int64 { own }

    /// Records a count; what this node has changed since the count began is added, though the count may include it.
    mutating func note(_ waiting: Int64, since mark: Int64) { (seen, ownWhenSeen) = (max(0, waiting), mark) }
}

/// Finds how many deliveries have not ended, of all nodes.
///
/// Up to a small bound they are counted; otherwise the server's statistics of its sessions' inserts and deletes are
/// used. A session reports those once a second, and an idle one after ten seconds, which is little for a large bound.
/// For a bound in between they are counted now and then when they are near it.
struct WaitingEstimate {
    /// The largest bound for which each call counts.
    private static let mostCounted = 100_000
    /// The largest bound for which deliveries are counted when they are near it.
    private static let mostCountedNear = 1_000_000
    /// The longest time that a count may take: the round of ``Keeper`` waits for it.
    private static let longestCount = Duration.milliseconds(500)
    /// The longest time that the server may take for its own estimate.
    private static let longestEstimate = Duration.seconds(5)

    let core: StoreCore

    /// The pace of counts, which take a twentieth of a connection's time at most.
    struct Pace {
        private static let rest = 20
        private var next: ContinuousClock.Instant?

        func mayCount(at now: ContinuousClock.Instant) -> Bool { next.map { $0 <= now } ?? true }

        mutating func note(from begin: ContinuousClock.Instant, to end: ContinuousClock.Instant) {
            next = end + begin.duration(to: end) * Self.rest
        }
    }

    init(_ core: StoreCore) { self.core = core }

    /// Counts or estimates, and records the result.
    ///
    /// Between two counts near the bound the known number stays; when a count takes too long an estimate takes its
    /// place.
    func refresh() async throws(PostgresError) {
        let bound = core.options.maximumWaiting
        let mark = core.waitingCount.withLock { $0.mark }
        var found: Int64?
        if bound <= Self.mostCounted {
            found = try await count()
        } else if bound > Self.mostCountedNear || !isNearBound {
            found = try await estimate()
        } else {
            let begin = ContinuousClock.now
            guard core.exactCounts.withLock({ $0.mayCount(at: begin) }) else { return }
            found = try await count()
            core.exactCounts.withLock { $0.note(from: begin, to: .now) }
        }
        // Where counting takes too long the server's own estimate has to do: the known number misses what ends on other
        // nodes.
        if found == nil { found = try await estimate() }
        guard let found else { return }
        core.waitingCount.withLock { $0.note(found, since: mark) }
    }

    /// Whether more than half of the bound may be waiting, so that the number has to be known soon.
    var isNearBound: Bool { core.waitingCount.withLock { $0.most } > Int64(core.options.maximumWaiting) / 2 }

    /// Counts the deliveries; nil when that takes too long.
    private func count() async throws(PostgresError) -> Int64? {
        let most = core.options.maximumWaiting + 1
        let statement = "SELECT count(*) FROM (SELECT FROM chapar.waiting LIMIT \(most)) AS w"
        do throws(PostgresError) {
            return try await core.keeper.single(statement, [], within: Self.longestCount) {
                (rows) throws(PostgresError) in
                rows.integer(0, 0)
            }
        } catch {
            guard error.isTimeout else { throw error }
            return nil
        }
    }

    /// Estimates the deliveries by the server's statistics.
    ///
    /// A session reports its changes once a second at most, so near the bound those of this node are asked to do it
    /// now. A server that was restarted or took over has lost its statistics: after a new connection the table is
    /// analyzed. Where that takes too long the old estimate has to do.
    private func estimate() async throws(PostgresError) -> Int64 {
        if !core.keeper.isNew.load(ordering: .acquiring) {
            for connection in isNearBound ? [core.writer, core.recorder] : [] {
                // A connection that is away changes nothing at this moment.
                _ = try? await connection.session { (db) throws(PostgresError) in
                    try db.run("SELECT pg_stat_force_next_flush()").count
                }
            }
            return try await number("pg_stat_get_live_tuples(oid)")
        }
        do throws(PostgresError) {
            try await core.keeper.transaction { (db) throws(PostgresError) in
                try db.perform(
                    """
                    SET LOCAL statement_timeout = \(Self.longestEstimate.inMilliseconds);
                    ANALYZE (SKIP_LOCKED) chapar.waiting
                    """
                )
            }
        } catch {
            guard error.isTimeout else { throw error }
            return try await number("greatest(reltuples::bigint, pg_stat_get_live_tuples(oid))")
        }
        return try await number("pg_stat_get_live_tuples(oid)")
    }

    private func number(_ what: String) async throws(PostgresError) -> Int64 {
        try await core.keeper.session { (db) throws(PostgresError) in
            try db.run("SELECT \(what) FROM pg_class WHERE oid = 'chapar.waiting'::regclass").integer(0, 0) ?? 0
        }
    }
}
