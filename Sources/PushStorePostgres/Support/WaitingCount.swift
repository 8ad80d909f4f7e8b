internal import PushCore
internal import PushQueue
internal import Synchronization

/// About how many deliveries have not ended: those of all nodes as of the last look, and what this node has changed
/// since.
struct WaitingCount: Sendable {
    private var seen: Int64 = 0
    /// What this node has accepted, less what has ended on it.
    private var own: Int64 = 0
    private var ownWhenSeen: Int64 = 0
    /// The nodes that are alive, this one among them.
    var nodes: Int64 = 1

    private var since: Int64 { own.subtracting(clamping: ownWhenSeen) }

    /// As far as it is known.
    var known: Int64 { seen.adding(clamping: since) }

    /// What it can be when each other node has accepted as much since the last look as this one has.
    ///
    /// A node that keeps to a bound by this takes no more than its part of the room that it has seen, however long ago
    /// that was. So all of them together keep to the bound.
    var most: Int64 { known.adding(clamping: max(0, since).multiplied(clamping: nodes.subtracting(clamping: 1))) }

    /// Adds what this node has accepted, less what has ended on it.
    mutating func add(_ difference: Int64) {
        own = own.adding(clamping: difference)
        // What ends here may have been accepted elsewhere since.
        if known < 0 { seen = Int64.zero.subtracting(clamping: since) }
    }

    /// Where this node stands when a look begins, for ``note(_:since:)``.
    var mark: Int64 { own }

    /// Notes what a look found; what this node has changed since the look began counts beside it, though the look may
    /// have seen it.
    mutating func note(_ waiting: Int64, since mark: Int64) { (seen, ownWhenSeen) = (max(0, waiting), mark) }
}

/// Looks how many deliveries have not ended, of all nodes.
///
/// They are counted up to a small bound; else as the server counts what its sessions add and remove. A session tells
/// that once a second, and an idle one after ten, which is little of a large bound. Near one in between they are
/// counted, too, now and then.
struct WaitingEstimate {
    /// Up to this bound of what may wait, each look counts.
    private static let mostCounted = 100_000
    /// Up to this bound what waits is counted when it is near the bound.
    private static let mostCountedNear = 1_000_000
    /// The longest time that a count may take: the round of ``Keeper`` waits for it.
    private static let longestCount = Duration.milliseconds(500)
    /// The longest time that the server may take for its own estimate.
    private static let longestEstimate = Duration.seconds(5)

    let core: StoreCore

    /// When counting is cheap enough to be repeated: it takes a twentieth of a connection's time at most.
    struct Pace {
        private static let rest = 20
        private var next: ContinuousClock.Instant?

        func mayCount(at now: ContinuousClock.Instant) -> Bool { next.map { $0 <= now } ?? true }

        mutating func note(from begin: ContinuousClock.Instant, to end: ContinuousClock.Instant) {
            next = end + begin.duration(to: end) * Self.rest
        }
    }

    init(_ core: StoreCore) { self.core = core }

    /// Looks, and notes what it finds.
    ///
    /// Between two counts near the bound what is known stays; when a count takes too long an estimate takes its place.
    func look() async throws(PostgresError) {
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
        // Where counting takes too long the server's own estimate has to do: what is known misses what other nodes end.
        if found == nil { found = try await estimate() }
        guard let found else { return }
        core.waitingCount.withLock { $0.note(found, since: mark) }
    }

    /// Whether so much waits that it has to be known soon how much.
    var isNearBound: Bool { core.waitingCount.withLock { $0.most } > Int64(core.options.maximumWaiting) / 2 }

    /// How many there are; nil when counting them takes too long.
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

    /// How many there are by what the server's sessions say.
    ///
    /// A session tells what it added once a second at most, so near the bound those of this node are asked to do it
    /// now. A server that was started again or took over has forgotten all: after a new connection the table is
    /// estimated anew. Where that takes too long the old estimate must do.
    private func estimate() async throws(PostgresError) -> Int64 {
        if !core.keeper.isNew.load(ordering: .acquiring) {
            for connection in isNearBound ? [core.writer, core.recorder] : [] {
                // One that is away changes nothing at this moment.
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
