internal import ChaparQueue

/// Deliveries of a backend that this node has claimed before a call of `claim` asked for them: by the statement that
/// stored them, or ahead of the next call.
///
/// Under load a worker calls again right after the last transaction. Without prefetching it would claim the deliveries
/// of that transaction by a second statement, which writes each row once more. So deliveries that are accepted here are
/// kept for later calls, as many as were taken in the last ``span``. Deliveries that wait in the table are claimed
/// ahead of the next call, as many as one call takes (`ClaimWaiters.takeAhead`). Both happen only where many are taken.
/// At a slow platform everything waits in the table: there other nodes find it, a cancellation ends it, and callers
/// take turns.
struct PrefetchedClaims {
    /// The most deliveries that are kept.
    static let largest = 8_000
    /// The number of deliveries taken in a ``span`` below which nothing is prefetched for a backend.
    static let least = 500
    /// The time for which prefetched deliveries last at the pace at which they are taken.
    static let span = Duration.milliseconds(250)
    /// The longest time that a delivery is kept before it goes back to the table.
    static let longest = Duration.seconds(1)

    private var kept: [(claim: Claim, since: ContinuousClock.Instant)] = []
    private var urgent = 0
    /// The numbers of deliveries that were taken in the present span and in the one before it.
    private var taken: (now: Int, before: Int) = (0, 0)
    private var began = ContinuousClock.now

    var count: Int { kept.count }

    /// Returns how many more may be kept.
    mutating func room(at now: ContinuousClock.Instant = .now) -> Int {
        turn(now)
        let pace = max(taken.now, taken.before)
        return pace < Self.least ? 0 : max(0, min(pace, Self.largest) - count)
    }

    /// Counts deliveries that calls got, from here or from the table.
    mutating func noteTaken(_ count: Int, at now: ContinuousClock.Instant = .now) {
        turn(now)
        taken.now += count
    }

    private mutating func turn(_ now: ContinuousClock.Instant) {
        let passed = began.duration(to: now)
        guard passed >= Self.span else { return }
        taken = (0, passed < Self.span * 2 ? taken.now : 0)
        began = now
    }

    mutating func keep(_ claims: [Claim], at now: ContinuousClock.Instant = .now) {
        kept += claims.map { ($0, now) }
        urgent += claims.count(where: \.isUrgent)
    }

    /// Takes up to `limit` deliveries, at most `normal` of them of normal priority: urgent ones first, else the oldest.
    mutating func take(_ limit: Int, normal: Int) -> [Claim] {
        guard limit > 0, count > 0 else { return [] }
        guard urgent > 0 else { return removeFirst(min(limit, normal)) }
        let mine = kept.enumerated().filter(\.element.claim.isUrgent).prefix(limit)
        let rest = kept.enumerated().filter { !$0.element.claim.isUrgent }.prefix(min(limit - mine.count, normal))
        let places = Set(mine.map(\.offset)).union(rest.map(\.offset))
        kept = kept.enumerated().filter { !places.contains($0.offset) }.map(\.element)
        urgent -= mine.count
        return (mine + rest).map(\.element.claim)
    }

    /// Takes all deliveries when the oldest was kept for too long.
    mutating func takeOverdue(at now: ContinuousClock.Instant = .now) -> [Claim] {
        guard let since = kept.first?.since, since.duration(to: now) >= Self.longest else { return [] }
        return takeAll()
    }

    mutating func takeAll() -> [Claim] {
        urgent = 0
        return removeFirst(count)
    }

    private mutating func removeFirst(_ number: Int) -> [Claim] {
        let number = min(number, count)
        defer { kept.removeFirst(number) }
        return kept.prefix(number).map(\.claim)
    }
}

extension StoreCore {
    /// Gives claims back to the table that were kept too long for calls that did not come, or all claims.
    ///
    /// Deliveries that were cancelled meanwhile are kept: they end with their attempt, like any claimed one. Those that
    /// another node has taken over are forgotten.
    func releasePrefetched(all: Bool = false) async throws(PostgresError) {
        let overdue = claimWaiters.takeOverdue(all: all)
        guard !overdue.isEmpty else { return }
        let claims = overdue.values.flatMap { $0 }
        let owners = ownNumbers
        let found: [Int64: Bool]
        do throws(PostgresError) {
            found = try await claimer.session { (db) throws(PostgresError) in
                let rows = try db.run(
                    """
                    UPDATE chapar.waiting w SET owner = CASE WHEN w.flags & $4 = 0 THEN NULL ELSE w.owner END
                    FROM unnest($1::bigint[], $2::bigint[]) AS a(id, lease)
                    WHERE w.id BETWEEN a.id AND a.id AND w.lease = a.lease AND w.owner = ANY ($3) RETURNING w.id, w.owner IS NULL
                    """,
                    [
                        .integers(claims.map(\.delivery.id)), .integers(claims.map(\.delivery.lease)),
                        .integers(owners), .integer(DeliveryRow.Flags.cancelled.rawValue),
                    ]
                )
                var found: [Int64: Bool] = [:]
                for row in 0..<rows.count { found[rows.integer(row, 0) ?? 0] = rows.bool(row, 1) }
                return found
            }
        } catch {
            // It is unknown whether the update took place: no call of this node gets them.
            inHand.remove(claims)
            unknownClaims.note()
            throw error
        }
        inHand.remove(claims.filter { found[$0.delivery.id] != false })
        for (backend, claims) in overdue {
            var cancelled = claims.filter { found[$0.delivery.id] == false }
            for place in cancelled.indices { cancelled[place].delivery.isCancelled = true }
            if !cancelled.isEmpty { claimWaiters.keep(cancelled, of: backend) }
            if let due = claims.map(\.due).min() { stir(backend, due: due) }
        }
    }
}
