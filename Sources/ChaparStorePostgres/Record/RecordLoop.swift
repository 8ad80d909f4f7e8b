internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// An owner's request to record the results of its claims.
struct RecordRequest: Sendable {
    typealias EndEvent = @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]

    var resolutions: [Resolution]
    var event: EndEvent
    var continuation: CheckedContinuation<Result<Void, StoreError>, Never>
}

/// Records the results of claimed deliveries: one transaction for all that arrived during the one before.
///
/// Plain ends, which nearly all results are, take one statement. Everything else goes through ``SlowRecord``. While the
/// database is away results are kept, and recorded once it is back.
struct RecordLoop {
    private static let largestGroup = 5_000
    /// The pause before the next attempt when the database was away.
    private static let pause = Duration.milliseconds(200)

    let core: StoreCore
    let inbox: Inbox<RecordRequest>

    /// Works until the inbox is closed and empty.
    func run() async {
        while let groups = await inbox.take(groupsOfAtMost: Self.largestGroup, \.resolutions.count) {
            for requests in groups { await write(requests) }
        }
    }

    private func write(_ requests: [RecordRequest]) async {
        var (lacked, ended) = (false, false)
        while true {
            do throws(PostgresError) {
                try await commit(requests)
                core.noteSuccess()
                for request in requests {
                    core.inHand.remove(request.resolutions)
                    request.continuation.resume(returning: .success(()))
                }
                return
            } catch {
                // A conflict passes. A missing partition is made, and an ended connection opened, before the
                // repetition; when that does not help, the first is an error and the second an outage.
                let isKnown = error.lacksPartition ? lacked : error == .ended && ended
                if core.mayRepeat(error), !isKnown {
                    lacked = lacked || error.lacksPartition
                    ended = ended || error == .ended
                    continue
                }
                if let flow = error.missingFlow, await hasMade(flow) { continue }
                core.noteFailure(error)
                if error.isOutage, !inbox.isClosed {
                    try? await Task.sleep(for: Self.pause)  // This task is never cancelled; it ends with the inbox.
                    continue
                }
                if requests.count > 1, error.isOfOneRequest {
                    for request in requests { await write([request]) }
                } else {
                    for request in requests { request.continuation.resume(returning: .failure(error.storeError)) }
                }
                return
            }
        }
    }

    /// Makes a flow that is missing; returns whether recording may be tried again.
    private func hasMade(_ flow: Flow) async -> Bool {
        do throws(PostgresError) {
            try await core.flows.make([flow], on: core.recorder)
            return core.flows.number(of: flow) != nil
        } catch {
            return error.isOutage  // The next attempt reports it again.
        }
    }

    private func commit(_ requests: [RecordRequest]) async throws(PostgresError) {
        let all = requests.flatMap(\.resolutions)
        guard !all.isEmpty else { return }
        for resolution in all {
            if let refusal = RecordRules.refusal(of: resolution.transition, steps: nil) {
                throw .declined(refusal.error(of: resolution.delivery))
            }
        }
        let core = core
        try await core.refresh(core.recorder)
        let now = core.now
        try await core.prepareDay(now, on: core.recorder)
        let outcome: RecordOutcome
        if core.inHand.areSimple(all) {
            let simple = SimpleEnds(all, leases: core.inHand.leases(of: all), of: core.ownNumbers)
            try await core.lateEnds.note(all.lazy.map(\.delivery), now: now, on: core.recorder)
            let done = try await simple.write(now: now, on: core.recorder)
            var first = RecordOutcome(simple, done)
            if done.count < all.count {
                // The others were taken over by another node, or reported twice.
                let rest = requests.lacking(done)
                let more = try await core.recorder.transaction { (db) throws(PostgresError) in
                    var slow = SlowRecord(core)
                    try slow.record(rest, db)
                    return slow.outcome
                }
                first.merge(more)
            }
            outcome = first
        } else {
            outcome = try await core.recorder.transaction { (db) throws(PostgresError) in
                var slow = SlowRecord(core)
                try slow.record(requests.lacking([]), db)
                return slow.outcome
            }
        }
        for (backend, due) in outcome.stirred { core.stir(backend, due: due) }
        core.tell(outcome.change)
        if outcome.hasEvents { core.noteEvents() }
    }
}

extension [RecordRequest] {
    /// Returns their resolutions in order, without those at certain places.
    fileprivate func lacking(_ done: Set<Int>) -> [(Resolution, RecordRequest.EndEvent)] {
        var rest: [(Resolution, RecordRequest.EndEvent)] = []
        var place = 0
        for request in self {
            for resolution in request.resolutions {
                if !done.contains(place) { rest.append((resolution, request.event)) }
                place += 1
            }
        }
        return rest
    }
}

/// The effects of a transaction, to be reported after its commit.
struct RecordOutcome: Sendable {
    var change = StoreChange()
    var hasEvents = false
    /// The backends where something waits now, with the earliest due time.
    var stirred: [String: Int64] = [:]

    init() {}

    init(_ simple: SimpleEnds, _ done: Set<Int>) {
        for place in done { change.ended[simple.states[place], default: 0] += 1 }
        hasEvents = true
    }

    mutating func merge(_ other: RecordOutcome) {
        change.ended.merge(other.change.ended, uniquingKeysWith: +)
        change.ignored += other.change.ignored
        hasEvents = hasEvents || other.hasEvents
        stirred.merge(other.stirred, uniquingKeysWith: min)
    }

    mutating func stir(_ backend: String, due: Int64) { stirred[backend] = Swift.min(stirred[backend] ?? .max, due) }
}

/// Plain ends of claims in force, column by column, as one statement takes them.
///
/// The statement is the SQL form of one row of ``RecordRules/decide(_:mayHaveBeenSent:_:)``: an end that can be
/// recorded, of a delivery in the standing ``RecordFacts/Standing/claimed``. That row does not ask whether the delivery
/// was cancelled or replaced. ``SlowRecord`` takes deliveries that the statement does not find, and those with a
/// collapse key.
struct SimpleEnds: Sendable {
    private var ids: [Int64?] = []
    private let leases: [Int64?]
    /// The numbers of the node that has claimed them: a standby that took over may have given out a lease again.
    private let owners: [Int64]
    private(set) var states: [DeliveryState] = []
    private var attempts: [[UInt8]?] = []
    private var events: [[UInt8]?] = []
    private var messages: [Int64?] = []
    private var tokens: [Int64?] = []

    init(_ resolutions: [Resolution], leases: [Int64], of owners: [Int64]) {
        (self.leases, self.owners) = (leases, owners)
        for resolution in resolutions {
            guard
                case .end(let state) = RecordRules.decide(
                    resolution.transition,
                    mayHaveBeenSent: resolution.mayHaveBeenSent,
                    RecordFacts(.claimed)
                )
            else { continue }
            ids.append(resolution.delivery)
            states.append(state)
            attempts.append(resolution.attempt)
            events.append(resolution.event)
            messages.append(resolution.receipt?.messageHash)
            tokens.append(resolution.receipt?.tokenHash)
        }
    }

    /// Ends the deliveries whose claims are in force; returns their places.
    func write(now: Int64, on connection: PostgresConnection) async throws(PostgresError) -> Set<Int> {
        let parameters: [PostgresValue] = [
            .integers(ids), .integers(leases), .integers(states.map(\.code)), .byteArrays(attempts),
            .byteArrays(events),
            .integers(messages), .integers(tokens), .integer(now), .integers(owners),
        ]
        return try await connection.single(Self.statement, parameters) { (rows) throws(PostgresError) in
            Set((0..<rows.count).compactMap { rows.integer($0, 0).map { Int(count: $0) - 1 } })
        }
    }

    private static let statement = """
        WITH gone AS (
            DELETE FROM chapar.waiting w
            USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bigint[])
                WITH ORDINALITY AS a(id, lease, state, attempt, event, message, token, place)
            WHERE w.id BETWEEN a.id AND a.id AND w.lease = a.lease AND w.owner = ANY ($9) AND w.collapse IS NULL
            RETURNING w.id, w.notification, w.flow, w.recipient, w.attempt_log, a.state, a.attempt, a.event, a.message,
                a.token, a.place
        ), ended AS (
            INSERT INTO chapar.results (id, notification, flow, changed, state, recipient, attempt_log)
            SELECT id, notification, flow, $8, state, recipient, \(EndedDelivery.joinedLog) FROM gone
        ), expected AS (
            INSERT INTO chapar.awaited (delivery, message, token)
            SELECT id, message, token FROM gone WHERE message IS NOT NULL
        ), told AS (
            INSERT INTO chapar.events (at, count, texts)
            SELECT $8, count(*), array_agg(event ORDER BY place) FROM gone WHERE event IS NOT NULL HAVING count(*) > 0
        )
        SELECT place FROM gone
        """
}
