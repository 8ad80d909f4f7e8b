internal import Foundation
internal import PushCore
internal import PushQueue

/// Looks for due deliveries for the calls that wait for some: one statement for all of them.
struct ClaimLoop {
    /// In ten deliveries of a backend one of normal priority has its turn, while both wait.
    private static let normalShare = 10

    let core: StoreCore
    /// What the normal priority of each backend has not had of its share, in tenths of deliveries.
    private var credits: [String: Int] = [:]

    init(_ core: StoreCore) { self.core = core }

    /// Works until the task is cancelled.
    mutating func run() async {
        while !Task.isCancelled {
            let mark = core.claimWaiters.signal.mark
            let tickets = core.claimWaiters.takeStirred(now: core.now)
            if tickets.isEmpty {
                let span = core.claimWaiters.expire(now: core.now)
                await core.claimWaiters.signal.wait(after: mark, atMost: .milliseconds(span), core.time)
            } else {
                await look(tickets)
            }
        }
    }

    private mutating func look(_ tickets: [String: [ClaimTicket]]) async {
        do throws(PostgresError) {
            try await core.followWallClock()
            try await core.releaseUnknown()
            for backend in tickets.keys where core.flows.isMoved(backend) { try await core.endMove(of: backend) }
            let orders = tickets.map { ClaimOrder($0.key, $0.value, flows: core.flows.numbers(of: $0.key)) }
            var filled = orders
            try await fill(&filled)
            for order in filled { hand(out: order) }
        } catch {
            for ticket in tickets.values.joined() { core.claimWaiters.complete(ticket, .failure(error.storeError)) }
            core.noteFailure(error)
        }
    }

    /// Claims for orders until each is filled or nothing more is due.
    private mutating func fill(_ orders: inout [ClaimOrder]) async throws(PostgresError) {
        do throws(PostgresError) {
            while true {
                var asked = ClaimRequest()
                for place in orders.indices {
                    let order = orders[place]
                    if order.isWithoutRivals {
                        credits[order.backend] = 0  // What was not there to be taken is not owed.
                    } else if order.claimed.isEmpty {
                        credits[order.backend, default: 0] += order.limit
                    }
                    let share = min(credits[order.backend, default: 0] / Self.normalShare, order.normalLeft)
                    asked.add(order, at: place, share: share)
                }
                guard !asked.flows.isEmpty else { return }
                let found = try await claim(asked)
                for (place, claim) in found {
                    orders[place].claimed.append(claim)
                    if !claim.isUrgent { credits[orders[place].backend, default: 0] -= Self.normalShare }
                }
                asked.noteWhatIsEmpty(found.map { ($0, $1.flow) }, in: &orders)
                for order in orders {
                    let credit = max(0, credits[order.backend] ?? 0)
                    credits[order.backend] = order.isWithoutRivals ? 0 : min(credit, max(Self.normalShare, order.limit))
                }
            }
        } catch {
            // What was claimed before belongs to nobody else: it goes to the callers.
            guard orders.contains(where: { !$0.claimed.isEmpty }) else { throw error }
            core.noteFailure(error)
        }
    }

    private func claim(_ asked: ClaimRequest) async throws(PostgresError) -> [(place: Int, Claim)] {
        let claims = try await core.claim(
            Self.statement,
            [
                .integers(asked.flows), .integers(asked.limits), .integers(asked.classes), .integers(asked.totals),
                .integer(core.now), .integer(core.nodeNumber),
            ]
        )
        return claims.compactMap { claim in asked.place(of: claim.flow).map { ($0, claim) } }
    }

    /// Takes the first of each flow, as many as its class may have in turns: `FOR UPDATE SKIP LOCKED` keeps two nodes off the same rows,
    /// and `MATERIALIZED` keeps the search from being done twice.
    private static let statement = """
        WITH found AS MATERIALIZED (
            SELECT w.place, w.id, a.class, a.total, row_number() OVER (PARTITION BY a.flow ORDER BY w.due, w.id) AS turn
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS a(flow, most, class, total)
            CROSS JOIN LATERAL (
                SELECT ctid AS place, id, due FROM chapar.waiting
                WHERE flow = a.flow AND owner IS NULL AND due <= $5
                ORDER BY due, id LIMIT a.most FOR UPDATE SKIP LOCKED
            ) AS w
        ), ranked AS MATERIALIZED (
            SELECT place, total, row_number() OVER (PARTITION BY class ORDER BY turn, id) AS rank FROM found
        )
        UPDATE chapar.waiting AS w SET owner = $6, lease = (SELECT nextval('chapar.leases'))
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
            if mine.isEmpty {
                empty.append(ticket)
            } else {
                core.claimWaiters.complete(
                    ticket,
                    .success(mine.sorted { ($0.due, $0.delivery.id) < ($1.due, $1.delivery.id) }.map(\.delivery))
                )
            }
        }
        core.claimWaiters.putBack(empty, isParked: true, now: core.now)
    }
}

/// A delivery that was claimed just now.
struct Claim: Sendable {
    var delivery: ClaimedDelivery
    var flow: Int64
    var due: Int64
    var isUrgent: Bool
    var collapse: Int64?
}

/// What the tickets of a backend want together, and what they got.
struct ClaimOrder {
    let backend: String
    let tickets: [ClaimTicket]
    let limit: Int
    private let normalLimit: Int
    fileprivate var urgentFlows: [Int64]
    fileprivate var normalFlows: [Int64]
    var claimed: [Claim] = []

    init(_ backend: String, _ tickets: [ClaimTicket], flows: (urgent: [Int64], normal: [Int64])) {
        self.backend = backend
        self.tickets = tickets.filter { $0.limit > 0 } + tickets.filter { $0.limit <= 0 }
        limit = tickets.reduce(0) { $0 + max(0, $1.limit) }
        normalLimit = tickets.reduce(0) { $0 + max(0, min($1.limit, $1.normal)) }
        (urgentFlows, normalFlows) = flows
    }

    /// Whether one of the two priorities has nothing that waits.
    fileprivate var isWithoutRivals: Bool { urgentFlows.isEmpty || normalFlows.isEmpty }

    var left: Int { limit - claimed.count }
    var normalLeft: Int { min(left, normalLimit - claimed.count { !$0.isUrgent }) }
}

/// What one statement is asked for: flows, how many of each, and how many of all flows of a class together.
struct ClaimRequest {
    private(set) var flows: [Int64] = []
    private(set) var limits: [Int64] = []
    private(set) var classes: [Int64] = []
    private(set) var totals: [Int64] = []
    private var places: [Int64: Int] = [:]

    func place(of flow: Int64) -> Int? { places[flow] }

    /// Asks for what an order still wants: of normal priority a share, and more where nothing urgent waits.
    mutating func add(_ order: ClaimOrder, at place: Int, share: Int) {
        guard order.left > 0 else { return }
        let normal = order.normalFlows.isEmpty ? 0 : order.urgentFlows.isEmpty ? order.normalLeft : share
        let urgent = order.urgentFlows.isEmpty ? 0 : order.left - normal
        add(order.urgentFlows, urgent, place, class: Int64(2 * place))
        add(order.normalFlows, normal, place, class: Int64(2 * place + 1))
    }

    private mutating func add(_ flows: [Int64], _ total: Int, _ place: Int, class number: Int64) {
        guard total > 0, !flows.isEmpty else { return }
        let each = (total + flows.count - 1) / flows.count
        for flow in flows {
            self.flows.append(flow)
            limits.append(Int64(each))
            classes.append(number)
            totals.append(Int64(total))
            places[flow] = place
        }
    }

    /// Leaves out from now on the flows that gave less than they were asked for; but where a class was filled nothing is known.
    func noteWhatIsEmpty(_ found: [(place: Int, flow: Int64)], in orders: inout [ClaimOrder]) {
        var counts: [Int64: Int64] = [:]
        for (_, flow) in found { counts[flow, default: 0] += 1 }
        var sums: [Int64: Int64] = [:]
        for (index, flow) in flows.enumerated() { sums[classes[index], default: 0] += counts[flow, default: 0] }
        for (index, flow) in flows.enumerated() where counts[flow, default: 0] < limits[index] {
            guard let place = places[flow], sums[classes[index], default: 0] < totals[index] else { continue }
            orders[place].urgentFlows.removeAll { $0 == flow }
            orders[place].normalFlows.removeAll { $0 == flow }
        }
    }
}
