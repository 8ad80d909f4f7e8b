internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue

/// Claims due deliveries for the calls that wait: one statement for up to ``ClaimWaiters/mostBackends`` backends.
struct ClaimLoop {
    /// While both priorities of a backend wait, one of this many deliveries is of normal priority.
    private static let normalShare = 10

    let core: StoreCore
    /// The share that each backend's normal priority has not used yet, in tenths of a delivery.
    private var credits: [String: Int] = [:]
    private var marks = ClaimMarks()
    /// The steady time of the last search.
    private var latest = Int64.min
    /// The search, by backend, for work that is due before the marks: claims given back by this node or another, or
    /// rows whose commit took long.
    private var older: [String: IncrementalScan] = [:]
    private let scan: IncrementalScan
    /// The longest time that a search from the marks may take before the marks move to the present.
    private static let patience = Duration.seconds(1)
    private var patience = Self.patience

    init(_ core: StoreCore) {
        self.core = core
        scan = IncrementalScan(every: .seconds(1), cheap: core.options.cheapScan)
    }

    /// Works until the task is cancelled.
    mutating func run() async {
        while !Task.isCancelled {
            let mark = core.claimWaiters.signal.mark
            await releasePrefetched()
            let tickets = core.claimWaiters.takeStirred(now: core.now)
            if !tickets.isEmpty {
                await serve(tickets)
            } else if let (backend, amount) = core.claimWaiters.takeAhead() {
                await serve([backend: []], ahead: amount)
                core.claimWaiters.endAhead(backend)
            } else {
                let span = core.claimWaiters.expire(now: core.now)
                await core.claimWaiters.signal.wait(after: mark, atMost: .milliseconds(span), core.time)
            }
        }
    }

    /// Gives claims back to the table that were kept for calls that did not come.
    private func releasePrefetched() async {
        do throws(PostgresError) {
            try await core.releasePrefetched()
        } catch {
            core.noteFailure(error)
        }
    }

    /// Claims what the tickets of backends want; with `ahead` claims that amount, for a backend without tickets.
    private mutating func serve(_ tickets: [String: [ClaimTicket]], ahead: ClaimWaiters.Amount? = nil) async {
        do throws(PostgresError) {
            try await core.followWallClock()
            try await core.refresh(core.claimer)
            let now = core.now
            if now < latest { marks.goBack(to: now) }
            latest = now
            for backend in tickets.keys where core.flows.isMoved(backend) { try await core.endMove(of: backend) }
            var orders = tickets.map { backend, tickets in
                let flows = core.flows.numbers(of: backend)
                return ahead.map { ClaimOrder(backend, ahead: $0, flows: flows) }
                    ?? ClaimOrder(backend, tickets, kept: core.claimWaiters.kept(backend), flows: flows)
            }
            for order in orders where !order.isWithoutRivals { credits[order.backend, default: 0] += order.limit }
            try await claimOlder(&orders)
            try await fill(&orders)
            for order in orders { hand(out: order) }
        } catch {
            for ticket in tickets.values.joined() { core.claimWaiters.complete(ticket, .failure(error.storeError)) }
            core.noteFailure(error)
        }
    }

    /// Claims for orders until each is filled or nothing more is due.
    private mutating func fill(_ orders: inout [ClaimOrder]) async throws(PostgresError) {
        do throws(PostgresError) {
            while true {
                let now = core.now
                var asked = ClaimRequest()
                for place in orders.indices {
                    asked.add(orders[place], at: place, share: share(of: orders[place])) { flow in
                        ClaimRange(after: marks[flow], upTo: now)
                    }
                }
                guard !asked.flows.isEmpty else { return }
                let found: [Claim]
                do throws(PostgresError) {
                    found = try await claim(asked, within: patience)
                } catch {
                    guard error.isTimeout, patience < core.options.statementTimeout else { throw error }
                    leave(asked, now)
                    continue
                }
                patience = Self.patience
                take(found, asked, &orders)
                let empty = asked.empty(found)
                for order in orders.indices { orders[order].leaveOut(empty) }
                marks.raise(found, empty: empty, now: now)
            }
        } catch {
            // Earlier claims of this loop go to the callers: no other node has them.
            guard orders.contains(where: { !$0.claimed.isEmpty }) else { throw error }
            core.noteFailure(error)
        }
    }

    /// Moves the marks of flows to the present, since a search from them takes too long; ``claimOlder(_:)`` finds what
    /// they pass over.
    private mutating func leave(_ asked: ClaimRequest, _ now: Int64) {
        patience = min(patience * 2, core.options.statementTimeout)
        marks.raise([], empty: Set(asked.flows), now: now)
        core.logger.notice(
            """
            a search for due deliveries took too long, which happens while another session locks the table, or holds an \
            old snapshot (chapar doctor names it): what waits longest is searched for in portions from now on
            """
        )
    }

    /// Claims what is due before the marks, as far back as a search may go.
    private mutating func claimOlder(_ orders: inout [ClaimOrder]) async throws(PostgresError) {
        let (begin, scan) = (ContinuousClock.now, scan)
        var asked = ClaimRequest()
        for place in orders.indices {
            let backend = orders[place].backend
            let isWanted = core.claimWaiters.takeOlder(backend)
            if isWanted { older[backend, default: scan].isWanted = true }
            guard let newest = orders[place].flows.compactMap({ marks[$0]?.due }).max(),
                let due = older[backend, default: scan].range(newest: newest, begin)
            else { continue }
            asked.add(orders[place], at: place, share: share(of: orders[place])) { flow in
                marks[flow].flatMap { mark in
                    mark.due < due.lowerBound
                        ? nil
                        : ClaimRange(after: ClaimPlace(due: due.lowerBound, id: 0), upTo: min(mark.due, due.upperBound))
                }
            }
        }
        let backends = Set(asked.flows.compactMap { asked.place(of: $0) }).map { orders[$0].backend }
        guard !asked.flows.isEmpty else { return }
        do throws(PostgresError) {
            let limit = backends.compactMap { older[$0]?.limit }.min() ?? IncrementalScan.limit
            let found = try await claim(asked, within: limit)
            let took = begin.duration(to: .now)
            take(found, asked, &orders)
            let filled = Set(asked.flows).subtracting(asked.empty(found))
            if took < core.options.cheapScan { marks.lower(found.filter { filled.contains($0.flow) }) }
            for backend in backends { older[backend]?.end(took: took, isFilled: !filled.isEmpty) }
        } catch {
            guard error.isTimeout else { throw error }
            for backend in backends { older[backend]?.cut(took: begin.duration(to: .now)) }
        }
    }

    /// Returns how many deliveries of an order may be of normal priority while urgent ones wait.
    private mutating func share(of order: ClaimOrder) -> Int {
        if order.isWithoutRivals { credits[order.backend] = 0 }  // A share that could not be used is not owed.
        return min(credits[order.backend, default: 0] / Self.normalShare, order.normalLeft)
    }

    /// Puts claims into their orders.
    private mutating func take(_ found: [Claim], _ asked: ClaimRequest, _ orders: inout [ClaimOrder]) {
        for claim in found {
            guard let place = asked.place(of: claim.flow) else { continue }
            orders[place].claimed.append(claim)
            if !claim.isUrgent { credits[orders[place].backend, default: 0] -= Self.normalShare }
        }
        for order in orders {
            let credit = max(0, credits[order.backend] ?? 0)
            credits[order.backend] = order.isWithoutRivals ? 0 : min(credit, max(Self.normalShare, order.limit))
        }
    }

    private func claim(_ asked: ClaimRequest, within limit: Duration) async throws(PostgresError) -> [Claim] {
        try await core.claim(
            Self.statement,
            [
                .integers(asked.flows), .integers(asked.limits), .integers(asked.classes), .integers(asked.totals),
                .integers(asked.ranges.map(\.after.due)), .integers(asked.ranges.map(\.after.id)),
                .integers(asked.ranges.map(\.upTo)), .integer(core.nodeNumber),
            ],
            within: limit
        )
    }

    /// The statement that claims the first deliveries of each flow, in turns, up to the total of its class.
    ///
    /// `FOR UPDATE SKIP LOCKED` keeps two nodes off the same rows, and `MATERIALIZED` keeps the search from running
    /// twice.
    private static let statement = """
        WITH found AS MATERIALIZED (
            SELECT w.place, w.id, a.class, a.total, row_number() OVER (PARTITION BY a.flow ORDER BY w.due, w.id) AS turn
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
                AS a(flow, most, class, total, due, id, upto)
            CROSS JOIN LATERAL (
                SELECT ctid AS place, id, due FROM chapar.waiting
                WHERE flow = a.flow AND owner IS NULL AND (due, id) > (a.due, a.id) AND due <= a.upto
                ORDER BY due, id LIMIT a.most FOR UPDATE SKIP LOCKED
            ) AS w
        ), ranked AS MATERIALIZED (
            SELECT place, total, row_number() OVER (PARTITION BY class ORDER BY turn, id) AS rank FROM found
        )
        UPDATE chapar.waiting AS w SET owner = $8, lease = (SELECT nextval('chapar.leases'))
        WHERE w.ctid = ANY (ARRAY(SELECT place FROM ranked WHERE rank <= total))
        RETURNING \(DeliveryRow.columns)
        """

    /// Gives an order's deliveries to its tickets.
    private func hand(out order: ClaimOrder) {
        var urgent = order.claimed.filter(\.isUrgent)[...]
        var normal = order.claimed.filter { !$0.isUrgent }[...]
        var empty: [ClaimTicket] = []
        for ticket in order.tickets {
            var mine = urgent.prefix(ticket.limit)
            urgent = urgent.dropFirst(mine.count)
            let more = normal.prefix(min(ticket.limit - mine.count, ticket.normal))
            normal = normal.dropFirst(more.count)
            mine += more
            mine += core.claimWaiters.takeKept(
                ticket,
                limit: ticket.limit - mine.count,
                normal: ticket.normal - more.count
            )
            if mine.isEmpty {
                empty.append(ticket)
            } else {
                core.claimWaiters.complete(ticket, .success(mine.sorted(by: Claim.isEarlier).map(\.delivery)))
            }
        }
        // Claims that fit into no call, since there is none or each has its limit of normal priority, are kept for
        // later calls.
        let rest = (urgent + normal).sorted(by: Claim.isEarlier)
        if !rest.isEmpty { core.claimWaiters.keep(rest, of: order.backend) }
        if order.flows.isEmpty {
            core.claimWaiters.noteEmpty(order.backend)
        } else if order.isFilled {
            let isAhead = order.tickets.isEmpty
            let amount = ClaimWaiters.Amount(count: order.claimed.count, normal: order.normalLimit)
            let isForWorkers = isAhead || order.tickets.contains(where: \.waits)
            core.claimWaiters.noteFilled(order.backend, by: isForWorkers ? amount : nil, isAhead: isAhead)
        }
        core.claimWaiters.putBack(empty, isParked: true, now: core.now)
    }
}
