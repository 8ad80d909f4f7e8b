internal import Foundation
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// Stores new notifications: one transaction for all that arrived during the one before.
struct EnqueueLoop {
    /// The number of leases that are taken from the database at once.
    private static let leaseBlock: Int64 = 1_000
    /// The most deliveries in one transaction; a larger request has one of its own.
    private static let largestGroup = 5_000

    let core: StoreCore
    let inbox: Inbox<EnqueueRequest>
    /// The lease numbers for deliveries that are claimed as they are stored; later claims have higher ones.
    private var leases: Range<Int64> = 0..<0

    init(_ core: StoreCore, _ inbox: Inbox<EnqueueRequest>) {
        self.core = core
        self.inbox = inbox
    }

    /// Works until the inbox is closed and empty.
    mutating func run() async {
        while let groups = await inbox.take(groupsOfAtMost: Self.largestGroup, \.batch.deliveries) {
            for requests in groups { await commit(requests) }
        }
    }

    private mutating func commit(_ all: [EnqueueRequest]) async {
        var answers = EnqueueAnswers()
        let requests = await admitted(all, &answers)
        // A request that cannot be stored must not take the others with it.
        if requests.count > 1, let refused = await tryCommit(requests, &answers) {
            if refused.isOfOneRequest, refused != EnqueueRows.lostPlace {
                for request in requests {
                    if let error = await tryCommit([request], &answers) {
                        answers.add(request, .failure(error.storeError))
                    }
                }
            } else {
                for request in requests { answers.add(request, .failure(refused.storeError)) }
            }
        } else if requests.count == 1, let error = await tryCommit(requests, &answers) {
            answers.add(requests[0], .failure(error.storeError))
        }
        answers.send()
    }

    /// Returns the requests that fit into the queue together; adds a refusal to the answers for each of the others.
    private func admitted(_ all: [EnqueueRequest], _ answers: inout EnqueueAnswers) async -> [EnqueueRequest] {
        let bound = core.options.maximumWaiting
        await recount(of: all.reduce(0) { $0 + $1.batch.deliveries })
        let (most, nodes) = core.waitingCount.withLock { (Int(clamping: $0.most), Int(clamping: $0.nodes)) }
        var waiting = most
        var ofCallers: [String: Int] = [:]
        var requests: [EnqueueRequest] = []
        requests.reserveCapacity(all.count)
        for request in all {
            let (batch, callerCounts) = (request.batch, core.callerCounts)
            let ownBound = batch.ownBound(of: bound)
            callerCounts.note(bound: ownBound)
            let sum = waiting.adding(clamping: batch.deliveries)
            if sum <= bound, sum > ownBound, let caller = batch.sharingCaller {
                let more = batch.deliveries.adding(clamping: ofCallers[caller] ?? 0)
                await callerCounts.refresh(for: caller, more: more, bound: ownBound, nodes: nodes)
            }
            let refusal = batch.refusal(waiting: waiting, bound: bound) {
                callerCounts.of($0, nodes: nodes).adding(clamping: ofCallers[$0] ?? 0)
            }
            if let refusal {
                answers.add(request, .failure(refusal))
            } else {
                requests.append(request)
                // Other nodes may accept as much at the same time.
                waiting = waiting.adding(clamping: batch.deliveries.multiplied(clamping: nodes))
                if let caller = batch.sharingCaller { ofCallers[caller, default: 0] += batch.deliveries }
            }
        }
        return requests
    }

    /// Counts the waiting deliveries again when requests might be refused only because it is unknown what other nodes
    /// have accepted since the last count.
    private func recount(of more: Int) async {
        let bound = Int64(core.options.maximumWaiting)
        let (known, most) = core.waitingCount.withLock { ($0.known, $0.most) }
        guard most > known, known < bound, most.adding(clamping: Int64(more)) > bound else { return }
        // On a connection that was just opened the count would take long. When the count fails, the known one stays in
        // force; the keeper reports an outage.
        guard !core.keeper.isNew.load(ordering: .acquiring) else { return }
        try? await WaitingEstimate(core).refresh()
    }

    /// Commits requests and adds their answers; returns the error when nothing was stored, or when that is unknown.
    private mutating func tryCommit(_ requests: [EnqueueRequest], _ answers: inout EnqueueAnswers) async
        -> PostgresError?
    {
        var attempts = 0
        while true {
            do throws(PostgresError) {
                try await prepare(requests)
                let results = try await store(requests)
                for (request, result) in zip(requests, results) {
                    answers.add(request, .success(result))
                    guard result == .accepted, let caller = request.batch.sharingCaller else { continue }
                    core.callerCounts.add(request.batch.deliveries, of: caller)
                }
                core.noteSuccess()
                return nil
            } catch {
                attempts += 1
                if core.mayRepeat(error), attempts < 8 { continue }
                core.noteFailure(error)
                return error
            }
        }
    }

    /// Makes the flows, partitions and leases that are missing, which is rare.
    private mutating func prepare(_ requests: [EnqueueRequest]) async throws(PostgresError) {
        try await core.followWallClock()
        // A standby that took over may give out the same leases again.
        if try await core.refresh(core.writer) { leases = 0..<0 }
        var missing: Set<Flow> = []
        var days: Set<Int64> = [Partitions.day(core.now)]
        for new in requests.lazy.flatMap(\.batch.notifications) {
            days.insert(Partitions.day(ofNumber: new.id.rawValue))
            for plan in new.record.plans {
                guard let backend = plan.backends.first else { continue }
                let flow = Flow(backend: backend, isUrgent: new.isUrgent, caller: new.caller)
                if core.flows.number(of: flow) == nil { missing.insert(flow) }
            }
        }
        if !missing.isEmpty { try await core.flows.make(missing, on: core.writer) }
        let unmade = core.partitions.missing(days)
        if !unmade.isEmpty { try await core.partitions.make(unmade, on: core.writer) }
        if leases.isEmpty {
            let first = try await core.writer.session { (db) throws(PostgresError) in
                min(try db.run("SELECT nextval('chapar.leases')").integer(0, 0) ?? 1, NotificationID.highest)
            }
            leases = first..<first.adding(clamping: Self.leaseBlock)
        }
    }

    private mutating func store(_ requests: [EnqueueRequest]) async throws(PostgresError) -> [EnqueueResult] {
        let lease = leases.removeFirst()
        guard !requests.allSatisfy(\.isPlain) else {
            var rows = EnqueueRows(core, lease: lease)
            do throws(PostgresError) {
                for new in requests.lazy.flatMap(\.batch.notifications) { try rows.add(new) }
                for assignment in rows.assignments { core.inHand.add(assignment.claims) }
                try await rows.insert(on: core.writer)
            } catch {
                giveBack(rows.assignments, after: error)
                throw error
            }
            finish(rows, StoreChange(accepted: rows.count))
            return requests.map { _ in .accepted }
        }
        let core = core
        let given = Mutex<[EnqueueRows.Assignment]>([])
        let outcome: EnqueueOutcome
        do throws(PostgresError) {
            outcome = try await core.writer.transaction { (db) throws(PostgresError) in
                var outcome = EnqueueOutcome()
                outcome.results = try IdempotencyKeys.check(requests, now: core.now, db)
                try CampaignTable.write(requests, &outcome.results, db)
                let accepted = zip(requests, outcome.results).filter { $1 == .accepted }.map(\.0)
                // Batches go one after the other: with collapse IDs, notifications may replace each other.
                let batches = CollapseBatch.batches(accepted.flatMap(\.batch.notifications))
                try CollapseBatch.lock(batches, of: core.options.schema, db)
                for batch in batches {
                    var rows = EnqueueRows(core, lease: lease)
                    defer { given.withLock { $0 += rows.assignments } }
                    try batch.insert(into: &rows, core, &outcome.change, db)
                    for assignment in rows.assignments { core.inHand.add(assignment.claims) }
                    try rows.insert(db)
                    outcome.rows.append(rows)
                }
                return outcome
            }
        } catch {
            giveBack(given.withLock { $0 }, after: error)
            throw error
        }
        for rows in outcome.rows { finish(rows, StoreChange(accepted: rows.count)) }
        core.tell(outcome.change)
        return outcome.results
    }

    private struct EnqueueOutcome: Sendable {
        var results: [EnqueueResult] = []
        var rows: [EnqueueRows] = []
        var change = StoreChange()
    }

    /// Hands out the committed deliveries.
    private func finish(_ rows: EnqueueRows, _ change: StoreChange) {
        for (id, head) in rows.heads { core.heads.add(head, id) }
        for assignment in rows.assignments {
            if let ticket = assignment.ticket {
                core.claimWaiters.complete(ticket, .success(assignment.claims.map(\.delivery)))
            } else if !assignment.claims.isEmpty {
                core.claimWaiters.keep(assignment.claims, of: assignment.backend)
            }
        }
        for (backend, due) in rows.stirred { core.stir(backend, due: due) }
        core.tell(change)
        if !rows.events.isEmpty { core.noteEvents() }
    }

    /// Takes back the assignments of a transaction that failed, or whose commit is uncertain.
    private func giveBack(_ assignments: [EnqueueRows.Assignment], after error: PostgresError) {
        for assignment in assignments { core.inHand.remove(assignment.claims) }
        if case .broken = error, assignments.contains(where: { !$0.claims.isEmpty }) { core.unknownClaims.note() }
        core.claimWaiters.putBack(assignments.compactMap(\.ticket), isParked: false, now: core.now)
    }
}

extension EnqueueBatch {
    /// The caller whose deliveries count towards its share of the queue; nil where it may have all of it.
    fileprivate var sharingCaller: String? { share < 1 ? notifications.first?.caller : nil }
}

extension StoreChange {
    /// Makes a change that has acceptances only.
    init(accepted: Int) {
        self.init()
        self.accepted = accepted
    }
}

/// The idempotency keys of requests.
enum IdempotencyKeys {
    /// Returns the result of each request, and stores the keys of those that are accepted.
    ///
    /// It waits for a key that another node is storing at the same time: the database's unique index decides which was
    /// first.
    static func check(
        _ requests: [EnqueueRequest],
        now: Int64,
        _ db: isolated PostgresConnection
    ) throws(PostgresError) -> [EnqueueResult] {
        var results = requests.map { _ in EnqueueResult.accepted }
        var places: [Name: Int] = [:]
        for (place, request) in requests.enumerated() {
            guard let entry = request.batch.idempotency else { continue }
            if places[Name(entry)] != nil { results[place] = .keyInUse } else { places[Name(entry)] = place }
        }
        guard !places.isEmpty else { return results }
        // In one order, so that two nodes with the same keys do not deadlock.
        let entries = places.values.compactMap { requests[$0].batch.idempotency }
            .sorted { ($0.caller, $0.key) < ($1.caller, $1.key) }
        let kept = try db.run(
            """
            INSERT INTO chapar.idempotency AS i (caller, key, fingerprint, answer, keep)
            SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::bigint[])
            ON CONFLICT (caller, key) DO UPDATE
                SET fingerprint = excluded.fingerprint, answer = excluded.answer, keep = excluded.keep WHERE i.keep <= $6
            RETURNING caller, key
            """,
            [
                .texts(entries.map(\.caller)), .texts(entries.map(\.key)), .byteArrays(entries.map(\.fingerprint)),
                .byteArrays(entries.map(\.answer)), .integers(entries.map(\.keepUntil.millisecondsSince1970)),
                .integer(now),
            ]
        )
        var known = places
        for row in 0..<kept.count { known[Name(caller: kept.text(row, 0) ?? "", key: kept.text(row, 1) ?? "")] = nil }
        guard !known.isEmpty else { return results }
        let rows = try db.run(
            """
            SELECT i.* FROM unnest($1::text[], $2::text[]) AS a(caller, key) CROSS JOIN LATERAL (
                SELECT caller, key, fingerprint, answer FROM chapar.idempotency
                WHERE caller = a.caller AND key = a.key LIMIT 1
            ) AS i
            """,
            [.texts(known.keys.map(\.caller)), .texts(known.keys.map(\.key))]
        )
        for row in 0..<rows.count {
            let name = Name(caller: rows.text(row, 0) ?? "", key: rows.text(row, 1) ?? "")
            guard let place = known[name], let entry = requests[place].batch.idempotency else { continue }
            results[place] =
                rows.bytes(row, 2) == entry.fingerprint ? .replayed(answer: rows.bytes(row, 3) ?? []) : .keyReused
        }
        return results
    }

    private struct Name: Hashable {
        var caller: String
        var key: String

        init(caller: String, key: String) { (self.caller, self.key) = (caller, key) }
        init(_ entry: IdempotencyEntry) { (caller, key) = (entry.caller, entry.key) }
    }
}
